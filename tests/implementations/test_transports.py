"""A subject that breaks the protocol becomes an error with its last words, and is restarted."""

import os
import sys
import threading

import pytest

from pytest_nvfp4.implementations.messages import ReportedError, SubjectError, UnsupportedError
from pytest_nvfp4.implementations.subject import Subject
from pytest_nvfp4.implementations.transports import InProcess, JsonLines

GOOD = """
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    print(json.dumps({"seq": request["seq"], "ok": request["m"] + 1}), flush=True)
"""


@pytest.fixture
def script(tmp_path):
    """Start a small Python program as a subject: ``script(source, timeout=…)``."""
    started = []

    def start(source, **how):
        path = tmp_path / f"subject{len(started)}.py"
        path.write_text(source)
        transport = JsonLines([sys.executable, str(path)], **{"timeout": 30} | how)
        started.append(transport)
        return transport

    yield start
    for transport in started:
        transport.close()


def fails(transport, *parts):
    with pytest.raises(SubjectError) as caught:
        transport.call("bucket", {"m": 1})
    message = str(caught.value)
    for part in parts:
        assert part in message
    assert "\n" not in message.split("; last", maxsplit=1)[0], "one sentence, then the last words"
    assert transport.pid is None, "the process that broke the protocol is still there"
    return message


def test_good_subject_answers_many_times(script):
    transport = script(GOOD)
    assert [transport.call("bucket", {"m": m})[1] for m in range(50)] == list(range(1, 51))


def test_large_messages_pass_both_ways(script):
    transport = script(GOOD.replace('request["m"] + 1', 'request["m"]'))
    text = "x" * 3_000_000
    assert transport.call("bucket", {"m": text}) == ("ok", text)


@pytest.mark.parametrize(
    ("source", "parts"),
    [
        ("import sys; sys.stdin.readline(); sys.exit(7)", ["ended", "exit status 7"]),
        (
            "import os, sys; sys.stdin.readline(); sys.stderr.write('boo'); sys.stderr.flush();"
            " os.kill(os.getpid(), 11)",
            ["killed by SIGSEGV", "last errors: boo"],
        ),
        ("import sys; sys.stdin.readline(); 1 / 0", ["ended", "ZeroDivisionError"]),
        ("print('hello', flush=True); input(); input()", ["not JSON", "last output: hello"]),
        (
            'import sys; sys.stdin.readline(); print(\'{"seq": 99, "ok": 1}\', flush=True); input()',
            ["without its sequence number"],
        ),
        (
            "import sys; sys.stdin.readline(); print('{\"seq\": 1}', flush=True); input()",
            ["one of ok, rejected and error"],
        ),
        (
            'import sys; sys.stdin.readline(); print(\'{"seq": 1, "ok": 1, "error": "x"}\', flush=True)'
            "; input()",
            ["one of ok, rejected and error"],
        ),
        ("import sys; sys.stdin.readline(); print('[' * 10**6, flush=True); input()", ["not JSON"]),
        (
            "import sys; sys.stdin.readline(); print('[1]', flush=True); input()",
            ["sequence number"],
        ),
        (
            "import sys; sys.stdout.buffer.write(b'\\xff\\n'); sys.stdout.flush(); input()",
            ["not JSON"],
        ),
    ],
)
def test_breach_of_the_protocol(script, source, parts):
    fails(script(source), *parts)


def test_silence_ends_with_the_timeout(script):
    message = fails(script("input(); input()", timeout=0.5), "no answer to bucket within 0.5 s")
    assert "killed" not in message, "we killed it; it did not die"


def test_flood_without_a_line_feed_is_bounded(script, monkeypatch):
    monkeypatch.setattr("pytest_nvfp4.implementations.transports._MAX_LINE", 1_000_000)
    fails(script("while True: print('x' * 100000, end='', flush=True)"), "flooded its output")


def test_flood_while_the_request_is_still_being_written(script):
    transport = script("while True: print('x' * 1000, flush=True)")
    with pytest.raises(SubjectError, match="not JSON"):
        transport.call("bucket", {"m": "y" * 3_000_000})


def test_unasked_output_is_noticed_at_the_next_call(script):
    transport = script(GOOD.replace("flush=True)", "flush=True); print('more', flush=True)"))
    transport.call("bucket", {"m": 1})
    with pytest.raises(SubjectError, match=r"without a request|not JSON"):
        for m in range(2, 50):
            transport.call("bucket", {"m": m})


def test_next_call_starts_a_fresh_process(script):
    transport = script(GOOD.replace("{", "1 / 0 if request['m'] == 13 else {", 1))
    assert transport.call("bucket", {"m": 1}) == ("ok", 2)
    first = transport.pid
    with pytest.raises(SubjectError, match="ZeroDivisionError"):
        transport.call("bucket", {"m": 13})
    assert transport.call("bucket", {"m": 2}) == ("ok", 3)
    assert transport.pid != first


def test_reported_error_costs_no_restart(script):
    transport = script(GOOD.replace('"ok": request["m"] + 1', '"error": "unsupported"'))
    with pytest.raises(UnsupportedError):
        transport.call("bucket", {"m": 1})
    first = transport.pid
    with pytest.raises(ReportedError):
        transport.call("bucket", {"m": 1})
    assert transport.pid == first is not None


def test_missing_executable_is_one_sentence():
    with pytest.raises(SubjectError, match="cannot start '/nonexistent/adapter': No such file"):
        JsonLines(["/nonexistent/adapter"]).call("bucket", {"m": 1})


def test_ending_takes_the_whole_process_group(script):
    child = "import subprocess, sys\nchild = subprocess.Popen(['sleep', '1000'])\n"
    transport = script(child + GOOD.replace('request["m"] + 1', "child.pid"))
    _, pid = transport.call("bucket", {"m": 1})
    handle = os.pidfd_open(pid)
    transport.close()
    # A pidfd becomes readable when the process has ended; poll() waits for just that.
    ended = threading.Event()
    import select

    poll = select.poll()
    poll.register(handle, select.POLLIN)
    if poll.poll(30_000):
        ended.set()
    os.close(handle)
    assert ended.is_set(), "a process that the subject had started is still alive"


def test_ctrl_c_in_the_middle_leaves_no_stale_answer(script, monkeypatch):
    transport = script(GOOD)
    transport.call("bucket", {"m": 1})

    def interrupt(line, operation):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(transport, "_exchange", interrupt)
        with pytest.raises(KeyboardInterrupt):
            transport.call("bucket", {"m": 2})
    assert transport.pid is None
    assert transport.call("bucket", {"m": 3}) == ("ok", 4)


class Adapter:
    """One of each kind of answer."""

    def bucket(self, m):
        return {1: 1, 2: "two"}[m]

    def profiles(self, maximum):
        error = ValueError("nothing below one")
        error.code, error.member = "configuration", "maximum"
        raise error


def test_in_process_kinds_of_answers():
    subject = Subject(InProcess(Adapter()))
    assert subject.bucket(1) == 1
    with pytest.raises(AssertionError, match="profiles was rejected: nothing below one"):
        subject.profiles(0)
    with pytest.raises(
        SubjectError, match="breaks the adapter interface: Expected `int`, got `str`"
    ):
        subject.bucket(2)
    with pytest.raises(SubjectError, match="bucket raised KeyError: 3"):
        subject.bucket(3)
    with pytest.raises(UnsupportedError, match="Adapter has no operation serialize"):
        subject.serialize({})


def test_requests_are_observed_for_reproducers():
    seen = []
    Subject(InProcess(Adapter()), seen.append).bucket(1)
    assert seen == [{"op": "bucket", "m": 1}]
