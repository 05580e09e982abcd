"""Settings: three places to make each, one precedence, and one sentence for each mistake."""

import os
import sys
from pathlib import Path

import pytest

from pytest_nvfp4.markers import options as marker_options
from pytest_nvfp4.suite.options import Settings


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch):
    for name in [name for name in os.environ if name.startswith("NVFP4_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def configured(pytester):
    """``configured(*arguments)`` is the configuration of a run of the plugin."""

    def make(*arguments):
        return pytester.parseconfigure(*arguments)

    return make


@pytest.fixture
def suite(configured):
    """``suite(*arguments)`` gives the suite's settings of such a run."""
    return lambda *arguments: Settings.of(configured("--nvfp4-impl=x", *arguments))


def test_no_implementation_is_a_usage_error(configured):
    with pytest.raises(pytest.UsageError, match="no implementation is named, .*--nvfp4-impl"):
        Settings.of(configured())


def test_paths_in_the_ini_file_start_at_its_folder(pytester, suite, monkeypatch):
    below = pytester.mkdir("below")
    pytester.makeini("[pytest]\nnvfp4_report = a b.json\nnvfp4_badge = x.svg 'y z.json'\n")
    monkeypatch.chdir(below)
    found = suite(f"--rootdir={pytester.path}", f"-c{pytester.path / 'tox.ini'}")
    assert found.report == pytester.path / "a b.json"
    assert found.badges == (pytester.path / "x.svg", pytester.path / "y z.json")
    monkeypatch.setenv("NVFP4_REPORT", "c.json")
    assert suite(f"-c{pytester.path / 'tox.ini'}").report == below / "c.json"
    found = suite(f"-c{pytester.path / 'tox.ini'}", "--nvfp4-report=d.json")
    assert found.report == below / "d.json"
    assert found.sources["report"] == "--nvfp4-report"
    assert found.sources["badge"] == "nvfp4_badge in the ini file"


def test_a_lock_path_in_the_ini_file_starts_at_its_folder(pytester, configured, monkeypatch):
    pytester.makepyprojecttoml("[tool.pytest.ini_options]\nnvfp4_lock_path = 'gpu'\n")
    monkeypatch.chdir(pytester.mkdir("below"))
    config = configured(f"-c{pytester.path / 'pyproject.toml'}")
    assert marker_options.lock_path(config) == str(pytester.path / "gpu")
    monkeypatch.setenv("NVFP4_LOCK_PATH", "gpu")
    assert marker_options.lock_path(config) == str(pytester.path / "below" / "gpu")


@pytest.mark.parametrize("form", ["[pytest]\nnvfp4_lock = true\nnvfp4_no_fresh = on\n"])
def test_flags_are_unset_from_a_place_that_wins(pytester, configured, monkeypatch, form):
    pytester.makeini(form)
    assert marker_options.whole_run_wanted(configured())
    assert not marker_options.fresh_wanted(configured())
    assert not marker_options.whole_run_wanted(configured("--no-nvfp4-lock"))
    assert marker_options.fresh_wanted(configured("--nvfp4-fresh"))
    monkeypatch.setenv("NVFP4_LOCK", "0")
    monkeypatch.setenv("NVFP4_NO_FRESH", "off")
    assert not marker_options.whole_run_wanted(configured())
    assert marker_options.fresh_wanted(configured())
    assert marker_options.whole_run_wanted(configured("--nvfp4-lock"))


@pytest.mark.parametrize(
    ("ini", "says"),
    [
        ("nvfp4_lock = perhaps", "nvfp4_lock in the ini file .* write true or false"),
        ("nvfp4_lock_timeout = soon", "nvfp4_lock_timeout in the ini file is 'soon'; use a number"),
        ("nvfp4_imp = x", "the ini name nvfp4_imp sets nothing; did you mean nvfp4_impl?"),
        ("nvfp4_fresh = true", "did you mean nvfp4_no_fresh?"),
    ],
)
def test_a_mistake_in_the_ini_file_is_a_usage_error(pytester, configured, ini, says):
    pytester.makeini(f"[other]\nnvfp4_level = x\n[pytest]\n{ini}\n")
    with pytest.raises(pytest.UsageError, match=says):
        configured()


@pytest.mark.parametrize("table", ["tool.pytest.ini_options", "tool.x"])
def test_a_misspelt_name_in_a_toml_file(pytester, configured, table):
    pytester.makepyprojecttoml(f"[{table}]\nnvfp4_contracts = 'BUCK'\n")
    if table == "tool.x":
        configured()
        return
    with pytest.raises(pytest.UsageError, match="did you mean nvfp4_contract?"):
        configured()


def test_a_misspelt_name_among_overrides(configured):
    with pytest.raises(pytest.UsageError, match="nvfp4_reports sets nothing"):
        configured("-onvfp4_reports=x.json")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("NVFP4_IMP", "NVFP4_IMPL"),
        ("NVFP4_CONFORMENCE", "NVFP4_CONFORMANCE"),
        ("NVFP4_LOCKPATH", "NVFP4_LOCK_PATH"),
        ("NVFP4_REFERENCE_BACK_END", None),
        ("NVFP4_VLLM_CACHE_HELPER", None),
        ("NVFP4_LOCK_HOLDS", None),
        ("NVFP4_ADAPTER_OF_OTHERS", None),
    ],
)
def test_a_misspelt_variable(configured, monkeypatch, name, meant):
    monkeypatch.setenv(name, "")
    if meant is None:
        configured()
        return
    with pytest.raises(pytest.UsageError, match=f"variable {name} .* did you mean {meant}?"):
        configured()


def test_a_file_that_cannot_be_written_is_an_error_before_the_run(pytester, suite):
    taken = pytester.mkdir("taken.json")
    Path("file").write_text("content")
    for value, why in (
        (taken, "it is a folder"),
        ("file/r.json", r"Not a directory \(.*/file\)"),
        ("x" * 300 + ".json", "File name too long"),
        ("/proc/r.json", ""),
    ):
        before = sorted(pytester.path.rglob("*"))
        with pytest.raises(pytest.UsageError, match=f"where no file can be written: {why}"):
            suite(f"--nvfp4-report={value}")
        assert sorted(pytester.path.rglob("*")) == before


def test_trying_to_write_leaves_and_changes_nothing(pytester, suite):
    Path("old.json").write_text("content")
    before = sorted(pytester.path.rglob("*"))
    found = suite("--nvfp4-report=old.json", "--nvfp4-html=new/folder/page.html")
    suite("--nvfp4-badge=old.json", "--nvfp4-reproducers=new")
    assert found.html == pytester.path / "new/folder/page.html"
    assert Path("old.json").read_text() == "content"
    assert sorted(pytester.path.rglob("*")) == before


def test_a_folder_without_permission(pytester, suite):
    if os.geteuid() == 0:
        pytest.skip("needs a user other than root, whom no folder refuses")
    pytester.mkdir("closed").chmod(0o500)
    with pytest.raises(pytest.UsageError, match="Permission denied"):
        suite("--nvfp4-write-deviations=closed/known.toml")


def test_help_lists_every_setting_whatever_else_is_wrong(pytester, monkeypatch):
    monkeypatch.setenv("NVFP4_IMP", "x")
    result = pytester.runpytest_inprocess("--help", "--nvfp4-conformance")
    assert result.ret == 0
    for line in ("*--nvfp4-contract=IDS*", "*--no-nvfp4-lock*", "*--nvfp4-fresh *", "*nvfp4_impl*"):
        result.stdout.fnmatch_lines([line])


def test_the_suite_without_its_libraries_is_a_usage_error(configured, monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(pytest.UsageError, match=r"needs ml_dtypes, .* 'pytest-nvfp4\[suite\]'"):
        configured("--nvfp4-conformance", "--nvfp4-impl=reference")
    configured()
