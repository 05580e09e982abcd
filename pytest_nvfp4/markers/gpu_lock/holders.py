"""Which processes hold a lock, in words for the user who waits for it."""

import os
import pwd
from collections.abc import Callable
from pathlib import Path

from pytest_nvfp4.markers.gpu_lock.kernel_locks import PROC, locks_of, locks_on, process

_SHOWN = 100  # characters of a command line


def describe_holders(
    identity: str, proc: Path = PROC, *, hurry: Callable[[], bool] = lambda: False
) -> str:
    """The holders of a file: pid, command, user and age; or that they are not visible from here.

    The process that took the lock may have ended while another keeps its descriptor (a shell after
    ``flock 9``, a grandchild); then all processes are searched, until `hurry` returns true.
    """
    asked = sorted({lock.pid for lock in locks_on(identity, proc)})
    living = [pid for pid in asked if locks_of(pid, identity, proc) != [] and process(pid, proc)]
    found = [describe_process(pid, proc) for pid in living or _keepers(identity, proc, hurry)]
    return " and ".join(found) if found else "a process that is not visible from here"


def _keepers(identity: str, proc: Path, hurry: Callable[[], bool]) -> list[int]:
    found = []
    for name in os.listdir(proc):
        if hurry():
            break
        if name.isdigit() and locks_of(int(name), identity, proc):
            found.append(int(name))
    return sorted(found)


def describe_process(pid: int, proc: Path = PROC) -> str:
    """One process in words; its age is how long it has run, not how long it has held a lock."""
    folder = proc / str(pid)
    found = process(pid, proc)
    if found is None:
        return f"pid {pid} (ended)"
    try:
        words = (folder / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
        command = b" ".join(words).decode("utf-8", "backslashreplace")
        command = command or (folder / "comm").read_text(errors="backslashreplace").strip()
        owner = folder.stat().st_uid
        uptime = float((proc / "uptime").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return f"pid {pid}"
    command = "".join(c if c.isprintable() else "?" for c in command)
    if len(command) > _SHOWN:
        command = command[:_SHOWN] + "…"
    age = uptime - found.started / os.sysconf("SC_CLK_TCK")
    return f"pid {pid} `{command}` of {user_name(owner)}, running for {duration(age)}"


def user_name(uid: int) -> str:
    """A user's name, or number where it has none here."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def duration(seconds: float) -> str:
    """A length of time in its largest unit, rounded down, such as ``3 min``."""
    whole = max(0, int(seconds))
    for size, unit in ((86400, "days"), (3600, "h"), (60, "min")):
        if whole >= 2 * size:
            return f"{whole // size} {unit}"
    return f"{whole} s"
