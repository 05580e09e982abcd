"""Every use of what upstream does not document: each test fails with one sentence where it changes.

The runs of pytest in here have a plugin of a few lines that calls `pytest_nvfp4.upstream`, and no
other plugin than pytest's own and those that are named.
"""

import ast
import importlib.metadata
import inspect
import os
import re
import sys
from pathlib import Path

import pytest

from pytest_nvfp4.upstream import items, reports, runs, snapshots, workers

ROOT = Path(__file__).parent.parent / "pytest_nvfp4"


def changed(package, what, function):
    """The one sentence that a failure says."""
    version = importlib.metadata.version(package)
    place = f"{function.__module__}.{function.__name__}"
    return f"{package} {version} {what}; change {place}"


@pytest.fixture
def run(pytester, monkeypatch):
    """``run(conftest=…, tests=…)`` runs pytest in a process of its own and gives its output."""
    for name in os.environ:
        if name.startswith("PYTEST_") and name != "PYTEST_CURRENT_TEST":
            monkeypatch.delenv(name)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    def start(*arguments, conftest="", tests="def test_it(): pass", head=""):
        imports = "import pytest\n"
        imports += "from pytest_nvfp4.upstream import items, reports, runs, snapshots, workers\n"
        pytester.makeconftest(imports + inspect.cleandoc(conftest))
        pytester.makepyfile(test_file=head + inspect.cleandoc(tests))
        quiet = () if "-pno:terminal" in arguments else ("-q",)
        result = pytester.runpytest_subprocess("-s", *quiet, *arguments)
        return f"{result.stdout}\n{result.stderr}"

    return start


# --- pytest-xdist


TO_WORKERS = """
def pytest_configure_node(node):
    workers.send_to_worker(node, "there", [1, "two"])

def pytest_sessionfinish(session):
    back = [workers.is_worker(session.config), workers.received(session.config).get("there")]
    workers.send_to_controller(session.config, "back", back)

def pytest_testnodedown(node):
    print("RETURNED", workers.returned_by(node).get("back"))
"""


def test_data_goes_to_workers_and_back(run):
    output = run("-p", "xdist", "-n1", conftest=TO_WORKERS)
    assert "RETURNED [True, [1, 'two']]" in output, changed(
        "pytest-xdist", "does not carry workerinput and workeroutput as before", workers.received
    )


def test_a_run_without_workers_sends_and_receives_nothing(run):
    conftest = """
        def pytest_sessionfinish(session):
            workers.send_to_controller(session.config, "back", 1)
            print("NONE", workers.is_worker(session.config), workers.received(session.config))
    """
    assert "NONE False {}" in run(conftest=conftest)
    assert workers.returned_by(object()) == {}


def test_a_stand_in_receives_what_a_worker_does(run):
    conftest = """
        import pytest
        def pytest_configure_node(node):
            node.workerinput["mine"] = node.gateway.id
        @pytest.hookimpl(trylast=True)
        def pytest_sessionstart(session):
            if workers.is_worker(session.config):
                print("KEYS", sorted(workers.received(session.config)))
                workers.send_to_controller(
                    session.config, "keys", sorted(workers.received(session.config)))
            else:
                print("STAND-IN", sorted(workers.input_for_stand_in(session.config)))
        def pytest_testnodedown(node):
            print("WORKER", workers.returned_by(node)["keys"])
    """
    output = run("-p", "xdist", "-n1", conftest=conftest)
    found = dict(re.findall(r"(STAND-IN|WORKER) (\[.*\])", output))
    assert found["STAND-IN"] == found["WORKER"], changed(
        "pytest-xdist", "sends workers other values than before", workers.input_for_stand_in
    )


def test_plugins_leave_files_to_the_parent_where_they_see_a_worker(run, pytester):
    conftest = """
        @pytest.hookimpl(tryfirst=True)
        def pytest_configure(config):
            workers.become_worker(config, {"workerid": "master"})
    """
    run("--junitxml=out.xml", conftest=conftest)
    assert not (pytester.path / "out.xml").exists(), changed(
        "pytest", "writes a JUnit file in what has workerinput", workers.become_worker
    )


# --- Runs


def test_what_is_collected_can_be_replaced_while_a_run_is_configured(run, pytester):
    pytester.makepyfile(test_other="def test_other(): pass", test_third="def test_third(): pass")
    conftest = """
        def pytest_configure(config):
            runs.collect_only(config, ["test_other.py"])
    """
    output = run("-v", "test_file.py", conftest=conftest)
    assert ("test_other.py" in output, "test_file.py" in output) == (True, False), changed(
        "pytest", "does not collect what Config.args says", runs.collect_only
    )


@pytest.mark.parametrize("named", [[], ["test_file.py"], ["test_file.py", "test_other.py"]])
def test_what_is_collected_can_be_added_to(run, pytester, named):
    pytester.makepyfile(test_other="def test_other(): pass", test_third="def test_third(): pass")
    conftest = """
        def pytest_configure(config):
            runs.collect_also(config, ["test_other.py"])
    """
    output = run("--collect-only", *named, conftest=conftest)
    found = re.findall(r"(test_\w+\.py)::", output)
    wanted = ["test_other.py"] if not named else ["test_file.py", "test_other.py"]
    assert found == wanted, changed(
        "pytest", "does not tell named paths from default ones as before", runs.collect_also
    )


def test_an_option_can_be_set(run):
    conftest = """
        def pytest_addoption(parser):
            parser.addoption("--mine", dest="mine")
        def pytest_configure(config):
            assert runs.set_option(config, "mine", "seven")
            assert not runs.set_option(config, "no_such_option", "seven")
    """
    tests = "def test_it(request): assert request.config.getoption('mine') == 'seven'"
    assert "1 passed" in run(conftest=conftest, tests=tests), changed(
        "pytest", "does not let Config.option be written to", runs.set_option
    )


def test_a_child_writes_none_of_its_parents_files(run, pytester):
    (pytester.path / "kept.log").write_text("kept")
    conftest = """
        @pytest.hookimpl(tryfirst=True)
        def pytest_configure(config):
            runs.leave_files_to_parent(config, basetemp="own", color="yes")
    """
    tests = "def test_it(tmp_path): print('FOLDER', tmp_path.parent.name)"
    options = ("--log-file=kept.log", "--basetemp=parents", "--cache-clear")
    (pytester.path / ".pytest_cache").mkdir()
    (pytester.path / ".pytest_cache" / "CACHEDIR.TAG").write_text("kept")
    output = run(*options, conftest=conftest, tests=tests)
    sentence = changed("pytest", "has other options for its files", runs.leave_files_to_parent)
    assert "FOLDER own" in output, sentence
    assert "\x1b[" in output, sentence
    assert (pytester.path / "kept.log").read_text() == "kept", sentence
    assert (pytester.path / ".pytest_cache" / "CACHEDIR.TAG").exists(), sentence
    assert not (pytester.path / "parents").exists(), sentence


def test_pytest_can_be_silenced(run, pytester):
    conftest = """
        @pytest.hookimpl(trylast=True)
        def pytest_configure(config):
            workers.become_worker(config, {})
            runs.silence(config)
        def pytest_unconfigure(config):
            print("ONLY THIS", config.pluginmanager.has_plugin("terminalreporter"))
    """
    output = run("--lf", "--nf", conftest=conftest, tests="def test_it(): assert False")
    sentence = changed(
        "pytest", "writes to the terminal or the cache by other plugins", runs.silence
    )
    assert output.split() == ["ONLY", "THIS", "True"], sentence
    assert not list(pytester.path.glob(".pytest_cache/v/cache/*")), sentence


@pytest.mark.parametrize(
    ("option", "wanted"),
    [("--color=yes", True), ("--color=no", False), ("-pno:terminal", None)],
)
def test_whether_a_run_has_colours(run, option, wanted):
    conftest = """
        def pytest_sessionstart(session):
            print("COLOURS", runs.colored(session.config))
    """
    assert f"COLOURS {wanted}" in run(option, conftest=conftest), changed(
        "pytest", "has another terminal writer", runs.colored
    )


def test_fixtures_can_be_torn_down_without_a_teardown_of_a_test(run):
    conftest = """
        @pytest.fixture(scope="module")
        def wide():
            yield
            print("ENDED")
        def pytest_runtest_teardown(item):
            print("TEARDOWN", item.name)
        @pytest.hookimpl(tryfirst=True)
        def pytest_runtest_protocol(item, nextitem):
            if item.name == "test_elsewhere":
                runs.tear_down(item, nextitem)
                return True
    """
    tests = """
        import pytest
        @pytest.mark.usefixtures("wide")
        def test_here(): pass
        def test_elsewhere(): pass
    """
    output = run(conftest=conftest, tests=tests)
    assert re.findall("TEARDOWN .*|ENDED", output) == ["TEARDOWN test_here", "ENDED"], changed(
        "pytest", "tears fixtures down by another plugin than runner", runs.tear_down
    )


def test_a_run_can_be_made_to_fail_at_its_end(run):
    conftest = """
        @pytest.hookimpl(tryfirst=True)
        def pytest_sessionfinish(session):
            runs.set_exit_status(session, 4)
        def pytest_unconfigure(config):
            print("STATUS", runs.exit_status(config.pluginmanager.get_plugin("session")))
    """
    output = run(conftest=conftest)
    assert "STATUS 4" in output, changed(
        "pytest", "takes a run's exit status from elsewhere", runs.set_exit_status
    )


def test_what_pytest_exit_was_called_with():
    with pytest.raises(pytest.exit.Exception) as raised:
        pytest.exit("enough", returncode=7)
    assert runs.exit_request(raised.value) == {"reason": "enough", "returncode": 7}, changed(
        "pytest", "keeps the arguments of pytest.exit elsewhere", runs.exit_request
    )


# --- Tests


@pytest.mark.parametrize(("one", "two"), [pytest.param(1, 2, id="ids")])
def test_a_test_knows_its_parameters(request, one, two):
    assert items.parameters(request.node) == ("ids", {"one": one, "two": two}), changed(
        "pytest", "keeps a test's parameters elsewhere than in callspec", items.parameters
    )


def test_a_test_without_parameters_has_none(request):
    assert items.parameters(request.node) is None


@pytest.mark.parametrize("mode", ["prepend", "append", "importlib"])
def test_a_module_keeps_its_name_and_gets_a_node_id(run, mode):
    conftest = """
        import importlib
        def pytest_pycollect_makemodule(module_path, parent):
            module = importlib.import_module("test_file")
            return items.module_of(pytest.Module, parent, path=module_path, nodeid="chosen", module=module)
    """
    tests = "def test_it(request): print('ID', request.node.nodeid, __name__)"
    output = run(
        f"--import-mode={mode}",
        conftest="import sys; sys.path.insert(0, '.')\n" + inspect.cleandoc(conftest),
        tests=tests,
    )
    assert "ID chosen::test_it test_file" in output, changed(
        "pytest", "makes module collectors in another way", items.module_of
    )


def test_a_function_knows_its_marks():
    @pytest.mark.gpu_lock
    @pytest.mark.skipif("second")
    def function(): ...

    names = [mark.name for mark in items.marks_of(function)]
    assert names == ["gpu_lock", "skipif"], changed(
        "pytest", "keeps a function's marks elsewhere than in pytestmark", items.marks_of
    )
    assert items.marks_of(len) == []


def test_a_fixture_knows_its_name(run):
    conftest = """
        @pytest.fixture(name="called")
        def of_another_name(): pass
        def pytest_fixture_setup(fixturedef):
            print("NAME", items.fixture_name(fixturedef))
    """
    output = run(conftest=conftest, tests="def test_it(called): pass")
    assert "NAME called" in output, changed(
        "pytest", "keeps a fixture's name elsewhere than in argname", items.fixture_name
    )


# --- Reports


def test_expected_failures_are_told_from_other_reports(run):
    conftest = """
        def pytest_runtest_logreport(report):
            if report.when == "call":
                print("REPORT", report.outcome, reports.expected_failure(report))
        @pytest.hookimpl(wrapper=True)
        def pytest_runtest_makereport(item, call):
            report = yield
            if report.failed and item.name == "test_c":
                reports.expect_failure(report, "known")
            return report
    """
    tests = """
        import pytest
        @pytest.mark.xfail(reason="soon")
        def test_a(): assert False
        @pytest.mark.xfail(reason="late")
        def test_b(): pass
        def test_c(): assert False
        def test_d(): pass
    """
    output = run(conftest=conftest, tests=tests)
    found = re.findall("REPORT (.*)", output)
    assert found == ["skipped soon", "passed late", "skipped known", "passed None"], changed(
        "pytest", "marks expected failures otherwise than by wasxfail", reports.expected_failure
    )
    assert "1 passed, 2 xfailed, 1 xpassed" in output, changed(
        "pytest", "does not take a report with wasxfail for xfailed", reports.expect_failure
    )


def test_a_report_can_be_made(request):
    made = reports.made_report(
        request.node, "why", "teardown", sections=[("Title", "text")], duration=1.5
    )
    assert (made.failed, made.when, made.longreprtext, made.duration) == (
        True,
        "teardown",
        "why",
        1.5,
    ), changed("pytest", "makes reports in another way", reports.made_report)
    assert made.sections == [("Title", "text")]
    assert reports.is_phase(made)


# What a run's reports are when they were data meanwhile, in JSON.
THROUGH_JSON = """
import json

@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if call.when == "call":
        report.extra = "extra"
        report.odd = object()
        item.user_properties[:] = report.user_properties = [("good", 1), ("bad", object())]
    data, attributes, properties = reports.to_data(item.config, report)
    if call.when == "call":
        print("LEFT OUT", list(attributes), [name for name, _ in properties])
    again = reports.from_data(item, json.loads(json.dumps(data)))
    if call.when == "call":
        print("AGAIN", again.extra, again.user_properties, reports.is_phase(again))
    item.user_properties.clear()
    return again
"""


def test_reports_survive_being_data(run):
    tests = """
        import pytest
        def test_fails():
            value = 3
            assert value == 4
        def test_skips():
            pytest.skip("not here")
    """
    output = run("-rs", conftest=THROUGH_JSON, tests=tests)
    sentence = changed("pytest", "makes other data of reports", reports.to_data)
    assert "LEFT OUT ['odd'] ['bad']" in output, sentence
    assert "AGAIN extra [('good', 1)] True" in output, sentence
    assert "assert value == 4" in output, sentence
    assert "where" in output or "assert 3 == 4" in output, sentence
    assert re.search(r"SKIPPED \[1\] test_file.py:\d+: not here", output), sentence


def test_a_reports_data_can_be_made_to_fail(request):
    report = reports.made_report(request.node, "", "call")
    report.outcome, report.longrepr = "passed", None
    data, attributes, properties = reports.to_data(request.config, report)
    reports.fail(data, "why")
    again = reports.from_data(request.node, data)
    assert not attributes
    assert not properties
    assert (again.failed, again.longreprtext) == (True, "why"), changed(
        "pytest", "names outcome and explanation otherwise", reports.fail
    )


def test_an_explanation_that_was_an_object_stays_one(request):
    class Odd:
        def toterminal(self, writer):
            writer.line("odd")

        def __str__(self):
            return "odd"

    report = reports.made_report(request.node, "", "call")
    report.longrepr = Odd()
    data = reports.to_data(request.config, report).data
    again = reports.from_data(request.node, data)
    assert not isinstance(again.longrepr, str)
    assert again.longreprtext == "odd", changed(
        "pytest", "shows explanations that are objects otherwise", reports.from_data
    )


@pytest.mark.skipif(not hasattr(pytest, "SubtestReport"), reason="pytest before 9.0")
def test_reports_of_subtests_survive_being_data(run):
    tests = """
        def test_it(subtests):
            with subtests.test("named", number="one"):
                assert False
    """
    conftest = """
        import json
        def pytest_runtest_logreport(report):
            if reports.is_phase(report):
                return
            data = reports.to_data(config_of[0], report).data
            first = report.context.kwargs
            again = reports.from_data(items_of[0], json.loads(json.dumps(data)))
            print("SAME", again.context.kwargs == first, type(again).__name__)
        config_of, items_of = [], []
        def pytest_collection_finish(session):
            config_of.append(session.config)
            items_of.append(session.items[0])
    """
    output = run(conftest=conftest, tests=tests)
    assert "SAME True SubtestReport" in output, changed(
        "pytest", "makes other data of subtests' reports", reports.from_data
    )


def test_a_warning_can_be_given_to_all_plugins(run):
    conftest = """
        import warnings
        def pytest_runtest_call(item):
            message = warnings.WarningMessage(UserWarning("text"), UserWarning, "place.py", 7)
            reports.record_warning(item, message)
    """
    output = run(conftest=conftest)
    assert "place.py:7: UserWarning: text" in output, changed(
        "pytest", "records warnings in another way", reports.record_warning
    )


def test_frames_of_pytest_are_known_by_their_path():
    for module in ("_pytest.runner", "pluggy._manager"):
        assert reports.is_internal_frame(sys.modules[module].__file__), changed(
            "pytest", f"lies elsewhere than {module}", reports.is_internal_frame
        )
    assert not reports.is_internal_frame(__file__)


# --- syrupy


@pytest.mark.parametrize("kept", [True, False])
def test_syrupy_can_be_kept_from_deleting(run, pytester, kept):
    tests = """
        def test_one(snapshot): assert 1 == snapshot
        def test_two(snapshot): assert 2 == snapshot
    """
    run("-p", "syrupy", "--snapshot-update", tests=tests)
    conftest = """
        @pytest.hookimpl(tryfirst=True)
        def pytest_sessionfinish(session):
            snapshots.keep_unused(session.config)
    """
    tests = "def test_one(snapshot): assert 3 == snapshot"
    run("-p", "syrupy", "--snapshot-update", conftest=conftest if kept else "", tests=tests)
    text = (pytester.path / "__snapshots__" / "test_file.ambr").read_text()
    sentence = changed("syrupy", "deletes unused snapshots by other options", snapshots.keep_unused)
    assert ("test_two" in text) is kept, sentence
    assert "  3" in text or "\n3\n" in text, sentence


def test_syrupys_extension_has_the_methods_that_ours_overrides():
    from syrupy.extensions.base import AbstractSyrupyExtension

    from pytest_nvfp4.snapshot.extension import PlanMapExtension

    for name, ours in vars(PlanMapExtension).items():
        if name.startswith("_"):
            continue
        theirs = getattr(AbstractSyrupyExtension, name, None)
        assert theirs is not None, changed(
            "syrupy", f"has no {name} in its extension any more", PlanMapExtension
        )
        if callable(theirs):
            wanted = set(inspect.signature(theirs).parameters)
            given = inspect.signature(getattr(PlanMapExtension, name)).parameters
            takes_any = any(one.kind is one.VAR_KEYWORD for one in given.values())
            assert takes_any or wanted == set(given), changed(
                "syrupy", f"calls {name} of an extension with other arguments", PlanMapExtension
            )
        assert ours is not None


# --- The one door

# Names that only `pytest_nvfp4.upstream` may use: attributes, and texts that name a plugin or more.
ATTRIBUTES = {
    "args": ("config", "_config"),  # of a Config only: marks and exceptions have `args`, too
    "option": ("config", "_config"),
    "argname": (),
    "call_historic": (),
    "callspec": (),
    "exitstatus": (),
    "get_hookimpls": (),
    "get_plugins": (),
    "get_terminal_writer": (),
    "obj": (),
    "pytestmark": (),
    "returncode": ("error", "excinfo"),
    "subset_hook_caller": (),
    "wasxfail": (),
    "workerinput": (),
    "workeroutput": (),
}
TEXTS = {
    *("_pytest", "/_pytest/", "/pluggy/", "_subtest.context", "file_or_dir", "toterminal"),
    *("capturemanager", "terminalreporter", "lfplugin", "nfplugin", "stepwiseplugin"),
    *("callspec", "pytestmark", "wasxfail", "workerinput", "workeroutput", "longrepr"),
    *("update_snapshots", "warn_unused_snapshots", "disable_unused_snapshots"),
}
PACKAGES = ("_pytest", "pluggy", "syrupy", "xdist")
EXTENSION = ROOT / "snapshot" / "extension.py"  # implements what syrupy documents


def uses(path):
    """Each use of such a name in a file: its line, and the name."""
    for node in ast.walk(ast.parse(path.read_text())):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Attribute) and node.attr in ATTRIBUTES:
            owners = ATTRIBUTES[node.attr]
            owner = node.value
            name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
            if not owners or name in owners:
                yield line, node.attr
        elif isinstance(node, ast.Constant) and node.value in TEXTS:
            yield line, node.value
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names]
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else names
            for module in modules:
                if module.partition(".")[0] in PACKAGES and path != EXTENSION:
                    yield line, module
        elif isinstance(node, ast.Call):
            made = isinstance(node.func, ast.Attribute) and node.func.attr == "from_parent"
            if made and any(keyword.arg == "nodeid" for keyword in node.keywords):
                yield line, "from_parent(nodeid=…)"


def test_only_one_package_uses_what_is_not_documented():
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        inside = path.relative_to(ROOT)
        if inside.parts[0] != "upstream":
            for line, name in uses(path):
                found.setdefault(str(inside), []).append(f"{line}: {name}")
    assert found == {}, "give it to pytest_nvfp4.upstream"
