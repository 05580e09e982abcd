"""What `@pytest.mark.frozen_map` asks for, and the environment that a frozen test runs in."""

import os
from collections.abc import Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path

from pytest_nvfp4.cache_files.reader import NATIVE
from pytest_nvfp4.markers.requests import RequestError, expand

MARK = "frozen_map"
AUTO, REQUIRED, OFF = "auto", "required", "off"

NATIVE_PATH = "VT_FP4_AUTOTUNE_CACHE_PATH"
IMPORT_PATH = "VT_FP4_FLASHINFER_CACHE_PATH"
_SET = {"VT_FP4_AUTOTUNE_CACHE_READONLY": "1", "VT_FP4_PERSISTENT_CACHE": "1"}
_UNSET = ("VT_FP4_PLAN_CACHE", "FLASHINFER_AUTOTUNER_LOAD_FROM_FILE")

_FORMS = {
    "path": "the path of the file with the plans",
    "complete": "True or False",
    "stats": f"{AUTO!r}, {REQUIRED!r} or {OFF!r}",
    "trace_children": "True or False",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a test asks for; `path` is absolute.

    With `complete`, every plan of the file must have been selected, not only some; that, and
    `stats="required"`, need plan statistics to be had.
    """

    path: Path
    complete: bool = False
    stats: str = AUTO
    trace_children: bool = False

    @property
    def needs_statistics(self) -> bool:
        return self.complete or self.stats == REQUIRED


def read_request(
    marks: Iterable[tuple[tuple[object, ...], Mapping[str, object]]],
    environment: Mapping[str, str],
    folder: Path,
) -> Request:
    """What a test's markers ask for; each is (arguments, options), and of two the first wins.

    A relative path starts at `folder`; ``~/`` and ``$HOME/`` are the caller's home.
    """
    options: dict[str, object] = {}
    for arguments, given in marks:
        if len(arguments) > 1 or (arguments and "path" in given):
            raise RequestError(f"{MARK} takes one path, and its other options by name")
        named = {**given, **({"path": arguments[0]} if arguments else {})}
        unknown = next((name for name in named if name not in _FORMS), None)
        if unknown is not None:
            raise RequestError(f"{MARK} has no option {unknown!r}; it has {', '.join(_FORMS)}")
        options = {**named, **options}
    for name, value in options.items():
        if not _possible(name, value):
            raise RequestError(f"{MARK}({name}={value!r}) is not possible; use {_FORMS[name]}")
    if "path" not in options:
        raise RequestError(f"{MARK} needs the path of the file with the plans; give it first")
    path = expand(MARK, str(options.pop("path")), environment, folder)
    request = Request(path=path, **options)  # type: ignore[arg-type]
    if request.complete and request.stats == OFF:
        raise RequestError(f"{MARK}(complete=True) needs plan statistics; leave stats='off' out")
    return request


def _possible(name: str, value: object) -> bool:
    match name:
        case "path":
            return (
                isinstance(value, str | os.PathLike) and bool(str(value)) and "\0" not in str(value)
            )
        case "stats":
            return value in (AUTO, REQUIRED, OFF)
        case _:
            return isinstance(value, bool)


def variables(dialect: str | None, path: Path) -> dict[str, str | None]:
    """The environment variables of a frozen test; None for those that must not be set.

    A native file is the cache's own, a FlashInfer file is its import, and either way the cache is
    on, may not be bypassed, and is read-only. FlashInfer 0.6.13 itself has no variable for the path
    of its cache or against tuning: a test says ``autotune(False, cache=path)``. It has one that
    serves plans from a table of its own where the file has none (autotuner.py:1016-1022), which is
    taken away.
    """
    ours, other = (NATIVE_PATH, IMPORT_PATH) if dialect == NATIVE else (IMPORT_PATH, NATIVE_PATH)
    return {**dict.fromkeys(_UNSET), other: None, **_SET, ours: str(path)}


class Environment:
    """Variables that are changed now and can be put back."""

    def __init__(self, environment: MutableMapping[str, str], wanted: Mapping[str, str | None]):
        self._environment = environment
        self._before = {name: environment.get(name) for name in wanted}
        self._put(wanted)

    def restore(self) -> None:
        """Put back what was there before, whatever the test did to it."""
        self._put(self._before)

    def _put(self, values: Mapping[str, str | None]) -> None:
        for name, value in values.items():
            if value is None:
                self._environment.pop(name, None)
            else:
                self._environment[name] = value
