"""A lock that an ancestor of this process holds: it is adopted, instead of waiting for ever.

``flock /tmp/gpu -c 'pytest …'`` holds the lock around the whole run, and pytest inherits its
descriptor, or, where a process in between has closed it, is at least a descendant of the holder. A
process that opened the file again and waited would wait for itself.

Adopting alone would admit all processes under the same hold at once: the workers of pytest-xdist,
two pytest runs of one shell script. So a process that adopts a hold also takes an inner lock, on
the `/proc` folder of the process that brought the hold: there is nothing to create, clean up or
agree on, it ends with that process, and a run within a run adopts the inner lock in the same way.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from pytest_nvfp4.markers.gpu_lock.kernel_locks import (
    PROC,
    KernelLock,
    Process,
    chain,
    locks_of,
    locks_on,
)


@dataclass(frozen=True, slots=True)
class Adoptable:
    """A hold above this process: its lock, the outermost process that has it, and whether this
    process has inherited it."""

    lock: KernelLock
    bringer: Process
    inherited: bool

    @property
    def id(self) -> str:
        """The same for all processes under this hold.

        A process that unlocked and locked again by itself has the same id as before; two `flock`
        commands have two.
        """
        return f"{self.lock.pid}-{self.bringer.pid}-{self.bringer.started}"

    def still_held(self, proc: Path = PROC) -> bool:
        """Whether the hold is still there, as far as the kernel shows it."""
        keeper = Process(os.getpid(), 0, 0) if self.inherited else self.bringer
        return any(lock.exclusive for lock in _held_by(keeper, self.lock.identity, proc))


def find(identity: str, proc: Path = PROC, pid: int | None = None) -> Adoptable | None:
    """The hold on a file that this process or an ancestor of it has; None where there is none.

    A process has a hold where one of its descriptors shows the lock. Where its descriptors cannot
    be read, it has one where the kernel names it as the process that took the lock.
    """
    own = os.getpid() if pid is None else pid
    found = None
    inherited = False
    for one in chain(own, proc):
        for lock in _held_by(one, identity, proc):
            found = (lock, one)
            inherited = inherited or one.pid == own
    return found and Adoptable(*found, inherited)


def _held_by(one: Process, identity: str, proc: Path) -> list[KernelLock]:
    seen = locks_of(one.pid, identity, proc)
    if seen is not None:
        return seen
    return [lock for lock in locks_on(identity, proc) if lock.pid == one.pid]
