"""The suite runs inside any repository, whatever that has configured for its own tests."""

import pytest
from workers import BOTH_WAYS

HOSTILE_INI = """
    [pytest]
    addopts = --strict-markers --strict-config --import-mode={mode} -p no:randomly
    testpaths = checks
    python_files = check_*.py
    python_functions = check_*
    python_classes = Check*
    filterwarnings = error
    xfail_strict = true
    markers = gpu: needs a GPU
    nvfp4_impl = reference
"""
HOSTILE_CONFTEST = """
    import os
    import pytest

    @pytest.fixture(autouse=True)
    def elsewhere(tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("HOME", "/nonexistent")
        monkeypatch.setenv("VT_FP4_AUTOTUNE_CACHE_READONLY", "perhaps")
        os.umask(0o077)

    @pytest.fixture(autouse=True, scope="session")
    def for_the_session():
        yield
"""


@pytest.fixture
def hostile(pytester):
    def make(mode):
        pytester.makeini(HOSTILE_INI.format(mode=mode))
        pytester.makeconftest(HOSTILE_CONFTEST)
        checks = pytester.mkdir("checks")
        (checks / "check_own.py").write_text("def check_own(): assert True\n")

    return make


SELECTION = ("--nvfp4-contract", "BUCK-2,NDOC-11,FIMP-1,PUBL-10,PATH-7")


@pytest.mark.parametrize("mode", ["prepend", "append", "importlib"])
def test_hostile_configuration(hostile, conformance, verdicts, mode):
    hostile(mode)
    result = conformance(*SELECTION)
    assert result.ret == 0, result.stdout.str()
    assert set(verdicts(result).values()) == {"passed"}
    result.stdout.no_fnmatch_line("*check_own*")


@BOTH_WAYS
def test_with_and_without_workers(hostile, conformance, verdicts, workers):
    hostile("importlib")
    result = conformance(*SELECTION, workers)
    assert result.ret == 0, result.stdout.str()
    assert set(verdicts(result).values()) == {"passed"}


def test_own_tests_run_too_where_they_are_named(hostile, conformance):
    hostile("prepend")
    result = conformance("--nvfp4-contract", "BUCK-2", "checks", "-v")
    result.stdout.fnmatch_lines(["*check_own PASSED*"])
    assert result.ret == 0
    assert result.report["summary"]["must"]["passed"] == 1


@pytest.mark.parametrize("plugin", [("-p", "nvfp4"), ("-p", "nvfp4", "-p", "nvfp4")], ids=len)
def test_without_autoload_and_with_errors_for_warnings(conformance, monkeypatch, plugin):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    result = conformance("--nvfp4-contract", "BUCK", "-W", "error", plugin=plugin)
    assert result.ret == 0, result.stdout.str() + result.stderr.str()
    result.stdout.no_fnmatch_line("*warnings summary*")


def test_without_autoload_with_workers(conformance, monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    result = conformance(
        "--nvfp4-contract", "BUCK", "-n2", "-W", "error", plugin=("-p", "nvfp4", "-p", "xdist")
    )
    assert result.ret == 0, result.stdout.str() + result.stderr.str()
    assert result.report["summary"]["must"]["passed"] == 3


def test_autoloaded_plugin_leaves_ordinary_runs_alone(pytester):
    pytester.makepyfile("def test_it(): pass")
    result = pytester.runpytest_subprocess("-W", "error", "--strict-markers")
    result.assert_outcomes(passed=1)
    assert "conformance" not in result.stdout.str()


def test_own_adapter_in_the_rootdir_is_found(pytester, conformance, verdicts, monkeypatch):
    monkeypatch.syspath_prepend(pytester.path)
    pytester.makepyfile(
        my_adapter="""
        class Adapter:
            def describe(self):
                return {"protocol": 1, "name": "mine", "version": "1", "language": "Python",
                        "homepage": "", "capabilities": ["buckets"]}
            def bucket(self, m):
                return max(1, m)
            def profiles(self, maximum):
                return [maximum]
        """
    )
    result = conformance(impl="my_adapter:Adapter")
    found = verdicts(result)
    assert {i: found[i] for i in ("BUCK-1", "BUCK-2", "BUCK-3")} == {
        "BUCK-1": "failed",
        "BUCK-2": "failed",
        "BUCK-3": "failed",
    }
    assert found["PATH-1"] == found["NDOC-1"] == "not_claimed"
    result.stdout.fnmatch_lines(["*mine 1 (Python) against specification*"])


def test_ids_of_cases_do_not_depend_on_where_the_suite_lies(conformance):
    result = conformance("--nvfp4-contract", "BUCK-2", "--collect-only", "-q")
    result.stdout.fnmatch_lines(
        ["conformance/test_buckets.py::test_profile_list_of_a_maximum*1-in-process*"]
    )
