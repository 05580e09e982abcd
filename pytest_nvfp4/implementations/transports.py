"""The two ways to reach an adapter: a Python object here, or a process that speaks JSON lines."""

import contextlib
import json
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_nvfp4.implementations.messages import (
    NoAnswerError,
    ReportedError,
    SubjectError,
    UnsupportedError,
)
from pytest_nvfp4.implementations.subject import Reply

IN_PROCESS = "in process"
JSON_LINES = "JSON lines"

_MAX_LINE = 256 * 1024 * 1024
_READ_SIZE = 1 << 20
_TAIL = 400


class InProcess:
    """Calls the operations of a Python object.

    A rejection is an exception with the string attributes `code` and `member`; its `str()` is the
    sentence. NotImplementedError means that the operation is missing; any other exception is a
    failure of the adapter.
    """

    name = IN_PROCESS

    def __init__(self, adapter: object):
        self._adapter = adapter

    def call(self, operation: str, arguments: Mapping[str, Any]) -> Reply:
        method = getattr(self._adapter, operation, None)
        if not callable(method):
            raise UnsupportedError(f"{type(self._adapter).__name__} has no operation {operation}")
        try:
            return "ok", method(**arguments)
        except NotImplementedError as error:
            raise UnsupportedError(f"{operation} is not implemented") from error
        except (Exception, SystemExit) as error:
            code, member = getattr(error, "code", None), getattr(error, "member", None)
            if isinstance(code, str) and isinstance(member, str):
                return "rejected", {"code": code, "member": member, "message": str(error)}
            raise ReportedError(f"{operation} raised {type(error).__name__}: {error}") from error

    def close(self) -> None:
        """Do nothing: the object belongs to the caller."""


class JsonLines:
    """Talks to an executable: one JSON object per line on its standard input and output.

    The process starts with the first call, in a process group of its own. After any breach of the
    protocol the whole group is killed, and the next call starts a fresh one.
    """

    name = JSON_LINES

    def __init__(
        self,
        command: Sequence[str],
        *,
        timeout: float = 60.0,
        environment: Mapping[str, str] | None = None,
        folder: str | None = None,
    ):
        """Prepare to run `command`; `timeout` in seconds bounds every single answer."""
        self.command = list(command)
        self.timeout = timeout
        self._environment = None if environment is None else dict(environment)
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._sequence = 0
        self._pending = bytearray()

    @property
    def pid(self) -> int | None:
        """The process id of the running subject, None before the first call."""
        return self._process.pid if self._process else None

    def call(self, operation: str, arguments: Mapping[str, Any]) -> Reply:
        if self._process is None:
            self._start()
        self._sequence += 1
        request = {"seq": self._sequence, "op": operation, **arguments}
        try:
            reply = self._exchange(json.dumps(request).encode() + b"\n", operation)
            return self._unpack(reply, operation)
        except ReportedError:
            raise
        except BaseException:
            # After a breach, a time-out or Ctrl-C the stream is out of step.
            if self._process is not None:
                self.close()
            raise

    def errors(self) -> str:
        """The subject's standard error so far."""
        self._errors.seek(0)
        return self._errors.read().decode("utf-8", "backslashreplace")

    def wait(self) -> None:
        """Wait for a subject that is about to end."""
        if self._process is not None:
            self._process.wait(self.timeout)

    def finish(self) -> None:
        """Close the subject's input and wait for its end; kill it after the time limit."""
        if self._process is not None:
            self._process.stdin.close()  # type: ignore[union-attr]
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(self.timeout)
        self.close()

    def close(self) -> None:
        """End the subject and everything it started; safe to call twice."""
        process, self._process = self._process, None
        self._pending.clear()
        if process is None:
            return
        with contextlib.suppress(OSError):
            process.stdin.close()  # type: ignore[union-attr]
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()  # type: ignore[union-attr]
        self._errors.close()

    def _start(self) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the process
        try:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env=self._environment,
                cwd=self._folder,
                start_new_session=True,
                bufsize=0,
            )
        except OSError as error:
            self._errors.close()
            raise SubjectError(
                f"cannot start {self.command[0]!r}: {error.strerror}; check the command"
            ) from None
        os.set_blocking(self._process.stdin.fileno(), False)  # type: ignore[union-attr]
        os.set_blocking(self._process.stdout.fileno(), False)  # type: ignore[union-attr]

    def _exchange(self, line: bytes, operation: str) -> bytes:
        """Send a request and return the line that answers it."""
        assert self._process
        assert self._process.stdin
        assert self._process.stdout
        into, out = self._process.stdin.fileno(), self._process.stdout.fileno()
        if self._pending:
            raise self._broke(f"wrote without a request, before {operation}")
        poll = select.poll()
        poll.register(out, select.POLLIN)
        poll.register(into, select.POLLOUT)
        unsent = memoryview(line)
        deadline = time.monotonic() + self.timeout
        while True:
            left = deadline - time.monotonic()
            events = dict(poll.poll(max(left, 0) * 1000)) if left > 0 else {}
            if not events:
                broken = self._broke(f"gave no answer to {operation} within {self.timeout:g} s")
                raise NoAnswerError(str(broken))
            if into in events and unsent:
                with contextlib.suppress(BlockingIOError):
                    try:
                        unsent = unsent[os.write(into, unsent) :]
                    except BrokenPipeError:
                        unsent = unsent[:0]  # it has ended; its last output is still to be read
                if not unsent:
                    poll.unregister(into)
            if out in events:
                data = os.read(out, _READ_SIZE)
                if not data:
                    raise self._broke(f"ended while it had to answer {operation}")
                searched = len(self._pending)
                self._pending += data
                end = self._pending.find(b"\n", searched)
                if end >= 0:
                    answer = bytes(self._pending[:end])
                    del self._pending[: end + 1]
                    return answer
                if len(self._pending) > _MAX_LINE:
                    raise self._broke(f"flooded its output while it had to answer {operation}")

    def _unpack(self, line: bytes, operation: str) -> Reply:
        try:
            reply = json.loads(line)
        except (ValueError, RecursionError):
            raise self._broke(
                f"answered {operation} with something that is not JSON", line
            ) from None
        if not isinstance(reply, dict) or reply.get("seq") != self._sequence:
            raise self._broke(f"answered {operation} without its sequence number", line)
        kinds = [kind for kind in ("ok", "rejected", "error") if kind in reply]
        if len(kinds) != 1 or len(reply) != 2:
            raise self._broke(
                f"answered {operation} with something other than one of ok, rejected and error",
                line,
            )
        kind = kinds[0]
        if kind == "error":
            message = str(reply["error"])
            if message.startswith("unsupported"):
                raise UnsupportedError(f"the adapter has no operation {operation}")
            # It reported its own failure and is still in step: no restart is needed.
            raise ReportedError(f"{operation} failed: {message}")
        return kind, reply[kind]

    def _broke(self, what: str, line: bytes = b"") -> SubjectError:
        """An error with the breach, the end of the process, and its last output."""
        assert self._process
        sentence = f"the executable {what}"
        with contextlib.suppress(subprocess.TimeoutExpired):
            status = self._process.wait(timeout=0.2) if not line else None
            if status is not None and status < 0:
                sentence += f" (killed by {_signal_name(-status)})"
            elif status is not None:
                sentence += f" (exit status {status})"
        self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(self._errors.tell() - _TAIL, 0))
        for label, data in (
            ("output", line or bytes(self._pending)),
            ("errors", self._errors.read()),
        ):
            tail = data[-_TAIL:].decode("utf-8", "backslashreplace").strip()
            if tail:
                sentence += f"; last {label}: {tail}"
        return SubjectError(sentence)


def _signal_name(number: int) -> str:
    """The name of a signal; the real-time ones have only numbers."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
