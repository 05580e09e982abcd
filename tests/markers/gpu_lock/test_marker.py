"""`@pytest.mark.gpu_lock` in pytest runs of their own, beside the real `flock` command."""

import collections
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from workers import BOTH_WAYS, WORKERS

from pytest_nvfp4 import oracle
from pytest_nvfp4.faults import strace

# Each test notes when it begins and ends: nobody overlaps where every beginning is followed by its
# own end. Two who are to compete meet first: to open a FIFO, a reader and a writer need each other.
JOURNAL = """
import os, pytest, subprocess

def pytest_collection_finish():
    mode = os.environ.get("MEETING")
    if os.environ.get("PYTEST_XDIST_WORKER_COUNT") == "2":
        mode = {{"gw0": "r", "gw1": "w"}}[os.environ["PYTEST_XDIST_WORKER"]]
    if mode:
        with open({meeting!r}, mode):
            pass

@pytest.fixture
def journal():
    def note(what):
        file = os.open({journal!r}, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, f"{{what}} {{os.getpid()}}\\n".encode())
        os.close(file)
    note("begin")
    yield
    note("end")
"""

LOCKED = """
import pytest, subprocess

@pytest.mark.gpu_lock(path={path!r})
@pytest.mark.parametrize("number", range(6))
def test_locked(number, journal):
    assert subprocess.run(["flock", "-n", {path!r}, "true"]).returncode == 1
"""


@pytest.fixture
def project(pytester, path):
    """``project(code)`` makes a test file whose ``{path!r}`` is the lock's."""
    journal, meeting = str(pytester.path / "journal"), str(pytester.path / "meeting")
    os.mkfifo(meeting)

    def make(code=LOCKED):
        pytester.makeconftest(JOURNAL.format(journal=journal, meeting=meeting))
        pytester.makepyfile(test_it=code.format(path=str(path)))

    return make


@pytest.fixture
def run(pytester):
    """``run(*arguments)`` runs pytest; `under` is a command that runs it.

    The result has, as `holds`, what the JUnit report tells of every test's hold.
    """

    def start(*arguments, under=(), returncode=0):
        command = [sys.executable, "-m", "pytest", "-p", "nvfp4", "-W", "error", *arguments]
        report = pytester.path / "report.xml"
        report.unlink(missing_ok=True)
        result = pytester.run(*under, *map(str, command), "--junitxml=report.xml")
        assert result.ret == returncode
        result.holds = holds(report) if report.exists() else {}
        return result

    return start


def holds(path):
    """Test name → what its JUnit report tells of its hold."""
    found = {}
    for case in ET.parse(path).iter("testcase"):
        told = {one.get("name"): one.get("value") for one in case.iter("property")}
        found[case.get("name")] = {
            name.removeprefix("gpu_lock_"): value
            for name, value in told.items()
            if name.startswith("gpu_lock_")
        }
    return found


def assert_no_overlap(tests):
    lines = [line.split() for line in Path("journal").read_text().splitlines()]
    assert len(lines) == 2 * tests
    for begin, end in zip(lines[::2], lines[1::2], strict=True):
        assert (begin[0], end[0]) == ("begin", "end")
        assert begin[1] == end[1]


# --- Never two at once


@BOTH_WAYS
def test_locked_tests_never_overlap(project, run, workers, free, path):
    project()
    run(workers)
    assert_no_overlap(6)
    assert free(path)


def test_two_competing_runs_never_overlap_and_prove_it(project, pytester, free, path):
    project()
    command = [sys.executable, "-m", "pytest", "-p", "nvfp4", "-p", "no:cacheprovider"]
    runs = [
        subprocess.Popen(
            [*command, f"--junitxml={mode}.xml"],
            cwd=pytester.path,
            env=os.environ | {"MEETING": mode},
            stdout=subprocess.DEVNULL,
        )
        for mode in "rw"
    ]
    assert [one.wait() for one in runs] == [0, 0]
    assert_no_overlap(12)
    told = [*holds(pytester.path / "r.xml").values(), *holds(pytester.path / "w.xml").values()]
    assert len({one["id"] for one in told}) == 12
    times = sorted((one["acquired"], one["released"]) for one in told)
    for (_, released), (acquired, _) in itertools.pairwise(times):
        assert released <= acquired
    assert free(path)


# --- Under flock


@WORKERS
@pytest.mark.parametrize("options", [[], ["-o"]], ids=["inherited", "ancestor"])
def test_hold_above_is_adopted(project, run, path, workers, options):
    project()
    under = ["flock", *options, path]
    result = run(workers, "-v", under=under)
    assert_no_overlap(6)
    told = result.holds.values()
    assert len({one["id"] for one in told}) == 1
    for one in told:
        assert re.match(r"pid \d+ `flock .*` of ", one["adopted_from"])
        assert one["path"] == str(path)
    result.stdout.fnmatch_lines(["gpu_lock: * hold*, waited * s in all", "*adopted from pid*"])


def test_shell_that_locked_a_descriptor(project, run, path):
    project()
    under = ["sh", "-c", f"exec 9>{path}; flock 9; " + '"$@"', "sh"]
    result = run("-n2", under=under)
    assert_no_overlap(6)
    assert len({one["id"] for one in result.holds.values()}) == 1


def test_two_runs_under_one_hold_never_overlap(project, run, path):
    project()
    run(
        under=[
            "flock",
            path,
            "sh",
            "-c",
            'MEETING=r "$@" & first=$!; MEETING=w "$@" && wait $first',
            "sh",
        ]
    )
    assert_no_overlap(12)


def test_run_within_a_locked_test_adopts_its_hold(project, run, pytester, path):
    project("""
        import json, os, pytest, subprocess, sys
        @pytest.mark.gpu_lock(path={path!r})
        def test_it(request):
            if "INNER" not in os.environ:
                done = subprocess.run(
                    [sys.executable, "-m", "pytest", "-p", "nvfp4", "--junitxml=inner.xml", __file__],
                    env=os.environ | {{"INNER": "1"}},
                )
                assert done.returncode == 0
    """)
    outer = run().holds["test_it"]
    inner = holds(pytester.path / "inner.xml")["test_it"]
    assert inner["id"] == outer["id"]
    assert inner["adopted_from"]
    assert outer["adopted_from"] == ""


def test_shared_hold_above_is_refused_with_a_sentence(project, run, path):
    project()
    result = run(under=["flock", "-s", path], returncode=1)
    result.stdout.fnmatch_lines(
        [f"gpu_lock: {path} is already held above this run, but shared; hold it exclusively *"]
    )
    result.assert_outcomes(errors=6)
    assert "Traceback" not in result.stdout.str()


# --- Waiting


def test_waiting_is_told_past_capturing_and_ends_with_the_holder(project, pytester, path, hold):
    project()
    holder = hold(path)
    command = [sys.executable, "-m", "pytest", "-p", "nvfp4", "-n1"]
    running = subprocess.Popen(
        command, cwd=pytester.path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    for line in running.stderr:
        if "gpu_lock: waiting for" in line:
            break
    assert f"gpu_lock: waiting for {path} for 1 s, held by pid {holder.pid} `flock" in line
    holder.kill()
    output, _ = running.communicate()
    assert running.returncode == 0
    assert "6 passed" in output


@WORKERS
def test_timeout_is_an_error_of_one_sentence(project, run, path, hold, workers):
    project("""
        import pytest
        @pytest.mark.gpu_lock(path={path!r}, timeout=0.01)
        def test_it(): raise AssertionError("it ran")
        def test_other(): pass
    """)
    holder = hold(path)
    result = run(workers, returncode=1)
    result.assert_outcomes(errors=1, passed=1)
    result.stdout.fnmatch_lines(
        [f"gpu_lock: {path} was not free within * s, held by pid {holder.pid} `flock*"]
    )
    assert "it ran" not in result.stdout.str()
    assert "Traceback" not in result.stdout.str()
    assert "During handling" not in result.stdout.str()


def test_session_waits_for_its_timeout_only_once(project, run, path, hold):
    project("""
        import pytest
        pytestmark = pytest.mark.gpu_lock(path={path!r}, timeout=0.01, scope="session")
        @pytest.mark.parametrize("number", range(3))
        def test_it(number): pass
    """)
    hold(path)
    result = run(returncode=1)
    result.assert_outcomes(errors=3)
    told = re.findall(r"^gpu_lock: .* was not free within (\S+) s", result.stdout.str(), re.M)
    assert len(told) == 3
    assert len(set(told)) == 1


def test_skipped_tests_do_not_wait(project, run, path, hold):
    project("""
        import pytest
        @pytest.mark.skip
        @pytest.mark.gpu_lock(path={path!r})
        def test_skipped(): pass
        @pytest.mark.xfail(run=False)
        @pytest.mark.gpu_lock(path={path!r})
        def test_not_run(): pass
    """)
    hold(path)
    run().assert_outcomes(skipped=1, xfailed=1)


def test_killed_run_frees_it_and_leaves_no_child_with_it(project, pytester, path, free):
    project("""
        import pytest, subprocess
        @pytest.mark.gpu_lock(path={path!r})
        def test_it(capfd):
            child = subprocess.Popen(["cat"], stdin=subprocess.PIPE, close_fds=False)
            with capfd.disabled():
                print("running", flush=True)
            child.wait()
    """)
    command = [sys.executable, "-m", "pytest", "-p", "nvfp4"]
    running = subprocess.Popen(command, cwd=pytester.path, stdout=subprocess.PIPE, text=True)
    for line in running.stdout:
        if "running" in line:
            break
    assert not free(path)
    running.send_signal(signal.SIGKILL)
    running.wait()
    assert free(path)
    running.stdout.close()


# --- What the hold spans


def test_hold_spans_setup_call_and_teardown_whatever_fails(project, run, path, free):
    project("""
        import pytest, subprocess
        def held():
            return subprocess.run(["flock", "-n", {path!r}, "true"]).returncode == 1
        @pytest.fixture
        def watched():
            assert held()
            yield
            assert held()
        @pytest.mark.gpu_lock(path={path!r})
        def test_fails(watched):
            assert held()
            raise RuntimeError
        def test_free():
            assert not held()
        @pytest.fixture
        def broken():
            raise RuntimeError
        @pytest.mark.gpu_lock(path={path!r})
        def test_breaks(broken): pass
        def test_free_again():
            assert not held()
    """)
    run(returncode=1).assert_outcomes(failed=1, errors=1, passed=2)
    assert free(path)


def test_session_scope_is_one_hold_over_all_locked_tests(project, run, path, free):
    project("""
        import pytest, subprocess
        other = {path!r} + ".other"
        def held(path):
            return subprocess.run(["flock", "-n", path, "true"]).returncode == 1
        @pytest.mark.gpu_lock(path={path!r}, scope="session")
        def test_a(): assert held({path!r})
        def test_between(): assert held({path!r}) and held(other)
        @pytest.mark.gpu_lock(path=other)
        def test_b(): assert held(other)
    """)
    result = run("-v")
    told = result.holds
    assert told["test_between"] == {}
    assert told["test_a"]["id"] == told["test_b"]["id"]
    assert told["test_a"]["path"] == f"{path}, {path}.other"
    assert told["test_a"]["released"] == ""
    lines = result.stdout.str().splitlines()
    start = lines.index(next(line for line in lines if line.startswith("gpu_lock: 1 hold, ")))
    assert re.search(r": \S+ to 20\S+, waited .* 2 tests$", lines[start + 1])
    assert free(path)


def test_session_scope_under_xdist_is_one_hold_for_each_worker(project, run):
    project(LOCKED.replace("path={path!r}", 'path={path!r}, scope="session"'))
    result = run("-n2", "-v")
    assert_no_overlap(6)
    by_owner = collections.defaultdict(set)
    for one in result.holds.values():
        by_owner[one["owner"]].add(one["id"])
    assert all(len(ids) == 1 for ids in by_owner.values())
    ends = re.findall(r"  hold .*: \S+ to (\S+), waited", result.stdout.str())
    assert len(ends) == len(by_owner)
    assert "the" not in ends


@WORKERS
def test_whole_run_is_one_hold(project, run, path, workers, free):
    project(LOCKED.replace("path={path!r}", ""))
    result = run(workers, "-v", "--nvfp4-lock", f"--nvfp4-lock-path={path}")
    assert_no_overlap(6)
    told = result.holds.values()
    assert len({one["id"] for one in told}) == 1
    result.stdout.fnmatch_lines(
        [f"nvfp4 markers: lock True from --nvfp4-lock, lock-path {path} from --nvfp4-lock-path"]
    )
    assert free(path)


def test_whole_run_that_cannot_start_is_a_usage_error(project, run, path, hold):
    project()
    hold(path)
    arguments = ["--nvfp4-lock", f"--nvfp4-lock-path={path}", "--nvfp4-lock-timeout=0.01"]
    result = run(*arguments, returncode=4)
    result.stderr.fnmatch_lines([f"ERROR: gpu_lock: {path} was not free within *"])
    run("--collect-only", *arguments)


# --- Settings


def test_path_comes_from_option_environment_and_ini(project, run, pytester, path, monkeypatch):
    project("""
        import pytest
        @pytest.mark.gpu_lock
        def test_it(): pass
    """)

    def used(*arguments):
        return run(*arguments).holds["test_it"]["path"]

    pytester.makeini(f"[pytest]\nnvfp4_lock_path = {path}.ini\n")
    assert used() == f"{path}.ini"
    monkeypatch.setenv("NVFP4_LOCK_PATH", f"{path}.environment")
    assert used() == f"{path}.environment"
    assert used("--nvfp4-lock-path=option") == str(pytester.path / "option")


@WORKERS
@pytest.mark.parametrize(
    ("argument", "part"),
    [
        ("--nvfp4-lock-timeout=0", "--nvfp4-lock-timeout is '0'; use a number of seconds above 0"),
        ("--nvfp4-lock-timeout=soon", "--nvfp4-lock-timeout is 'soon'"),
    ],
)
def test_bad_setting_is_a_usage_error(project, run, argument, part, workers):
    project()
    result = run(argument, workers, returncode=4)
    output = result.stdout.str() + result.stderr.str()
    assert part in output
    assert "Traceback" not in output
    assert "INTERNALERROR" not in output


@WORKERS
def test_bad_markers_are_collection_errors_of_one_sentence_each(project, run, workers):
    project("""
        import pytest
        @pytest.mark.gpu_lock(pth={path!r})
        def test_a(): pass
        @pytest.mark.parametrize(
            "x", [1, pytest.param(2, marks=pytest.mark.gpu_lock(timeout=-1))]
        )
        def test_b(x): pass
        @pytest.mark.gpu_lock(devices=[99])
        def test_c(): pass
    """)
    result = run(workers, returncode=1 if workers == "-n2" else 2)
    output = result.stdout.str()
    assert "::test_a: gpu_lock has no option 'pth'; it has path, " in output
    assert "::test_b[2]: gpu_lock(timeout=-1) is not possible" in output
    assert "Traceback" not in output
    assert "INTERNALERROR" not in output


@WORKERS
def test_device_that_the_caller_does_not_see_is_a_collection_error(
    project, run, monkeypatch, workers
):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5")
    project("""
        import pytest
        @pytest.mark.gpu_lock(path={path!r}, devices=[2])
        def test_it(): pass
    """)
    result = run(workers, returncode=1 if workers == "-n2" else 2)
    assert "there is no device 2: CUDA_VISIBLE_DEVICES='4,5' shows 2" in result.stdout.str()


def test_marker_added_late_is_checked_too(project, run, pytester, path):
    pytester.makeconftest("""
        import pytest
        def pytest_collection_modifyitems(items):
            items[0].add_marker(pytest.mark.gpu_lock(timeout=-1))
    """)
    pytester.makepyfile("def test_it(): pass")
    result = run(returncode=1)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["gpu_lock: gpu_lock(timeout=-1) is not possible; use *"])


@pytest.mark.skipif(bool(strace.unavailable()), reason=f"needs strace: {strace.unavailable()}")
def test_denied_open_is_an_error_of_one_sentence(project, run, path):
    project()
    path.touch()
    under = ["strace", "-f", "-qq", "-o", "/dev/null", "-P", path, "-e", "trace=openat"]
    result = run(under=[*under, "-e", "inject=openat:error=EACCES"], returncode=1)
    result.assert_outcomes(errors=6)
    result.stdout.fnmatch_lines(
        [f"gpu_lock: cannot open the lock {path}: permission denied (it belongs to *"]
    )


# --- Devices


def test_devices_are_locked_by_physical_identity(project, run, pytester, path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-b1,GPU-a1")
    project("""
        import pytest, subprocess
        def free(path, *options):
            return subprocess.run(["flock", "-n", *options, path, "true"]).returncode == 0
        @pytest.mark.gpu_lock(path={path!r}, devices=[0])
        def test_one():
            assert not free({path!r})
            assert free({path!r}, "-s")
            assert not free({path!r} + ".GPU-b1")
            assert free({path!r} + ".GPU-a1")
        @pytest.mark.gpu_lock(path={path!r}, devices="visible")
        def test_both(): pass
    """)
    told = run().holds
    assert told["test_both"]["path"] == f"{path}, {path}.GPU-a1, {path}.GPU-b1"


def fake_nvml(loads):
    """A conftest that answers for NVML: the cards' loads, one after the other."""
    return f"""
import json
from pytest_nvfp4.markers.gpu_lock import nvml
LOADS = json.loads({json.dumps(json.dumps(loads))})
nvml.cards = lambda: (nvml.Card("GPU-a", "H200"),)
def load(uuid):
    pids, used = LOADS.pop(0)
    return nvml.Load(frozenset(pids), used)
nvml.load = load
"""


@pytest.mark.parametrize(
    ("loads", "part"),
    [
        ([[[], 0], [[], 0]], ""),
        ([[[4194999], 0]], "GPU-a is not idle: pid 4194999 (ended) uses it"),
        ([[[], 0], [[], 2**30]], "1024 MiB of memory on GPU-a were not returned after the test"),
    ],
)
def test_idle_cards_are_required(run, pytester, path, loads, part):
    pytester.makeconftest(fake_nvml(loads))
    pytester.makepyfile(f"""
        import pytest
        @pytest.mark.gpu_lock(path={str(path)!r}, require_idle=True)
        def test_it(): pass
    """)
    result = run(returncode=1 if part else 0)
    assert part in result.stdout.str()
    assert "Traceback" not in result.stdout.str()


def test_idle_cards_need_the_driver(run, pytester, path):
    pytester.makeconftest("""
        from pytest_nvfp4.markers.gpu_lock import nvml
        nvml._LIBRARY = "libnot-there.so.1"
    """)
    pytester.makepyfile(f"""
        import pytest
        @pytest.mark.gpu_lock(path={str(path)!r}, require_idle=True)
        def test_it(): pass
    """)
    result = run(returncode=1)
    result.stdout.fnmatch_lines(["gpu_lock: libnot-there.so.1, which comes with NVIDIA's *"])


# --- Light


def test_run_without_the_marker_loads_nothing_of_it(pytester, run):
    pytester.makepyfile("""
        import sys
        def test_it():
            loaded = {name for name in sys.modules if name.startswith("pytest_nvfp4.markers.")}
            names = ("fresh_process", "frozen_map", "gpu_lock", "options", "wiring")
            assert loaded == {f"pytest_nvfp4.markers.{name}" for name in names}
    """)
    run()


def test_failures_of_other_tests_do_not_show_our_hooks(pytester, run, path, tmp_path):
    frozen = tmp_path / "map"
    frozen.mkdir()
    (frozen / "map.json").write_bytes(oracle.load().document)
    pytester.makepyfile(f"""
        import pytest

        @pytest.mark.gpu_lock(path={str(path)!r})
        @pytest.mark.frozen_map({str(frozen / "map.json")!r})
        def test_marked(): pass

        @pytest.fixture
        def before():
            raise RuntimeError("before")

        @pytest.fixture
        def after():
            yield
            raise RuntimeError("after")

        def test_before(before): pass
        def test_after(after): pass
    """)
    result = run("--tb=short", returncode=1)
    result.assert_outcomes(passed=2, errors=2)
    result.stdout.no_fnmatch_line("*markers/*")
