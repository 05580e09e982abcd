"""`--snapshot-update` deletes nobody's snapshot, whatever became of the test.

Every project also has a test of syrupy's own, so that syrupy looks through the snapshot folder for
what it takes for unused.
"""

import json

import pytest
from workers import BOTH_WAYS, WORKERS

ORDINARY = """
def test_ordinary(snapshot):
    assert [1, 2] == snapshot
"""

# Runs marked tests in a child, and replays its reports: what isolation plugins do.
CHILDREN = """
import json, os, subprocess, sys
import pytest

def pytest_configure(config):
    config.addinivalue_line("markers", "child: run in a child process")
    global reporting
    reporting = config

def pytest_runtest_protocol(item):
    if "REPORTS" in os.environ or item.get_closest_marker("child") is None:
        return None
    path = f"{item.config.rootpath}/reports-{os.getpid()}"
    update = ["--snapshot-update"] if item.config.option.update_snapshots else []
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "nvfp4", "-n0", *update, item.nodeid],
        env={**os.environ, "REPORTS": path}, cwd=item.config.rootpath, stdout=subprocess.DEVNULL,
    )
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    with open(path) as file:
        lines = file.readlines()
    for line in lines:
        report = item.config.hook.pytest_report_from_serializable(
            config=item.config, data=json.loads(line)
        )
        item.ihook.pytest_runtest_logreport(report=report)
    os.unlink(path)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True

def pytest_runtest_logreport(report):
    if "REPORTS" in os.environ:
        data = reporting.hook.pytest_report_to_serializable(config=reporting, report=report)
        with open(os.environ["REPORTS"], "a") as file:
            print(json.dumps(data), file=file)
"""

VICTIMS = """
@pytest.mark.skip(reason="marked")
def test_marked_skip(nvfp4_snapshot): assert PLANS == nvfp4_snapshot

@pytest.mark.skipif(True, reason="not here")
@pytest.mark.parametrize("a", ["x/y", "plain"])
def test_skipif(nvfp4_snapshot, a): assert PLANS == nvfp4_snapshot

def test_skips_inside(nvfp4_snapshot):
    pytest.skip("no GPU")
    assert PLANS == nvfp4_snapshot

def test_skips_between(nvfp4_snapshot):
    assert PLANS == nvfp4_snapshot
    pytest.skip("no second GPU")
    assert PLANS == nvfp4_snapshot(name="second")

@pytest.mark.xfail(reason="known")
def test_xfails(nvfp4_snapshot):
    raise ValueError
    assert PLANS == nvfp4_snapshot

@pytest.mark.xfail(run=False, reason="crashes")
def test_xfail_not_run(nvfp4_snapshot): assert PLANS == nvfp4_snapshot

def test_fails_before(nvfp4_snapshot):
    raise ValueError
    assert PLANS == nvfp4_snapshot

@pytest.fixture
def broken(): raise ValueError

def test_setup_fails(broken, nvfp4_snapshot): assert PLANS == nvfp4_snapshot

class TestSkipped:
    @pytest.fixture(autouse=True)
    def skipping(self): pytest.skip("all of them")
    def test_it(self, nvfp4_snapshot): assert PLANS == nvfp4_snapshot
"""
RECORDED = (
    "test_marked_skip",
    "test_skipif[x/y]",
    "test_skipif[plain]",
    "test_skips_inside",
    "test_xfails",
    "test_xfail_not_run",
    "test_fails_before",
    "test_setup_fails",
    "TestSkipped.test_it",
)

PAIR = """
def test_first(nvfp4_snapshot): assert PLANS == nvfp4_snapshot

@pytest.mark.slow
def test_second(nvfp4_snapshot): assert PLANS == nvfp4_snapshot
"""


@pytest.fixture
def kept(run, files):
    """``kept(*arguments)`` updates, and holds that no file of ours went or changed."""

    def start(*arguments, returncode=0):
        before = {name: text for name, text in files().items() if name.endswith(".plans")}
        assert before
        result = run("--snapshot-update", *arguments, returncode=returncode)
        after = {name: text for name, text in files().items() if name.endswith(".plans")}
        assert after == before
        return result

    return start


@BOTH_WAYS
def test_of_tests_that_do_not_reach_their_comparison(project, recorded, plans, kept, workers):
    project(test_victims=VICTIMS, test_ordinary=ORDINARY)
    for test in RECORDED:
        recorded("test_victims", test)
    recorded("test_victims", "test_skips_between", {"1": plans, "second": plans})
    result = kept(workers, returncode=1)
    result.assert_outcomes(passed=1, skipped=6, xfailed=2, failed=1, errors=1)
    result.stdout.no_fnmatch_line("*no test*")


@pytest.mark.parametrize(
    "selection",
    [
        ("-n0", "-k", "first or ordinary"),
        ("-n2", "-k", "not second"),
        ("-n0", "test_pair.py::test_first", "test_ordinary.py"),
        ("-n2", "test_pair.py::test_first", "test_ordinary.py"),
        ("-n0", "--deselect", "test_pair.py::test_second"),
        ("-n0", "-m", "not slow"),
        ("-n2", "--ignore", "test_pair.py"),
        ("-n0", "test_ordinary.py"),
    ],
    ids=" ".join,
)
def test_of_tests_that_were_not_selected(project, recorded, kept, selection):
    project(test_pair=PAIR, test_ordinary=ORDINARY)
    for test in ("test_first", "test_second"):
        recorded("test_pair", test)
    result = kept(*selection)
    result.stdout.no_fnmatch_line("*no test*")


@WORKERS
def test_of_tests_that_passed_the_last_time(project, recorded, kept, run, workers):
    failing = "import os\ndef test_failing(): assert 'GOOD' in os.environ\n"
    project(test_pair=PAIR + failing, test_ordinary=ORDINARY, test_other=PAIR)
    for module in ("test_pair", "test_other"):
        for test in ("test_first", "test_second"):
            recorded(module, test)
    run(workers, "--snapshot-update", returncode=1)
    result = kept(workers, "--lf", returncode=1)
    result.assert_outcomes(failed=1)
    result.stdout.no_fnmatch_line("*no test*")


@WORKERS
def test_of_modules_that_were_not_collected(project, recorded, kept, workers):
    project(
        test_syntax="def test_first(:",
        test_raises="raise ValueError",
        test_skips="pytest.skip('here', allow_module_level=True)",
        test_ordinary=ORDINARY,
    )
    for module in ("test_syntax", "test_raises", "test_skips"):
        recorded(module, "test_first")
    result = kept(workers, "--continue-on-collection-errors", returncode=1)
    outcomes = result.parseoutcomes()
    assert outcomes.pop("errors") >= 2, "xdist may tell of an error twice"
    assert outcomes == {"passed": 1, "skipped": 1}
    result.stdout.no_fnmatch_line("*no test*")


@WORKERS
def test_of_tests_that_ran_in_a_child(project, kept, run, files, workers):
    body = "(nvfp4_snapshot): assert PLANS == nvfp4_snapshot\n"
    tests = "".join(
        f"@pytest.mark.child\ndef test_{n}{body}\ndef test_here_{n}{body}" for n in range(3)
    )
    project(conftest=CHILDREN, test_mixed=tests + ORDINARY)
    result = run("--snapshot-update", workers)
    result.assert_outcomes(passed=7)
    result.stdout.fnmatch_lines(["nvfp4_snapshot: 6 written"])
    assert sum(name.endswith(".plans") for name in files()) == 6
    result = kept(workers)
    result.stdout.fnmatch_lines(["nvfp4_snapshot: 6 matched"])
    result.stdout.no_fnmatch_line("*no test*")


def test_of_a_test_whose_worker_died(project, recorded, kept):
    project(
        test_dies="import os\ndef test_it(nvfp4_snapshot):\n    os._exit(3)\n",
        test_ordinary=ORDINARY,
        test_pair="def test_first(nvfp4_snapshot): assert PLANS == nvfp4_snapshot\n",
    )
    recorded("test_dies", "test_it")
    recorded("test_pair", "test_first")
    result = kept("-n2", returncode=1)
    result.stdout.fnmatch_lines(["*worker * crashed while running*test_dies.py::test_it*"])
    result.stdout.no_fnmatch_line("*no test*")


def test_of_tests_after_an_interrupt(project, recorded, kept):
    project(test_a="def test_it():\n    raise KeyboardInterrupt\n", test_pair=ORDINARY)
    recorded("test_a", "test_it")
    recorded("test_pair", "test_ordinary")
    kept("-n0", returncode=2)


@WORKERS
def test_of_a_test_that_is_gone_is_named_but_kept(project, recorded, kept, workers):
    project(
        test_pair="def test_first(nvfp4_snapshot): assert PLANS == nvfp4_snapshot\n",
        test_ordinary=ORDINARY,
    )
    recorded("test_pair", "test_first")
    recorded("test_pair", "test_gone")
    result = kept(workers)
    result.stdout.fnmatch_lines(
        [
            "nvfp4_snapshot: 1 matched",
            "nvfp4_snapshot: 1 snapshot has no test; delete by hand what is obsolete:",
            "  __plan_snapshots__/test_pair/test_gone.plans",
        ]
    )


def test_workers_that_update_do_not_damage_each_others_files(project, run, files):
    tests = """
@pytest.mark.parametrize("number", range(60))
def test_it(number, nvfp4_snapshot):
    for name in "abc":
        assert {(m, 256, 128): number % 32 for m in range(1, 200)} == nvfp4_snapshot(name)
"""
    project(test_one=tests, test_other=tests)
    run("-n3", "--snapshot-update")
    written = files()
    assert len(written) == 120
    assert not [name for name in written if not name.endswith(".plans")], (
        "no temporary file is left"
    )
    run("-n0").stdout.fnmatch_lines(["nvfp4_snapshot: 360 matched"])
    assert json.dumps(sorted(written)) == json.dumps(sorted(files()))
