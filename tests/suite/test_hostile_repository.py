"""No repository breaks the suite: verdicts are those of a clean run."""

import collections
import importlib
import json
import os
import textwrap
from pathlib import Path

import pytest
from workers import WITH_WORKERS, WORKERS

import pytest_nvfp4
from pytest_nvfp4 import plugin
from pytest_nvfp4.specification.contracts import packaged
from pytest_nvfp4.suite.cases import cases_of, suite_files
from pytest_nvfp4.suite.marks import ARGUMENT
from pytest_nvfp4.suite.tools import CaseTools

CONTRACTS = "BUCK-2,NDOC-9,FIMP-1,PUBL-3,MERG-1,LOOK-2,DIAG-4,RANK-1"
LENIENT = "faulty.lenient:Lenient"

ONCE_FIXTURES = (
    *("binding", "binding_text", "cache_file", "description", "flashinfer", "fresh", "halves"),
    *("imported_file", "launch", "merge", "native", "native_file", "own", "plans", "record"),
    *("rng", "session", "subject", "watch", "write", "written"),
)
"""The names that fixtures of the suite had once."""

PYTEST_FIXTURES = (
    *("cache", "capfd", "caplog", "capsys", "monkeypatch", "pytestconfig", "record_property"),
    *("recwarn", "tmp_path", "tmp_path_factory", "tmpdir"),
)


def names_in_use():
    """Every name that the suite uses, or a fixture of the plugin has."""
    cases = [case for file in suite_files() for case in cases_of(file, packaged(), ["JSON lines"])]
    parameters = {name for case in cases for name in case.parameters}
    tools = {name for name in vars(CaseTools) if not name.startswith("_")}
    fixtures = {name for name in vars(plugin) if name.startswith("nvfp4_")}
    return parameters | tools | fixtures | {ARGUMENT, *ONCE_FIXTURES, *PYTEST_FIXTURES}


NAMES = sorted(names_in_use())
"""Found when this module is imported: the suite's files import numpy, which loads only once."""


INI = """
    [pytest]
    addopts = --strict-markers --strict-config --import-mode=importlib
    python_files = check_*.py
    python_functions = check_*
    python_classes = Check*
    filterwarnings = error
    usefixtures = tmp_path
    xfail_strict = true
"""

FIXTURES = """
    import pytest

    def failing(name):
        @pytest.fixture(name=name)
        def fixture():
            raise RuntimeError(f"the fixture {{name}} of the repository was used")
        return fixture

    for number, name in enumerate({names!r}):
        globals()[f"fixture_{{number}}"] = failing(name)

    @pytest.fixture(autouse=True)
    def before_each_test():
        raise RuntimeError("an autouse fixture was used")

    @pytest.fixture(autouse=True, scope="session", params=[1, 2])
    def before_all_tests():
        raise RuntimeError("an autouse fixture of the session was used")
"""

HOOKS = """
    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(items):
        items.reverse()
        for item in items:
            if "gpu" not in item.fixturenames:
                item.add_marker(pytest.mark.usefixtures("before_each_test"))

    @pytest.hookimpl(tryfirst=True)
    def pytest_generate_tests(metafunc):
        metafunc.fixturenames.append("flavour")
        metafunc.parametrize("flavour", ["vanilla", "lemon"])

    def pytest_make_parametrize_id(val):
        return "always the same"

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(item):
        item.user_properties.append(("verdict", "a property of the repository"))
        try:
            yield
        except Exception:
            pass

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(item, call):
        report = yield
        report.outcome = "passed"
        report.user_properties.append(("contract", "a property of the repository"))
        return report
"""


@pytest.fixture
def repository(pytester, monkeypatch, conformance):
    """``repository(*parts of a conftest.py)`` writes a hostile repository.

    The package lies below it, as in a virtual environment of its own, since only then do all hooks
    of its conftest.py apply to the suite.
    """

    def make(*parts):
        site = pytester.mkdir("site")
        package = Path(pytest_nvfp4.__file__).parent
        (site / "pytest_nvfp4").mkdir()
        for path in package.iterdir():
            (site / "pytest_nvfp4" / path.name).symlink_to(path)
        for name in ("conformance", "fixtures"):
            folder = importlib.import_module(f"pytest_nvfp4.{name}").__path__[0]
            (site / "pytest_nvfp4" / name).symlink_to(folder)
        monkeypatch.setenv("PYTHONPATH", f"{site}:{pytester.path}:{os.environ['PYTHONPATH']}")
        pytester.makeini(INI)
        source = "".join(map(textwrap.dedent, parts))
        (pytester.path / "conftest.py").write_text(source)

    return make


def cases(result):
    """(contract, case, transport) → verdict of a result's report."""
    return {
        (contract["id"], case["case"], case["transport"]): case["verdict"]
        for contract in result.report["contracts"]
        for case in contract["cases"]
    }


@pytest.mark.parametrize(
    ("impl", "workers"),
    [
        pytest.param("reference", "-n0", marks=pytest.mark.wide),
        ("reference", "-n2"),
        (LENIENT, "-n2"),
    ],
)
def test_verdicts_are_those_of_a_clean_run(repository, conformance, impl, workers):
    selection = (f"--nvfp4-contract={CONTRACTS}", "--tb=short")
    clean = conformance(*selection, impl=impl)
    repository(FIXTURES.format(names=NAMES), HOOKS)
    hostile = conformance(*selection, workers, impl=impl)
    assert cases(hostile) == cases(clean), hostile.stdout.str()
    found = {"passed", "skipped"} if impl == "reference" else {"passed", "skipped", "failed"}
    assert set(cases(clean).values()) == found
    assert hostile.ret == clean.ret == (0 if impl == "reference" else 1)
    assert "of the repository was used" not in hostile.stdout.str()


def test_names_of_tools_parameters_and_fixtures_are_found():
    found = {"nvfp4", "nvfp4_oracle", "folder", "watch", "damage", "field"}
    assert found <= set(NAMES)


SMALL = """
    from nvfp4_reference.adapter import Adapter

    class Small(Adapter):
        def describe(self):
            return super().describe() | {"capabilities": ["buckets", "tactics"]}
"""
NARROWING = {
    "nothing": "",
    "a case is deselected before the plugin looks": """
        import pytest
        @pytest.hookimpl(tryfirst=True)
        def pytest_collection_modifyitems(items):
            items[:] = [i for i in items if "zero_and_below" not in i.name]
    """,
    "a case is deselected after the plugin looks": """
        import pytest
        @pytest.hookimpl(trylast=True)
        def pytest_collection_modifyitems(config, items):
            config.hook.pytest_deselected(items=[items.pop()])
    """,
    "a case does not report": """
        def pytest_runtest_protocol(item):
            return True if "zero_and_below" in item.name else None
    """,
}


@pytest.mark.parametrize("narrowing", NARROWING)
@WORKERS
def test_a_case_that_is_left_out_makes_the_run_partial(
    repository, conformance, pytester, narrowing, workers
):
    repository(NARROWING[narrowing])
    badge = pytester.path / "badge.json"
    (pytester.path / "small.py").write_text(textwrap.dedent(SMALL))
    result = conformance(f"--nvfp4-badge={badge}", workers, impl="small:Small")
    assert result.report["summary"]["must"]["failed"] == 0
    complete = narrowing == "nothing"
    assert result.report["run"]["complete"] is complete
    shield = json.loads(badge.read_text())
    assert shield.get("isError", False) is not complete
    assert shield["message"].startswith("partial run") is not complete


def test_a_case_that_a_hook_replaces_is_an_error(repository, conformance, verdicts):
    repository(
        """
        import pytest
        @pytest.hookimpl(tryfirst=True)
        def pytest_runtest_setup(item):
            raise LookupError("no such engine")
        """
    )
    result = conformance("--nvfp4-contract=BUCK-2", "--tb=no")
    assert verdicts(result) == {"BUCK-2": "error"}
    case = result.report["contracts"][0]["cases"][0]
    assert case["message"] == (
        "a hook of the surrounding repository or of a plugin failed around this case: "
        "LookupError: no such engine"
    )


OWN_TESTS = """
    import pytest

    @pytest.mark.fresh_process
    def check_in_a_fresh_process(fresh):
        fresh.record("answer", 42)

    def check_properties(record_property):
        for name in ("contract", "case", "transport", "verdict", "nvfp4_verdict"):
            record_property(name, "a property of the repository")

    def check_that_fails(record_property):
        record_property("verdict", 7)
        assert False
"""


@WITH_WORKERS
def test_suite_and_own_tests_in_one_run(pytester, repository, conformance, workers):
    clean = conformance("--nvfp4-contract=BUCK-2,PUBL-3")
    repository("")
    (pytester.path / "check_own.py").write_text(textwrap.dedent(OWN_TESTS))
    result = conformance("--nvfp4-contract=BUCK-2,PUBL-3", workers, "check_own.py", "-rA")
    assert cases(result) == cases(clean), result.stdout.str()
    assert "INTERNALERROR" not in result.stdout.str() + result.stderr.str()
    result.stdout.fnmatch_lines_random(
        ["PASSED check_own.py::check_in_a_fresh_process*", "PASSED check_own.py::check_properties*"]
    )
    counts = collections.Counter(cases(clean).values())
    result.assert_outcomes(passed=counts["passed"] + 2, failed=1, skipped=counts["skipped"])
    assert result.ret == 1
