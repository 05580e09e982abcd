"""Locks and processes as Linux shows them: `/proc` read into values.

Sources: proc(5) for `/proc/locks`, `/proc/PID/stat`, `/proc/PID/fdinfo` and
`/proc/PID/mountinfo`. Every function takes the folder as an argument, so that tests can
give it a machine of their own; what cannot be read is left out, never guessed.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")

# "1: FLOCK  ADVISORY  WRITE 4711 fe:00:2252817 0 EOF"; those who wait have "->" after the number.
_LOCK = re.compile(r"\d+: FLOCK +\w+ +(READ|WRITE) +(-?\d+) +([0-9a-f]+:[0-9a-f]+:\d+) ")


@dataclass(frozen=True, slots=True)
class KernelLock:
    """One granted flock: the file's identity, whether it excludes others, and who took it.

    `pid` is the process that made the call, which may have ended since, or be 0 where it is not
    visible from here; every process with the open file description keeps the lock.
    """

    identity: str
    exclusive: bool
    pid: int


@dataclass(frozen=True, slots=True)
class Process:
    """A living process; `started` is in clock ticks since boot."""

    pid: int
    parent: int
    started: int


def parse_locks(text: str) -> list[KernelLock]:
    """The granted flocks among the lines of `/proc/locks`, or of an `fdinfo` file."""
    return [
        KernelLock(identity, mode == "WRITE", int(pid))
        for mode, pid, identity in _LOCK.findall(text)
    ]


def identity_of(descriptor: int, proc: Path = PROC) -> str:
    """The name that the kernel gives an open file in its list of locks: device and inode.

    The device is that of the mount, which on overlay and btrfs file systems is not the one that
    `stat` reports.
    """
    status = os.fstat(descriptor)
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}"
    inode = str(status.st_ino)
    for line in _read(proc / "self" / "fdinfo" / str(descriptor)).splitlines():
        name, _, value = line.partition(":")
        if name == "ino":
            inode = value.strip()
        elif name == "mnt_id":
            device = _mount_device(value.strip(), proc) or device
    return f"{device}:{inode}"


def _mount_device(mount: str, proc: Path) -> str | None:
    for line in _read(proc / "self" / "mountinfo").splitlines():
        words = line.split(" ", 3)
        if words[0] == mount:
            major, minor = map(int, words[2].split(":"))
            return f"{major:02x}:{minor:02x}"
    return None


def locks_on(identity: str, proc: Path = PROC) -> list[KernelLock]:
    """Every granted flock on a file that the system-wide list shows."""
    return [lock for lock in parse_locks(_read(proc / "locks")) if lock.identity == identity]


def locks_of(pid: int, identity: str, proc: Path = PROC) -> list[KernelLock] | None:
    """The flocks on a file that belong to a descriptor of this process.

    None where its descriptors cannot be read: it belongs to another user, or has ended.
    """
    try:
        names = os.listdir(proc / str(pid) / "fdinfo")
    except OSError:
        return None
    infos = (_read(proc / str(pid) / "fdinfo" / name) for name in names)
    found = [lock for text in infos if "FLOCK" in text for lock in parse_locks(text)]
    return [lock for lock in found if lock.identity == identity]


def process(pid: int, proc: Path = PROC) -> Process | None:
    """A living process, or None."""
    # The command in brackets may itself hold brackets and spaces.
    words = _read(proc / str(pid) / "stat").rpartition(")")[2].split()
    if len(words) < 20 or words[0] == "Z":
        return None
    return Process(pid, int(words[1]), int(words[19]))


def chain(pid: int, proc: Path = PROC) -> Iterator[Process]:
    """A process and its ancestors, from itself up."""
    seen = set()
    while pid > 0 and pid not in seen and (found := process(pid, proc)) is not None:
        yield found
        seen.add(pid)
        pid = found.parent


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8", "backslashreplace")
    except OSError:
        return ""
