"""Which locks a request means, and how they are taken, adopted and released together."""

import datetime
import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from pytest_nvfp4.markers.gpu_lock import MARK, adoption
from pytest_nvfp4.markers.gpu_lock.devices import Card, DeviceError, Physical, resolve
from pytest_nvfp4.markers.gpu_lock.hold_summary import Hold
from pytest_nvfp4.markers.gpu_lock.holders import describe_process, user_name
from pytest_nvfp4.markers.gpu_lock.kernel_locks import PROC, process
from pytest_nvfp4.markers.gpu_lock.lock_file import LockError, LockFile
from pytest_nvfp4.markers.gpu_lock.request import LockRequest
from pytest_nvfp4.markers.requests import RequestError, expand

HOLDS_VARIABLE = "GPU_LOCK_HOLDS"
"""The environment variable with the ids of this run's holds, for pytest runs within this run.

It only names them: that we hold them is what the kernel says.
"""


@dataclass(frozen=True, slots=True, order=True)
class Lock:
    """One file to lock."""

    path: Path
    exclusive: bool = True


def plan_locks(
    request: LockRequest,
    environment: Mapping[str, str],
    folder: Path,
    inventory: Callable[[], tuple[Card, ...]],
) -> tuple[Lock, ...]:
    """The files to lock for a request, in the order in which all runs lock them.

    The whole machine is its path, exclusively. A device is a file of its own beside that, named
    after the physical card, while the path is shared: that excludes a program that locks the whole
    machine, such as ``flock /tmp/gpu``, and no other. A MIG instance likewise shares its card.
    A relative path starts at `folder`. Raises RequestError.
    """
    path = expand(MARK, request.path, environment, folder)
    if request.devices is None:
        return (Lock(path),)
    try:
        found = resolve(request.devices, environment, inventory)
    except DeviceError as error:
        raise RequestError(f"{MARK}(devices={request.devices!r}): {error}") from None
    locks = [Lock(path, exclusive=False)]
    for device in found:
        whole = device.part == ""
        locks.append(Lock(_beside(path, Physical(device.card)), whole))
        if not whole:
            locks.append(Lock(_beside(path, device)))
    return merge(locks)


def _beside(path: Path, device: Physical) -> Path:
    name = f"{device.card}.{device.part}" if device.part else device.card
    return path.with_name(f"{path.name}.{name.replace('/', '_')}")


def merge(locks: Iterable[Lock]) -> tuple[Lock, ...]:
    """Locks in the one order, each path once, and exclusive where one of the locks is."""
    wanted: dict[Path, bool] = {}
    for lock in locks:
        wanted[lock.path] = wanted.get(lock.path, False) or lock.exclusive
    return tuple(sorted(Lock(path, exclusive) for path, exclusive in wanted.items()))


@dataclass(slots=True)
class Holding:
    """Locks that are held now; `record` says since when, and from where they were adopted."""

    record: Hold
    files: list[LockFile] = field(default_factory=list)
    adopted: list[adoption.Adoptable] = field(default_factory=list)

    def release(self) -> str:
        """Release the locks and complete `record`; return what was wrong with the hold, or ""."""
        lost = [one for one in self.adopted if not one.still_held()]
        # Written before the release: the next hold's record must not begin before this one ends.
        self.record = replace(self.record, released=_now())
        for file in reversed(self.files):
            file.close()
        if lost:
            return (
                f"the hold adopted from {self.record.adopted_from} ended while the test ran; "
                f"keep it until pytest ends, and measure again"
            )
        return ""

    def environment(self) -> str:
        """This hold, as `HOLDS_VARIABLE` names it."""
        return " ".join(f"{file.identity}={self.record.id}" for file in self.files)


def take(
    locks: Iterable[Lock],
    *,
    timeout: float | None,
    number: int,
    environment: Mapping[str, str],
    notice: Callable[[str], None],
) -> Holding:
    """Take all of some locks in their order, or none.

    `timeout` is in seconds, None for ever; `number` makes the id of this process's hold unique;
    `notice` gets a sentence each time that the wait for a lock is long. Raises LockError where a
    lock cannot be taken, LockTimeoutError where not in time.
    """
    start = time.monotonic()
    deadline = None if timeout is None else start + timeout
    files: list[LockFile] = []
    adopted: list[adoption.Adoptable] = []
    wanted = tuple(locks)
    first_adopted: adoption.Adoptable | None = None
    try:
        for lock in wanted:
            file, above = _take_one(lock, deadline, notice)
            files.append(file)
            adopted.extend(above)
            if lock is wanted[0] and above:
                first_adopted = above[0]
    except BaseException:
        for file in reversed(files):
            file.close()
        raise
    me = process(os.getpid())
    own = f"{os.getpid()}-{os.getpid()}-{me.started if me else 0}-{number}"
    record = Hold(
        id=_adopted_id(first_adopted, environment) if first_adopted else own,
        path=", ".join(str(lock.path) for lock in wanted),
        acquired=_now(),
        waited=f"{time.monotonic() - start:.6f}",
        adopted_from=" and ".join(describe_process(one.bringer.pid) for one in adopted[:1]),
        owner=f"pid {os.getpid()} of {user_name(os.getuid())}",
    )
    return Holding(record, files, adopted)


def _take_one(
    lock: Lock, deadline: float | None, notice: Callable[[str], None], name: str = ""
) -> tuple[LockFile, list[adoption.Adoptable]]:
    """One lock, or where an ancestor holds it, the lock among the runs under that ancestor."""
    file = LockFile(lock.path, exclusive=lock.exclusive, name=name)
    try:
        if file.try_lock():
            return file, []
        above = adoption.find(file.identity)
        if above is None:
            file.wait(deadline, notice)
            return file, []
    except BaseException:
        file.close()
        raise
    file.close()
    if not above.lock.exclusive:
        raise LockError(
            f"{file.name} is already held above this run, but shared; "
            f"hold it exclusively (flock without -s), or do not hold it"
        )
    inner = Lock(PROC / str(above.bringer.pid), lock.exclusive)
    name = f"{file.name} (among the runs under pid {above.bringer.pid})"
    held, more = _take_one(inner, deadline, notice, name)
    return held, [above, *more]


def _adopted_id(above: adoption.Adoptable, environment: Mapping[str, str]) -> str:
    """The id of an adopted hold: as its holder names it, where that is a run of this plugin."""
    for pair in environment.get(HOLDS_VARIABLE, "").split():
        identity, _, name = pair.partition("=")
        if identity == above.lock.identity and name.startswith(f"{above.id}-"):
            return name
    return above.id


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds")
