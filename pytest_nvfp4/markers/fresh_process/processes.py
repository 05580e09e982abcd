"""Start fresh processes, receive their messages, and make sure that they end.

Each leads a process group of its own, and all processes of the group end with it. A child of the
process that has left the group, or keeps a pipe open, delays nothing: only the process is waited
for.
"""

import contextlib
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import IO, Any

from pytest_nvfp4.markers.fresh_process.channel import Channel, Message

DUMP_GRACE = 2.0  # seconds for a hanging process to write where it hangs
END_GRACE = 60.0  # seconds from the end of the test to the end of its process
INTERRUPT_GRACE = 5.0  # seconds to tear down after Ctrl-C
_LAST_OUTPUT = 1 << 16  # bytes

TIMED_OUT, LINGERED = "timed out", "lingered"


@dataclass(frozen=True, slots=True)
class Start:
    """A process to start: its command, folder, environment and first message.

    The channel's descriptor is added to the command; `timeout` is in seconds.
    """

    command: tuple[str, ...]
    folder: str
    environment: Mapping[str, str]
    message: Mapping[str, Any]
    timeout: float | None = None
    shown: bool = False
    """Its output is not kept: it goes at once to where this process's output goes."""


@dataclass(slots=True)
class Ended:
    """How a process ended: its status as `subprocess` gives it, and its last output."""

    status: int
    why: str = ""
    """`TIMED_OUT` or `LINGERED` where the parent ended it."""
    announced: int | None = None
    """The status that pytest announced at its end; None where it did not come to that."""
    error: str = ""
    """Why it could not be started at all."""
    output: str = ""
    """The last that it wrote outside pytest's capturing."""
    captured: dict[str, str] = field(default_factory=dict)
    """Text that pytest had captured and not reported: ``{"stdout": …, "stderr": …}``."""
    seconds: float = 0.0


class Process:
    """A running process; its `channel` and `ended` can be given to a selector."""

    def __init__(self, start: Start):
        ours, theirs = socket.socketpair()
        self.channel = Channel(ours)
        self.announced: int | None = None
        self.silent = False  # whether it has closed its end of the channel
        self.shown = start.shown
        self._why = ""
        self._output: IO[bytes] | None = None if start.shown else _kept_output()
        self._began = time.monotonic()
        sys.stdout.flush()  # so that earlier output comes first
        try:
            self._popen = subprocess.Popen(
                [*start.command, str(theirs.fileno())],
                cwd=start.folder,
                env=dict(start.environment),
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=self._output,
                pass_fds=(theirs.fileno(),),
                process_group=0,
            )
        except BaseException:
            self.close()
            raise
        finally:
            theirs.close()
        self.ended = os.pidfd_open(self._popen.pid)
        self.deadline = None if start.timeout is None else self._began + start.timeout
        with contextlib.suppress(BrokenPipeError):
            self.channel.send("launch", start.message)

    def expired(self) -> None:
        """The deadline has passed: the first time, let it write where it hangs; then end it."""
        if not self._why:
            self._why = TIMED_OUT if self.announced is None else LINGERED
            self._signal(signal.SIGABRT)  # pytest's faulthandler writes every thread's stack
            self.deadline = time.monotonic() + DUMP_GRACE
        else:
            self._end_group()
            self.deadline = None

    def receive(self) -> list[Message]:
        """Its messages since the last call; those about the process itself are acted on, too."""
        messages = self.channel.receive()
        self.silent = messages is None
        for kind, value in messages or ():
            if kind == "end":
                self.announced = value
                grace = time.monotonic() + END_GRACE
                self.deadline = grace if self.deadline is None else min(self.deadline, grace)
        return messages or []

    def reap(self) -> Ended:
        """Wait for a process that has ended, and kill what is left in its group."""
        self._end_group()  # before the wait, since its pid may be given to another process after it
        status = self._popen.wait()
        seconds = time.monotonic() - self._began
        ended = Ended(
            status, self._why, self.announced, output=_tail(self._output), seconds=seconds
        )
        if self.announced != status or self._why:
            for name, descriptor in zip(
                ("stdout", "stderr"), self.channel.descriptors, strict=False
            ):
                ended.captured[name] = _content(descriptor)
        self.close()
        return ended

    def interrupt(self) -> None:
        """Ask it to stop as Ctrl-C would."""
        self._signal(signal.SIGINT)

    def close(self) -> None:
        """Free all resources; a process that still runs is killed."""
        popen = getattr(self, "_popen", None)
        if popen is not None and popen.returncode is None:
            self._end_group()
            popen.wait()
        if hasattr(self, "ended"):
            os.close(self.ended)
            del self.ended
        if self._output is not None:
            self._output.close()
        self.channel.close()

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._popen.pid, number)

    def _end_group(self) -> None:
        self._signal(signal.SIGKILL)  # it may have left its group
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._popen.pid, signal.SIGKILL)


def run_all(
    starts: Iterable[Start],
    together: int,
    receive: Callable[[int, Message], None],
    more: Callable[[], bool],
) -> Generator[tuple[int, Ended]]:
    """Run processes, `together` at a time, and yield each one's number and end, as they end.

    `receive` gets every message with the number of its process; `more` is called before each start,
    and there is none where it returns false. When the generator is closed or interrupted, all
    processes are ended.
    """
    waiting = iter(enumerate(starts))
    running: dict[int, Process] = {}
    try:
        while True:
            while len(running) < together and more():
                number, start = next(waiting, (-1, None))
                if start is None:
                    break
                try:
                    running[number] = Process(start)
                except OSError as error:
                    yield number, Ended(1, error=str(error))
            if not running:
                return
            _wait(running.values())
            for number, process in list(running.items()):
                over = _is_over(process)  # before receiving, so that its last messages are not lost
                for message in process.receive():
                    receive(number, message)
                    if process.shown and message[0] == "report":
                        sys.stdout.flush()
                        process.channel.acknowledge()
                if over:
                    del running[number]
                    yield number, process.reap()
    except (KeyboardInterrupt, GeneratorExit):
        _interrupt(list(running.values()))
        raise
    finally:
        for process in running.values():
            process.close()


def _wait(processes: Iterable[Process]) -> None:
    """Wait for a message, an end or the next deadline; act on the deadlines that have passed."""
    with selectors.DefaultSelector() as selector:
        deadlines = []
        for process in processes:
            selector.register(process.ended, selectors.EVENT_READ)
            if not process.silent:
                selector.register(process.channel, selectors.EVENT_READ)
            if process.deadline is not None:
                deadlines.append(process.deadline)
        selector.select(max(0.0, min(deadlines) - time.monotonic()) if deadlines else None)
    for process in processes:
        if process.deadline is not None and time.monotonic() >= process.deadline:
            process.expired()


def _is_over(process: Process) -> bool:
    with selectors.DefaultSelector() as selector:
        selector.register(process.ended, selectors.EVENT_READ)
        return bool(selector.select(0))


def _interrupt(processes: list[Process]) -> None:
    """Interrupt processes, and give them `INTERRUPT_GRACE` seconds to tear down."""
    for process in processes:
        process.interrupt()
    with contextlib.suppress(KeyboardInterrupt):  # after a second Ctrl-C they are killed at once
        deadline = time.monotonic() + INTERRUPT_GRACE
        left = [process for process in processes if not _is_over(process)]
        while left and time.monotonic() < deadline:
            with selectors.DefaultSelector() as selector:
                for process in left:
                    selector.register(process.ended, selectors.EVENT_READ)
                selector.select(max(0.0, deadline - time.monotonic()))
            for process in left:
                process.receive()  # so that none blocks while it sends
            left = [process for process in left if not _is_over(process)]


def _kept_output() -> IO[bytes]:
    return tempfile.TemporaryFile()


def _tail(file: IO[bytes] | None) -> str:
    if file is None:
        return ""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _LAST_OUTPUT))
    return file.read().decode("utf-8", "backslashreplace")


def _content(descriptor: int) -> str:
    """The end of the file behind a descriptor; "" where it is not a file."""
    with contextlib.suppress(OSError):
        size = os.fstat(descriptor).st_size
        data = os.pread(descriptor, _LAST_OUTPUT, max(0, size - _LAST_OUTPUT))
        return data.decode("utf-8", "backslashreplace")
    return ""


def show(output: str) -> None:
    """Write what a process wrote outside pytest's capturing to this process's stderr."""
    if output:
        sys.stderr.write(output)
        sys.stderr.flush()
