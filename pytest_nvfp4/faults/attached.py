"""Trace this process and all processes that it starts later, by attaching strace to it.

It shows what audit events cannot: compiled code in this process, and every program that a test
runs. Each system call of a traced process stops it for some microseconds.
"""

import ctypes
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field

from pytest_nvfp4.faults import strace
from pytest_nvfp4.faults.calls import Call, Name

_PR_SET_PTRACER = 0x59616D61  # prctl(2): the process that Yama allows to trace this one
_ANY_PROCESS = ctypes.c_ulong(-1)

# System call → what it is, and how its paths are given: "at" after the descriptor that a relative
# path starts from, "path" without one, "descriptor" by a descriptor alone.
_CALLS: dict[str, tuple[Name, str]] = {
    **dict.fromkeys(("open", "creat"), ("open", "path")),
    **dict.fromkeys(("openat", "openat2"), ("open", "at")),
    "rename": ("rename", "path"),
    **dict.fromkeys(("renameat", "renameat2"), ("rename", "at")),
    "link": ("link", "path"),
    "linkat": ("link", "at"),
    **dict.fromkeys(("unlink", "rmdir"), ("unlink", "path")),
    "unlinkat": ("unlink", "at"),
    **dict.fromkeys(("mkdir", "mknod", "truncate", "chmod", "chown", "lchown"), ("write", "path")),
    **dict.fromkeys(("utime", "utimes", "setxattr", "lsetxattr"), ("write", "path")),
    **dict.fromkeys(("removexattr", "lremovexattr"), ("write", "path")),
    **dict.fromkeys(("mkdirat", "mknodat", "fchmodat", "fchmodat2"), ("write", "at")),
    **dict.fromkeys(("fchownat", "futimesat", "utimensat"), ("write", "at")),
    **dict.fromkeys(("ftruncate", "fallocate", "fchmod", "fchown"), ("write", "descriptor")),
    **dict.fromkeys(("fsetxattr", "fremovexattr"), ("write", "descriptor")),
    **dict.fromkeys(("write", "pwrite64", "writev"), ("write", "descriptor")),
    **dict.fromkeys(("pwritev", "pwritev2", "sendfile"), ("write", "descriptor")),
}
_LINKS = {"symlink": "path", "symlinkat": "at"}
_PROCESSES = ("clone", "clone3", "fork", "vfork", "execve", "execveat", "chdir", "fchdir")
_WRITING = re.compile(r"O_WRONLY|O_RDWR|O_TRUNC")


class NotAttachedError(OSError):
    """strace cannot trace this process; the text is the reason."""


@dataclass(frozen=True, slots=True)
class Traced:
    """A successful system call: its name, its process, and the name of that process's program.

    `pid` is None for this process itself.
    """

    call: Call
    name: str
    pid: int | None
    program: str


class Tracer:
    """strace, attached to this process until it is stopped."""

    def __init__(self) -> None:
        reason = strace.unavailable()
        if reason is not None:
            raise NotAttachedError(reason)
        self._folder = tempfile.mkdtemp(prefix="nvfp4-strace-")
        self._log = os.path.join(self._folder, "log")
        self._threads = [int(name) for name in os.listdir("/proc/self/task")]
        self._directory = os.getcwd()
        # No filter by status: with one, strace 6.1 loses calls that other threads' calls interrupt.
        names = ",".join(f"?{name}" for name in (*_CALLS, *_LINKS, *_PROCESSES))
        _allow_tracing(True)
        try:
            self._process = subprocess.Popen(
                [
                    *("strace", "-f", "-y", "-xx", "-s", "0", "-o", self._log),
                    *("-e", f"trace={names}", "-e", "signal=none"),
                    *("-p", str(os.getpid())),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            assert self._process.stderr is not None
            first = self._process.stderr.readline()
        finally:
            _allow_tracing(False)
        if " attached" not in first:
            self._process.communicate()
            shutil.rmtree(self._folder)
            raise NotAttachedError(f"strace may not trace this process ({first.strip()[-120:]})")
        # strace writes a line for every process that it follows, and blocks where none is read.
        self._reader = threading.Thread(target=self._process.stderr.read, daemon=True)
        self._reader.start()

    def stop(self) -> list[Traced]:
        """Detach, and return the calls about files since the start, in order."""
        self._detach()
        with open(self._log, encoding="utf-8", errors="surrogateescape") as lines:
            return read_changes(lines, self._threads, self._directory)

    def close(self) -> None:
        """Detach if that is not done yet, and remove the log."""
        self._detach()
        shutil.rmtree(self._folder)

    def _detach(self) -> None:
        assert self._process.stderr is not None
        self._process.send_signal(signal.SIGINT)  # without effect where it has ended
        self._process.wait()
        self._reader.join()
        self._process.stderr.close()


def _allow_tracing(allowed: bool) -> None:
    """Allow strace to trace its parent, where Yama forbids it. Elsewhere this does nothing."""
    ctypes.CDLL(None).prctl(
        _PR_SET_PTRACER, _ANY_PROCESS if allowed else ctypes.c_ulong(0), 0, 0, 0
    )


@dataclass(slots=True)
class _Process:
    """What is known of a process at one line of a log; threads share one."""

    pid: int | None
    directory: str
    program: str = "this process"
    children: list[int] = field(default_factory=list)


def read_changes(lines: Iterable[str], threads: Iterable[int], directory: str) -> list[Traced]:
    """The successful calls of a log that was written while attached, with paths made absolute.

    `threads` are those of the process that strace attached to, `directory` is its current one. A
    relative path starts at the current directory of the process that names it, so the log is
    followed through forks and changes of directory.
    """
    matches = [match for match in map(strace.LINE.match, strace.joined(lines)) if match]
    parents: dict[int, tuple[int, bool]] = {}
    for match in matches:
        if match["name"] in ("clone", "clone3", "fork", "vfork"):
            shared = "CLONE_THREAD" in match["arguments"]
            parents[int(match["result"])] = (int(match["pid"]), shared)
    own = _Process(None, directory)
    known = dict.fromkeys(threads, own)

    def process(pid: int) -> _Process:
        """A process; its first line often comes before the call that made it returns."""
        if pid not in known:
            parent, shared = parents.get(pid, (-1, False))
            above = own if parent in (-1, pid) else process(parent)
            program = "a process" if above is own else above.program
            known[pid] = above if shared else _Process(pid, above.directory, program)
        return known[pid]

    changes = []
    for match in matches:
        if match["pid"] is None or match["result"].startswith(("-", "?")):
            continue
        caller = process(int(match["pid"]))
        name, arguments = match["name"], match["arguments"]
        paths = [strace.plain(text) for text in strace.STRING.findall(arguments)]
        folders = [strace.plain(text) for text in strace.DESCRIPTOR.findall(arguments)]
        if name in ("execve", "execveat"):
            caller.program = os.path.basename(paths[0]) if paths else caller.program
        elif name == "chdir":
            caller.directory = _absolute(caller.directory, paths[0])
        elif name == "fchdir":
            caller.directory = folders[0] if folders else caller.directory
        else:
            opened = strace.DESCRIPTOR.search(match["result"] + match["rest"])
            call = _call(name, arguments, paths, folders, caller.directory)
            if call is not None and call.name == "open" and opened:
                call = Call("open", strace.plain(opened[1]), "", call.creates, call.writes)
            if call is not None:
                changes.append(Traced(call, name, caller.pid, caller.program))
    return changes


def _call(
    name: str, arguments: str, paths: list[str], folders: list[str], directory: str
) -> Call | None:
    if name in _LINKS:
        start = folders[0] if folders and _LINKS[name] == "at" else directory
        return Call("link", "", _absolute(start, paths[1])) if len(paths) > 1 else None
    if name not in _CALLS:
        return None
    kind, form = _CALLS[name]
    if form == "descriptor" or not paths:
        return Call(kind, folders[0]) if folders else None
    if form == "path":
        folders = [directory]
    starts = folders or [directory]
    wanted = 2 if kind in ("rename", "link") else 1
    found = [
        _absolute(starts[min(index, len(starts) - 1)], path)
        for index, path in enumerate(paths[:wanted])
    ]
    if kind == "open":
        creates = "O_CREAT" in arguments or name == "creat"
        writes = bool(_WRITING.search(arguments)) or name == "creat"
        return Call(kind, found[0], creates=creates, writes=writes)
    return Call(kind, found[0], found[1] if len(found) > 1 else "")


def _absolute(directory: str, path: str) -> str:
    return os.path.normpath(os.path.join(directory, path))
