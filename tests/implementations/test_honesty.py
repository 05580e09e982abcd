"""What is claimed and fails, and what answers and is not claimed, are both listed."""

import sys
import types

import pytest
from nvfp4_reference.adapter import CAPABILITIES as ALL
from nvfp4_reference.adapter import Adapter

from pytest_nvfp4.cli import main
from pytest_nvfp4.implementations import smoke
from pytest_nvfp4.implementations.loader import load
from pytest_nvfp4.implementations.smoke import examine
from pytest_nvfp4.implementations.subject import Subject
from pytest_nvfp4.implementations.transports import IN_PROCESS, InProcess


class Claiming:
    """The reference, but with other claims, and without some operations."""

    def __init__(self, claims, *without):
        self._reference = Adapter()
        self._claims, self._without = list(claims), without

    def __getattr__(self, name):
        if name in self._without:
            raise AttributeError(name)
        return getattr(self._reference, name)

    def describe(self):
        return self._reference.describe() | {"capabilities": self._claims}


def answering(adapter):
    subject = Subject(InProcess(adapter))
    return smoke.answering(subject, subject.describe())


def test_everything_that_answers_without_a_claim_is_listed():
    assert answering(Claiming(ALL)) == []
    others = set(ALL) - {"frozen", "capture-guard", "fresh-process"}
    assert set(answering(Claiming([]))) == others, "all but those without an operation of their own"
    assert set(answering(Claiming(["merge", "buckets"]))) == others - {"merge", "buckets"}


@pytest.mark.parametrize("operation", ["bucket", "profiles"])
def test_capability_with_one_operation_missing_does_not_answer(operation):
    rest = [name for name in ALL if name != "buckets"]
    assert answering(Claiming(rest)) == ["buckets"]
    assert answering(Claiming(rest, operation)) == []


def test_a_device_answers_only_where_there_is_a_gpu():
    class OnAGpu(Claiming):
        def describe(self):
            told = super().describe()
            return told | {"native_metadata": told["native_metadata"] | {"architecture": 90}}

    assert answering(OnAGpu(ALL)) == ["device"]


def test_what_no_good_input_can_be_made_for_is_not_tried():
    class Bare(Claiming):
        def describe(self):
            return super().describe() | {"native_metadata": None, "import_metadata": None}

    found = answering(Bare([]))
    assert "buckets" in found
    assert not {"native-document", "merge", "publication", "flashinfer-import"} & set(found)


@pytest.fixture
def module(monkeypatch):
    made = types.ModuleType("made_up_claims")
    made.adapter = Claiming(["buckets", "merge", "tactics"], "profiles", "tactic_digest")
    monkeypatch.setitem(sys.modules, "made_up_claims", made)


def test_claims_that_fail_are_all_listed(module):
    examined = examine(load("made_up_claims:adapter"), IN_PROCESS, 10)
    assert examined.failing == ["buckets", "tactics"]
    assert examined.problem.startswith("profiles: it is missing, though the capability buckets")
    assert examined.problem.endswith("(also failing: tactic_digest)")


CLAIMS_AND_HIDES = """
from nvfp4_reference.adapter import Adapter

class Hiding(Adapter):
    profiles = None

    def describe(self):
        return super().describe() | {"capabilities": ["buckets", "options"]}

class Hanging(Adapter):
    def describe(self):
        return super().describe() | {"capabilities": ["options"]}

    def bucket(self, m):
        import os
        os._exit(3)

class Tidy(Adapter):
    def describe(self):
        return super().describe() | {"capabilities": ["options", "buckets"]}
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "hiding_adapter", raising=False)
    (tmp_path / "hiding_adapter.py").write_text(CLAIMS_AND_HIDES)
    return tmp_path


def test_smoke_command_lists_both(here, capsys):
    assert main(["smoke", "hiding_adapter:Hiding"]) == 1
    output = capsys.readouterr().out
    assert output.count("  claimed, but failing: buckets\n") == 2, "over both transports"
    line = next(line for line in output.splitlines() if line.startswith("not claimed"))
    assert line.startswith("not claimed, but answering: tactics, native-document, flashinfer-")


def test_asking_ends_where_the_adapter_dies(here, capsys):
    assert main(["smoke", "hiding_adapter:Hanging"]) == 0
    assert "but answering" not in capsys.readouterr().out


def test_run_lists_what_is_not_claimed_in_its_header(here, pytester, monkeypatch):
    monkeypatch.chdir(pytester.path)
    monkeypatch.setenv("PYTHONPATH", f"{here}:{':'.join(filter(None, sys.path))}")
    result = pytester.runpytest_subprocess(
        *("-p", "nvfp4", "--nvfp4-conformance", "--nvfp4-impl=hiding_adapter:Tidy"),
        "--nvfp4-contract=BUCK-2",
    )
    result.stdout.fnmatch_lines(["nvfp4: not claimed, but answering: tactics, native-document*"])
    result = pytester.runpytest_subprocess(
        *("-p", "nvfp4", "--nvfp4-conformance", "--nvfp4-impl=reference"),
        "--nvfp4-contract=BUCK-2",
    )
    result.stdout.no_fnmatch_line("*but answering*")
