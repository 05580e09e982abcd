"""The reference behind the adapter interface, protocol version 1.

Every method is one operation: plain JSON-able data in and out, a refusal as `Rejected`. Whatever
is kept between two calls is a session's ready map.
"""

import itertools
import threading
from collections.abc import Mapping
from dataclasses import asdict
from typing import TypeVar

from . import (
    buckets,
    flashinfer_import,
    native_document,
    options,
    publication,
)
from .environment import ImportMetadata, NativeMetadata
from .errors import Rejected
from .members import object_member, shown
from .merge import merged
from .plans import Plans, as_rows
from .ready_map import ReadyMap
from .tactics import TACTICS, Tactic, digest

PROTOCOL = 1
DISTRIBUTION = "pytest-nvfp4"
VERSION = "0.1.0"
"""The version where the distribution is not installed, as in a bare checkout."""

CAPABILITIES = (
    "options",
    "buckets",
    "tactics",
    "native-document",
    "flashinfer-import",
    "merge",
    "publication",
    "session",
)

_Metadata = TypeVar("_Metadata", NativeMetadata, ImportMetadata)


def make() -> "Adapter":
    """A fresh adapter without sessions."""
    return Adapter()


class Adapter:
    """The operations of the interface; safe to call from several threads."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._sessions: dict[str, ReadyMap] = {}
        self._lock = threading.Lock()

    # Facts

    def describe(self) -> dict[str, object]:
        """Who this is, what it claims, and the environment it runs in."""
        return {
            "protocol": PROTOCOL,
            "name": options.PRODUCT,
            "version": _version(),
            "language": "Python",
            "homepage": "",
            "capabilities": list(CAPABILITIES),
            "native_metadata": NativeMetadata.of_this_machine().as_json(),
            "import_metadata": ImportMetadata.of_this_machine().as_json(),
            "tactics": [_tactic_as_json(tactic) for tactic in TACTICS],
            "tactic_digest": digest(),
        }

    def resolve(
        self, environment: dict[str, str], metadata: dict[str, object] | None = None
    ) -> dict[str, object]:
        """The options that `environment` asks for, on this machine or on that of `metadata`."""
        machine = None if metadata is None else _metadata(NativeMetadata, metadata, "metadata")
        found = options.resolve(_variables(environment), machine)
        return {
            "enabled": found.enabled,
            "frozen": found.frozen,
            "bypass": found.bypass,
            "delay_microseconds": found.delay_microseconds,
            "native_path": found.native_path,
            "import_path": found.import_path,
            "warnings": list(found.warnings),
        }

    def bucket(self, m: int) -> int:
        """The hybrid bucket that serves `m` rows."""
        return buckets.bucket(_integer(m, "m"))

    def profiles(self, maximum: int) -> list[int]:
        """The M that a warm-up up to `maximum` rows measures."""
        return buckets.profiles(_integer(maximum, "maximum"))

    def tactic_digest(self, tactics: list[dict[str, object]]) -> str:
        """The digest of any list of descriptors."""
        if not isinstance(tactics, list):
            raise TypeError(f"tactics is {shown(tactics)}; give a list of descriptors.")
        return digest([_tactic_from_json(item, index) for index, item in enumerate(tactics)])

    # Documents

    def read_native(
        self, path: str, expected: dict[str, object], session: str | None = None
    ) -> dict[str, object]:
        """The plans of a native file; with a session, installed there."""
        environment = _metadata(NativeMetadata, expected, "expected")
        ready = None if session is None else self._session(session)
        try:
            document = native_document.read_native(_text(path, "path"), environment)
        except Rejected:
            _count_rejection(ready)
            raise
        return _installed(document.plans, 0, ready)

    def read_flashinfer(
        self, path: str, expected: dict[str, object], session: str | None = None
    ) -> dict[str, object]:
        """The plans of a FlashInfer file; with a session, installed there."""
        environment = _metadata(ImportMetadata, expected, "expected")
        ready = None if session is None else self._session(session)
        try:
            found = flashinfer_import.read_flashinfer(_text(path, "path"), environment)
        except Rejected:
            _count_rejection(ready)
            raise
        return _installed(found.plans, found.ignored, ready)

    def serialize(self, document: dict[str, object]) -> str:
        """The text of the file that holds `document`."""
        return native_document.validate(document).render()

    def merge(self, prior: dict[str, object], current: dict[str, object]) -> dict[str, object]:
        """Both documents in one; where both have a plan, the current one wins."""
        earlier, later = native_document.validate(prior), native_document.validate(current)
        return merged(earlier, later).as_json()

    def write_native(self, path: str, document: dict[str, object]) -> dict[str, int]:
        """Merge `document` into the file at `path` and publish it."""
        written = publication.update(_text(path, "path"), native_document.validate(document))
        return {"plans": len(written.plans)}

    # Sessions

    def open(self, environment: dict[str, str]) -> dict[str, str]:
        """A session with a fresh ready map; a wrong option rejects."""
        options.resolve(_variables(environment))
        with self._lock:
            name = f"session-{next(self._numbers)}"
            self._sessions[name] = ReadyMap()
        return {"session": name}

    def plans(self, session: str) -> list[dict[str, int]]:
        """The session's ready map, sorted."""
        return as_rows(self._session(session).snapshot())

    def stats(self, session: str) -> dict[str, int]:
        """What the session counted."""
        return asdict(self._session(session).statistics())

    def close(self, session: str) -> None:
        """End the session; its name is not used again."""
        self._session(session)
        with self._lock:
            self._sessions.pop(session, None)

    def _session(self, name: str) -> ReadyMap:
        with self._lock:
            ready = self._sessions.get(_text(name, "session"))
        if ready is None:
            raise Rejected(
                "lifecycle",
                name,
                f"there is no open session {shown(name)}; open one and use the name it returns.",
            )
        return ready


def _count_rejection(ready: ReadyMap | None) -> None:
    if ready is not None:
        ready.reject()


def _installed(plans: Plans, ignored: int, ready: ReadyMap | None) -> dict[str, object]:
    if ready is not None:
        ready.install(plans)
    return {"plans": as_rows(plans), "ignored": ignored}


# Arguments: a caller's mistake is a TypeError or ValueError and never a rejection.


def _text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} is {shown(value)}; give a string.")
    return value


def _integer(value: object, name: str) -> int:
    if type(value) is not int:
        raise TypeError(f"{name} is {shown(value)}; give an integer.")
    return value


def _variables(value: object) -> Mapping[str, str]:
    if not isinstance(value, dict):
        raise TypeError(f"environment is {shown(value)}; give an object of variables.")
    for name, text in value.items():
        _text(name, "a variable's name")
        _text(text, name)
    return value


def _metadata(kind: type[_Metadata], value: object, name: str) -> _Metadata:
    try:
        return kind.from_json(object_member({name: value}, name), name)
    except Rejected as rejected:
        raise ValueError(str(rejected)) from None


def _tactic_as_json(tactic: Tactic) -> dict[str, object]:
    return {
        "id": tactic.id,
        "tile": list(tactic.tile),
        "swap_ab": tactic.swap_ab,
        "scheduler": tactic.scheduler,
        "cluster": list(tactic.cluster),
    }


def _tactic_from_json(value: object, index: int) -> Tactic:
    match value:
        case {
            "id": int(number),
            "tile": [int(), int(), int()] as tile,
            "swap_ab": bool(swap_ab),
            "scheduler": "data-parallel" | "stream-k" as scheduler,
            "cluster": [int(), int(), int()] as cluster,
        }:
            return Tactic(
                id=number,
                tile=(tile[0], tile[1], tile[2]),
                swap_ab=swap_ab,
                scheduler=scheduler,
                cluster=(cluster[0], cluster[1], cluster[2]),
            )
    raise ValueError(
        f"tactics[{index}] is {shown(value)}; "
        "give id, tile, swap_ab, scheduler and cluster as `describe` lists them."
    )


def _version() -> str:
    from importlib import metadata

    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return VERSION
