"""The server answers whatever it is sent, and what an adapter prints stays out of its way."""

import json
import subprocess
import sys

import pytest

from pytest_nvfp4.implementations.server import reply_to
from pytest_nvfp4.implementations.transports import InProcess


class Adapter:
    """Prints, breaks and answers with things that are no data."""

    def describe(self):
        print("a stray line on standard output")
        return {"name": "x"}

    def bucket(self, m):
        return 1 // m

    def profiles(self, maximum):
        return {1, 2}


@pytest.mark.parametrize(
    ("line", "part"),
    [
        (b"", "not one line of JSON"),
        (b"{", "not one line of JSON"),
        (b"\xff", "not one line of JSON"),
        (b"[" * 200_000, "not one line of JSON"),
        (b"[]", "not a JSON object"),
        (b"null", "not a JSON object"),
        (b'{"op": "describe"}', "seq is missing"),
        (b'{"seq": "1", "op": "describe"}', "seq is missing"),
        (b'{"seq": true, "op": "describe"}', "seq is missing"),
        (b'{"seq": 1}', "unsupported operation None"),
        (b'{"seq": 1, "op": "explode"}', "unsupported operation 'explode'"),
        (b'{"seq": 1, "op": "__class__"}', "unsupported operation '__class__'"),
        (b'{"seq": 1, "op": ["describe"]}', "unsupported operation"),
        (
            b'{"seq": 1, "op": "bucket"}',
            "arguments of bucket are wrong: Object missing required field `m`",
        ),
        (
            b'{"seq": 1, "op": "bucket", "m": 1, "n": 2}',
            "arguments of bucket are wrong: Object contains unknown field `n`",
        ),
        (b'{"seq": 1, "op": "bucket", "m": 0}', "bucket raised ZeroDivisionError"),
        (b'{"seq": 1, "op": "bucket", "m": "1"}', "wrong: m: Expected `int`, got `str`"),
        (b'{"seq": 1, "op": "close", "session": "1"}', "unsupported"),
    ],
)
def test_malformed_request_is_answered_with_an_error(line, part):
    reply = reply_to(line, InProcess(Adapter()))
    assert part in reply["error"]
    assert "Traceback" not in reply["error"]


def serve(lines):
    command = [sys.executable, "-m", "pytest_nvfp4.implementations.server", f"{__name__}:Adapter"]
    return subprocess.run(
        command, input=lines, capture_output=True, text=True, timeout=60, check=False
    )


def test_prints_of_the_adapter_go_to_standard_error(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", ":".join(filter(None, sys.path)))
    done = serve('{"seq": 1, "op": "describe"}\n{"seq": 2, "op": "profiles", "maximum": 1}\n')
    replies = [json.loads(line) for line in done.stdout.splitlines()]
    assert replies[0] == {"seq": 1, "ok": {"name": "x"}}
    assert replies[1]["seq"] == 2
    assert "not plain data" in replies[1]["error"]
    assert "a stray line on standard output" in done.stderr
    assert done.returncode == 0


@pytest.mark.parametrize(
    "arguments", [[], ["a", "b"], ["nosuch"], ["no.such.module:x"], ["os:nope"]]
)
def test_wrong_arguments_are_one_sentence(arguments):
    command = [sys.executable, "-m", "pytest_nvfp4.implementations.server", *arguments]
    done = subprocess.run(
        command, input="", capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 4
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1
