"""What `@pytest.mark.gpu_lock` asks for, which locks that means, and the record of a hold."""

import datetime
import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from pytest_nvfp4.markers.gpu_lock import adoption
from pytest_nvfp4.markers.gpu_lock.devices import (
    DeviceError,
    Devices,
    Physical,
    check_devices,
    resolve,
)
from pytest_nvfp4.markers.gpu_lock.holders import describe_process, user_name
from pytest_nvfp4.markers.gpu_lock.kernel_locks import PROC, process
from pytest_nvfp4.markers.gpu_lock.lock_file import LockError, LockFile
from pytest_nvfp4.markers.gpu_lock.nvml import Card
from pytest_nvfp4.markers.marks import Marks, named_options
from pytest_nvfp4.markers.options import DEFAULT_PATH
from pytest_nvfp4.markers.paths import RequestError, expand

MARK = "gpu_lock"
FUNCTION, SESSION = "function", "session"
HOLDS_VARIABLE = "NVFP4_LOCK_HOLDS"
"""Tells runs within this run the ids of our holds; the kernel, not this, says that we hold them."""

_FORMS = {
    "path": "a path, such as '/tmp/gpu'",
    "timeout": "a number of seconds above 0",
    "devices": "'visible', or a list of indices and UUIDs without repetition",
    "scope": "'function' or 'session'",
    "require_idle": "True or False",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a test asks for; without `devices`, the whole machine. `timeout` is in seconds."""

    path: str = DEFAULT_PATH
    timeout: float | None = None
    devices: Devices | None = None
    scope: str = FUNCTION
    require_idle: bool = False


@dataclass(frozen=True, slots=True, order=True)
class Lock:
    """One file to lock."""

    path: Path
    exclusive: bool = True


def read_request(marks: Marks, defaults: Request) -> Request:
    """What a test's markers ask for; each is (arguments, options), and of two the first wins."""
    options = named_options(MARK, marks, _FORMS, "write path={} if that is a path")
    checked = {name: _checked(name, value) for name, value in options.items()}
    return replace(defaults, **checked)  # type: ignore[arg-type]


def _checked(name: str, value: object) -> object:
    wrong = RequestError(f"{MARK}({name}={value!r}) is not possible; use {_FORMS[name]}")
    match name:
        case "path":
            good = isinstance(value, str | os.PathLike) and str(value) and "\0" not in str(value)
            value = str(value)
        case "timeout":
            number = isinstance(value, int | float) and not isinstance(value, bool)
            good = value is None or (number and 0 < value < 86400)  # type: ignore[operator]
        case "devices":
            good = value is None or (value := check_devices(value)) is not None
        case "scope":
            good = value in (FUNCTION, SESSION)
        case _:
            good = isinstance(value, bool)
    if not good:
        raise wrong
    return value


def plan_locks(
    request: Request,
    environment: Mapping[str, str],
    folder: Path,
    inventory: Callable[[], tuple[Card, ...]],
) -> tuple[Lock, ...]:
    """The files to lock for a request, in the order in which everybody locks them.

    The whole machine is its path, exclusively. A device is a file of its own beside that, named
    after the physical card, while the path is shared: that excludes whoever wants the whole
    machine, such as ``flock /tmp/gpu``, and nobody else. A MIG instance likewise shares its card.
    A relative path starts at `folder`.
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
    """Locks in the one order, each path once, exclusively where anybody needs it so."""
    wanted: dict[Path, bool] = {}
    for lock in locks:
        wanted[lock.path] = wanted.get(lock.path, False) or lock.exclusive
    return tuple(sorted(Lock(path, exclusive) for path, exclusive in wanted.items()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """The record of a hold, for reports: two tests with one `id` ran under one hold.

    Times are UTC in ISO 8601; `waited` is in seconds; `adopted_from` is empty for a hold of our
    own, and `released` as long as it lasts.
    """

    id: str
    path: str
    acquired: str
    waited: str
    adopted_from: str
    owner: str
    released: str = ""

    def properties(self) -> list[tuple[str, str]]:
        """What reports carry, as pytest's user properties."""
        return [(f"{MARK}_{one.name}", getattr(self, one.name)) for one in fields(self)]

    @classmethod
    def from_properties(cls, properties: Iterable[tuple[str, object]]) -> "Hold | None":
        """The hold that a report tells of, if any."""
        told = {name: str(value) for name, value in properties if name.startswith(f"{MARK}_")}
        names = [one.name for one in fields(cls)]
        if any(f"{MARK}_{name}" not in told for name in names):
            return None
        return cls(**{name: told[f"{MARK}_{name}"] for name in names})


@dataclass(slots=True)
class Holding:
    """Locks that are held now; `record` says since when and how they came."""

    record: Hold
    files: list[LockFile] = field(default_factory=list)
    adopted: list[adoption.Adoptable] = field(default_factory=list)

    def release(self) -> str:
        """Let go; say what was wrong with the hold, or nothing. `record` is complete afterwards."""
        lost = [one for one in self.adopted if not one.still_held()]
        # Before it is true: the next holder's record must not begin while this one lasts.
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
        """Our own holds for `HOLDS_VARIABLE`."""
        return " ".join(f"{file.identity}={self.record.id}" for file in self.files)


def take(
    locks: Iterable[Lock],
    *,
    timeout: float | None,
    number: int,
    environment: Mapping[str, str],
    notice: Callable[[str], None],
) -> Holding:
    """Take some locks in their order, or none; `number` tells this process's holds apart.

    Raises `LockError` where one cannot be had, `LockTimeoutError` where not in time.
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
    """One lock, or the one within the hold that we are already under."""
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
    """The id of the hold above us: as its holder calls it, where that is another run of ours."""
    for pair in environment.get(HOLDS_VARIABLE, "").split():
        identity, _, told = pair.partition("=")
        if identity == above.lock.identity and told.startswith(f"{above.id}-"):
            return told
    return above.id


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds")
