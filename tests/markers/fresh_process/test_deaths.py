"""How a fresh process can end, and what is said of it."""

import contextlib
import os
import select
import signal
import subprocess
import sys

import pytest


def failure_of(result, name="test_it"):
    """The first line of what is said of a test."""
    lines = result.outlines
    start = next(
        i
        for i, line in enumerate(lines)
        if line.strip("_ ") in (name, f"ERROR at teardown of {name}", f"ERROR at setup of {name}")
    )
    return lines[start + 1]


def wait_for_end(pid):
    """Until a process has ended, which it must: a killed one takes a moment."""
    with contextlib.suppress(ProcessLookupError):
        process = os.pidfd_open(pid)
        assert select.select([process], [], [], 60)[0] == [process]
        os.close(process)


@pytest.fixture
def dies(pytester, run):
    """``dies(body)``: what is said of a fresh test with this body."""

    def look(body, *arguments, options="", outcome="failed"):
        pytester.makepyfile(
            test_it=f"import os, signal, subprocess, sys, threading, pytest\n\n"
            f"@pytest.mark.fresh_process({options})\ndef test_it():\n"
            + "\n".join(f"    {line}" for line in body.splitlines())
        )
        result = run("-p", "no:cacheprovider", *arguments, returncode=1)
        result.assert_outcomes(**{outcome: 1} | ({"passed": 1} if outcome == "errors" else {}))
        return result

    return look


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGKILL", "SIGABRT", "SIGTERM"])
def test_a_signal_is_named_with_the_last_output(dies, name):
    result = dies(f"print('about to die')\nos.kill(os.getpid(), signal.{name})")
    number = getattr(signal, name).value
    assert failure_of(result) == f"the fresh process died by {name} (signal {number}) during call"
    result.stdout.fnmatch_lines(["*Captured stdout call*", "about to die"])


def test_the_stack_of_a_crash_is_without_pytest_in_it(dies):
    result = dies("os.kill(os.getpid(), signal.SIGSEGV)")
    result.stdout.fnmatch_lines(
        ["Fatal Python error: Segmentation fault", "*in test_it", "  (frames of pytest)"]
    )
    result.stdout.no_fnmatch_line("*pluggy/*")


@pytest.mark.parametrize("status", [0, 3])
def test_an_early_exit_is_no_success(dies, status):
    result = dies(f"print('and out'); sys.stdout.flush(); os._exit({status})")
    assert failure_of(result) == f"the fresh process ended with status {status} during call"
    result.stdout.fnmatch_lines(["and out"])


def test_output_of_a_process_of_the_test_is_kept(dies):
    result = dies("subprocess.run(['echo', 'from below'])\nos._exit(0)")
    result.stdout.fnmatch_lines(["from below"])


def test_timeout_shows_where_it_hangs(dies):
    # The limit of a run includes the start of its interpreter, so it is a long one.
    result = dies("print('waiting')\nthreading.Event().wait()", options="timeout=10")
    assert (
        failure_of(result) == "the fresh process took longer than 10 s and was ended, during call"
    )
    result.stdout.fnmatch_lines(["waiting", "*in test_it"])


@pytest.mark.wide
def test_timeout_ends_what_ignores_signals(dies):
    body = "signal.signal(signal.SIGABRT, signal.SIG_IGN)\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 64))\n"
    result = dies(f"{body}threading.Event().wait()", "--nvfp4-fresh-timeout=10")
    assert (
        failure_of(result) == "the fresh process took longer than 10 s and was ended, during call"
    )


def test_a_crash_after_the_test_is_an_error_of_its_teardown(dies):
    body = "import atexit\natexit.register(os.kill, os.getpid(), signal.SIGSEGV)"
    result = dies(body, outcome="errors")
    assert failure_of(result) == "the fresh process died by SIGSEGV (signal 11) after the test"


def test_another_status_than_pytests_is_an_error_of_its_teardown(dies):
    result = dies("import atexit\natexit.register(os._exit, 7)", outcome="errors")
    assert failure_of(result) == "the fresh process ended with status 7 after the test"


def test_what_others_write_into_the_channel_is_an_error(dies):
    body = """
import stat
for number in map(int, os.listdir('/proc/self/fd')):
    try:
        if number > 2 and stat.S_ISSOCK(os.fstat(number).st_mode):
            os.write(number, b'\\xffnot ours\\n')
    except OSError:
        pass"""
    result = dies(body, outcome="errors")
    assert failure_of(result).startswith(
        r"something else wrote into the channel of the fresh process: '\\xffnot ours'; "
    )


def test_what_cannot_be_started_fails_and_the_run_goes_on(pytester, run):
    pytester.makepyfile("""
        import os, pytest, resource, tempfile

        there = tempfile.gettempdir()

        def test_without_folder():
            tempfile.tempdir = "/nowhere"

        @pytest.mark.fresh_process
        @pytest.mark.xfail(reason="of the test, not of its process")
        def test_it():
            pass

        def test_without_descriptors(monkeypatch):
            tempfile.tempdir = there
            _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 1, most))

        @pytest.mark.fresh_process(runs=2)
        def test_that():
            pass

        def test_after():
            _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    """)
    result = run("-p", "no:randomly", returncode=1)
    result.assert_outcomes(passed=3, errors=2)
    assert failure_of(result).startswith("the fresh process could not be started: [Errno 2] ")
    that = failure_of(result, "test_that")
    assert that.startswith("the fresh process could not be started: [Errno 24] ")


def test_what_it_leaves_behind_ends_with_it(dies, pytester):
    body = """
pid = os.fork()
if pid == 0:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    threading.Event().wait()
open('left.txt', 'w').write(str(pid))
os._exit(0)"""
    dies(body)
    wait_for_end(int((pytester.path / "left.txt").read_text()))


def test_an_orphan_in_a_session_of_its_own_holds_nobody_up(pytester, run):
    pytester.makepyfile("""
        import os, pytest, subprocess

        @pytest.mark.fresh_process
        def test_it():
            orphan = subprocess.Popen(["sh", "-c", "echo $$ > orphan.txt; read _"],
                                      stdin=subprocess.PIPE, start_new_session=True)
            while not (os.path.exists("orphan.txt") and open("orphan.txt").read()):
                pass
            os.set_inheritable(orphan.stdin.fileno(), True)
            subprocess.Popen(["sh", "-c", "echo $$ > keeper.txt; exec tail -f /dev/null"],
                             close_fds=False, start_new_session=True)
            while not (os.path.exists("keeper.txt") and open("keeper.txt").read()):
                pass
            orphan.returncode = 0
    """)
    run().assert_outcomes(passed=1)
    for name in ("keeper", "orphan"):
        pid = int((pytester.path / f"{name}.txt").read_text())
        os.kill(pid, signal.SIGKILL)  # it has outlived the run


def test_death_in_setup_and_in_teardown(pytester, run):
    pytester.makepyfile("""
        import os, pytest

        @pytest.fixture
        def early():
            os._exit(5)

        @pytest.fixture
        def late():
            yield
            os._exit(6)

        @pytest.mark.fresh_process
        def test_early(early):
            pass

        @pytest.mark.fresh_process
        def test_late(late):
            pass
    """)
    result = run(returncode=1)
    result.assert_outcomes(errors=2, passed=1)
    assert failure_of(result, "test_early") == "the fresh process ended with status 5 during setup"
    assert (
        failure_of(result, "test_late") == "the fresh process ended with status 6 during teardown"
    )


def test_an_expected_crash_is_an_xfail(pytester, run):
    pytester.makepyfile("""
        import os, pytest

        @pytest.mark.fresh_process
        @pytest.mark.xfail(reason="driver bug")
        def test_it():
            os.abort()

        @pytest.mark.fresh_process
        @pytest.mark.xfail(raises=ValueError)
        def test_expected_otherwise():
            os.abort()
    """)
    run(returncode=1).assert_outcomes(xfailed=1, failed=1)
    run("--runxfail", returncode=1).assert_outcomes(failed=2)


def test_a_test_that_is_not_there_in_the_child_is_no_success(pytester, run):
    pytester.makepyfile("""
        import os, pytest

        @pytest.mark.fresh_process(arms={"other": {"WITHOUT": "1"}})
        @pytest.mark.xfail(reason="of the test, which there is none of")
        def test_it():
            pass

        if "WITHOUT" in os.environ:
            del test_it
    """)
    result = run(returncode=1)
    result.assert_outcomes(errors=1)
    assert failure_of(result).startswith("the fresh process")


@pytest.mark.parametrize("option", ["--setup-only", "--setup-plan", "--collect-only"])
def test_a_test_that_is_not_called_in_the_child_is_no_success(pytester, run, option):
    pytester.makepyfile(f"""
        import pytest

        @pytest.mark.fresh_process(arms={{"run": {{}}, "not": {{"PYTEST_ADDOPTS": "{option}"}}}})
        def test_it():
            pass
    """)
    result = run(returncode=1)
    assert failure_of(result).startswith("the fresh process ")


def test_a_module_that_breaks_in_the_child_shows_why(pytester, run):
    pytester.makepyfile("""
        import os, pytest

        @pytest.mark.fresh_process(arms={"other": {"BROKEN": "1"}})
        @pytest.mark.xfail(reason="of the test, not of its module")
        def test_it():
            pass

        assert "BROKEN" not in os.environ, "only in the child"
    """)
    result = run(returncode=1)
    result.assert_outcomes(errors=1)
    assert failure_of(result) == "the fresh process could not collect the test"
    result.stdout.fnmatch_lines(["*AssertionError: only in the child*"])


def test_a_plugin_that_breaks_in_the_child_shows_why(pytester, run):
    pytester.makeconftest("""
        import os

        def pytest_collection_finish(session):
            assert "BROKEN" not in os.environ, "of the plugin"
    """)
    pytester.makepyfile("""
        import pytest

        @pytest.mark.fresh_process(arms={"other": {"BROKEN": "1"}})
        def test_it():
            pass
    """)
    result = run(returncode=1)
    result.assert_outcomes(errors=1)
    assert failure_of(result) == "an internal error ended the fresh process"
    result.stdout.fnmatch_lines(["*AssertionError: of the plugin*"])


def test_killing_the_run_kills_its_fresh_process(pytester):
    pytester.makepyfile("""
        import os, pytest, threading

        @pytest.mark.fresh_process
        def test_it():
            with open("pid", "w") as file:  # a FIFO: until it is read
                file.write(str(os.getpid()))
            threading.Event().wait()
    """)
    os.mkfifo(pytester.path / "pid")
    run = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-p", "nvfp4"],
        cwd=pytester.path,
        stdout=subprocess.DEVNULL,
    )
    child = os.pidfd_open(int((pytester.path / "pid").read_text()))
    run.kill()
    run.wait()
    # Its end makes the descriptor readable.
    assert select.select([child], [], [], 60)[0] == [child]
    os.close(child)


def test_interrupting_the_run_tears_the_test_down(pytester):
    pytester.makepyfile("""
        import os, pytest, threading

        @pytest.fixture
        def resource():
            yield
            open("torn-down", "w").close()

        @pytest.mark.fresh_process
        def test_it(resource):
            with open("pid", "w") as file:
                file.write(str(os.getpid()))
            threading.Event().wait()
    """)
    os.mkfifo(pytester.path / "pid")
    run = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-p", "nvfp4"],
        cwd=pytester.path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    child = int((pytester.path / "pid").read_text())
    run.send_signal(signal.SIGINT)
    output, _ = run.communicate()
    assert run.returncode == 2
    assert "KeyboardInterrupt" in output
    assert "Traceback" not in output
    assert (pytester.path / "torn-down").exists()
    wait_for_end(child)
