"""A lock that this process already runs under: adopt it instead of waiting for oneself.

``flock /tmp/gpu -c 'pytest …'`` holds the lock around the whole run, and pytest inherits its
descriptor, or, where somebody in between has closed it, is at least a descendant of the holder. A
process that opened the file again and waited would wait for ever.

Adopting alone would let everybody else under the same hold in at once: the workers of pytest-xdist,
two pytest runs of one shell script. So whoever adopts next takes an inner lock, on the `/proc`
folder of the process that brought the hold: there is nothing to create, clean up or agree on, it
goes as that process goes, and a run within a run adopts the inner lock in the same way.
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
    """A hold above us: its lock, the outermost process that has it, and whether that is us."""

    lock: KernelLock
    bringer: Process
    inherited: bool

    @property
    def id(self) -> str:
        """The same for everybody under this hold.

        A process that locked, unlocked and locked again by itself cannot be told apart from one
        that held on; two `flock` commands can.
        """
        return f"{self.lock.pid}-{self.bringer.pid}-{self.bringer.started}"

    def still_held(self, proc: Path = PROC) -> bool:
        """Whether the hold is there without interruption, as far as the kernel tells."""
        keeper = Process(os.getpid(), 0, 0) if self.inherited else self.bringer
        return any(lock.exclusive for lock in _held_by(keeper, self.lock.identity, proc))


def find(identity: str, proc: Path = PROC, pid: int | None = None) -> Adoptable | None:
    """The hold on a file that this process or an ancestor of it has; None where none has.

    A process has a hold where one of its descriptors shows the lock; where its descriptors are not
    ours to see, where the kernel names it as the one that locked.
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
