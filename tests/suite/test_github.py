"""A run on GitHub Actions annotates the adapter and fills the summary of its step."""

import sys

import pytest
from workers import WITH_WORKERS

ADAPTER = """
# The adapter begins in line 3.
class Adapter:
    def describe(self):
        return {"protocol": 1, "name": "mine::x", "version": "1", "language": "Python",
                "homepage": "", "capabilities": ["buckets"]}
    def bucket(self, m):
        return max(1, m)
    def profiles(self, maximum):
        return [maximum]
"""


@pytest.fixture
def adapter(pytester, monkeypatch):
    monkeypatch.syspath_prepend(pytester.path)
    (pytester.path / "source").mkdir()
    (pytester.path / "source" / "__init__.py").write_text("")
    (pytester.path / "source" / "my_adapter.py").write_text(ADAPTER)
    return "source.my_adapter:Adapter"


def annotations(result):
    return [line for line in result.outlines if line.startswith("::")]


@WITH_WORKERS
def test_failures_are_annotated_and_summarised(
    conformance, pytester, monkeypatch, adapter, workers
):
    page = pytester.path / "page.md"
    page.write_text("before\n")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(pytester.path))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(page))
    result = conformance("--nvfp4-contract", "BUCK", workers, impl=adapter)
    assert result.ret == 1
    found = annotations(result)
    assert len(found) == 3
    for line, contract in zip(found, ("BUCK-1", "BUCK-2", "BUCK-3"), strict=True):
        head = f"::error file=source/my_adapter.py,line=3,title={contract} failed::"
        assert line.startswith(head), line
    text = page.read_text()
    assert text.startswith("before\n### nvfp4 plan cache: mine&#58;&#58;x 1")
    assert text.count("### nvfp4 plan cache") == 1, "workers write no page of their own"
    assert "| BUCK" in text
    assert "**BUCK-1** failed (MUST)" in text


def test_without_github_there_is_neither(conformance, pytester, adapter):
    result = conformance("--nvfp4-contract", "BUCK", impl=adapter)
    assert annotations(result) == []
    assert "::error" not in result.stdout.str()


def test_adapter_outside_the_repository_gets_no_place(conformance, pytester, monkeypatch, adapter):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(pytester.mkdir("elsewhere")))
    result = conformance("--nvfp4-contract", "BUCK-2", impl=adapter)
    assert [line.split("::")[1] for line in annotations(result)] == ["error title=BUCK-2 failed"]


def test_executable_is_annotated_at_the_file_that_is_text(conformance, pytester, monkeypatch):
    program = pytester.path / "liar.py"
    program.write_text(
        "import json, sys\n"
        "about = {'protocol': 1, 'name': 'liar', 'version': '1', 'language': 'x',\n"
        "         'homepage': '', 'capabilities': ['buckets']}\n"
        "for line in sys.stdin:\n"
        "    request = json.loads(line)\n"
        "    answer = {'describe': about, 'bucket': 1, 'profiles': [1]}.get(request['op'])\n"
        "    print(json.dumps({'seq': request['seq'], 'ok': answer}), flush=True)\n"
    )
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(pytester.path))
    impl = f"exec:{sys.executable} liar.py"
    result = conformance("--nvfp4-contract", "BUCK-2", impl=impl)
    (line,) = annotations(result)
    assert line.startswith("::error file=liar.py,line=1,title=BUCK-2 failed::")


def test_page_that_cannot_be_written_is_an_error(conformance, pytester, monkeypatch):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(pytester.path / "no" / "page.md"))
    result = conformance("--nvfp4-contract", "BUCK-2")
    assert result.ret == 4
    result.stdout.fnmatch_lines(["ERROR: cannot write */no/page.md: No such file or directory"])
