"""The frozen file: read strictly, once, and everything that must be the same afterwards."""

import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pytest_nvfp4.cache_files.reader import check_bytes, read_file
from pytest_nvfp4.errors import UsageError
from pytest_nvfp4.model import Finding
from pytest_nvfp4.plans import PlanMap

State = Mapping[tuple[str, str], object]
"""(Path, aspect) → value; a path that does not exist has the one aspect ``existence``."""


class MapError(UsageError):
    """A file that cannot be frozen; the text is one sentence and begins with the contract."""


@dataclass(frozen=True, slots=True)
class FrozenMap:
    """A file with plans, as it was read before the test."""

    path: Path
    dialect: str
    sha256: str
    plans: PlanMap


def read_map(path: Path) -> FrozenMap:
    """Read and judge a file, as a document for its own environment; raises MapError.

    Whether that is also the environment of the engine under test, only the engine can decide; it
    counts a rejection where it is not.
    """
    data = read_file(str(path))
    if isinstance(data, Finding):
        raise MapError(f"FROZ-3: {data.message} ({data.codes[0]})")
    checked = check_bytes(str(path), data)
    judgement = checked.judgement
    what = f"{checked.dialect} document" if checked.dialect else "document"
    if not judgement.accepted:
        first, *more = map(str, judgement.findings)
        rest = f" and {len(more)} more, which nvfp4-conformance check lists" if more else ""
        raise MapError(f"FROZ-3: {path} is rejected as a {what} for {first}{rest}")
    if not judgement.plans:
        raise MapError(f"FROZ-3: {path} is a {what} without any plan; freeze one that has plans")
    assert checked.dialect is not None
    return FrozenMap(path, checked.dialect, hashlib.sha256(data).hexdigest(), judgement.plans)


def folders(path: Path) -> tuple[str, ...]:
    """The directory of a file as it is named, and that of what it is a link to, without links."""
    named, real = os.path.realpath(path.parent), os.path.dirname(os.path.realpath(path))
    return (named,) if named == real else (named, real)


def observe(path: Path, sha256: str | None = None) -> State:
    """What must not change: the file, and each directory that it is in.

    With the digest of the file as it was read, it is not read again.
    """
    state: dict[tuple[str, str], object] = {}
    real = os.path.realpath(path)
    for name in (str(path), real):  # a link, and what it leads to
        state |= _status(name)
    state[real, "bytes"] = sha256 or _digest(real)
    for folder in folders(path):
        state |= _status(folder)
        try:
            state[folder, "listing"] = frozenset(os.listdir(folder))
        except OSError as error:
            state[folder, "listing"] = error.strerror
    return state


def _digest(path: str) -> str:
    data = read_file(path)
    return data.message if isinstance(data, Finding) else hashlib.sha256(data).hexdigest()


def _status(path: str) -> dict[tuple[str, str], object]:
    try:
        status = os.lstat(path)
    except OSError:
        return {(path, "existence"): False}
    return {
        (path, "existence"): True,
        (path, "inode"): (status.st_dev, status.st_ino),
        (path, "mode"): f"{status.st_mode:o}",
        (path, "owner"): (status.st_uid, status.st_gid),
        (path, "mtime"): status.st_mtime_ns,
        (path, "ctime"): status.st_ctime_ns,
    }


def changes(before: State, after: State) -> Iterator[str]:
    """One part of a sentence for each path of which anything changed."""
    paths = dict.fromkeys(path for path, _ in before)
    for path in paths:
        if not after.get((path, "existence")):
            yield f"{path} is gone"
            continue
        changed = [
            _aspect(aspect, value, after.get((path, aspect)))
            for (owner, aspect), value in before.items()
            if owner == path and after.get((path, aspect)) != value
        ]
        if changed:
            yield f"{path} has changed: {', '.join(changed)}"


def _aspect(aspect: str, before: object, after: object) -> str:
    if aspect == "listing" and isinstance(before, frozenset) and isinstance(after, frozenset):
        new = [f"new: {name}" for name in sorted(after - before)]
        gone = [f"gone: {name}" for name in sorted(before - after)]
        all_names = [*new, *gone]
        more = [f"{len(all_names) - 5} more"] if len(all_names) > 5 else []
        return f"listing ({'; '.join([*all_names[:5], *more])})"
    if aspect in ("bytes", "mode"):
        return f"{aspect} ({str(before)[:16]} before, {str(after)[:16]} after)"
    return aspect
