"""The adapter of the reference, protocol version 1.

Each method is one operation of the adapter interface: JSON values in and out, and a rejection as
`Rejected`. Sessions are the only state that is kept between calls.
"""

import importlib
import itertools
import os
import threading
from collections.abc import Mapping
from dataclasses import asdict
from typing import TypeVar

from . import (
    back_ends,
    buckets,
    flashinfer_import,
    native_document,
    options,
    publication,
)
from .back_ends import BACK_END, NUMPY
from .concurrency import plan_concurrently
from .environment import ImportMetadata, NativeMetadata
from .errors import Rejected
from .members import object_member, shown
from .native_document import merged
from .options import Options
from .plan_cache import Served
from .plans import Plans, as_rows
from .profiling import Profiler, TimerFactory
from .scripted_timer import Script
from .session import Session
from .tactics import TACTICS, Tactic, digest

__all__ = ["CAPABILITIES", "Adapter", "make"]

PROTOCOL = 1
DISTRIBUTION = "pytest-nvfp4"
VERSION = "0.1.0"
"""The version that is reported where the distribution is not installed."""

CAPABILITIES = (
    "options",
    "buckets",
    "tactics",
    "native-document",
    "flashinfer-import",
    "merge",
    "publication",
    "session",
    "plan-map",
    "scripted-timer",
    "warm-up",
    "frozen",
    "capture-guard",
    "diagnostics",
    "fresh-process",
    "gemm",
)
"""The capabilities of every back end; a back end on a card adds `device`."""

_Metadata = TypeVar("_Metadata", NativeMetadata, ImportMetadata)


def make() -> "Adapter":
    """A new adapter, on the back end that the environment of the process selects."""
    return Adapter(os.environ)


class Adapter:
    """The operations of the adapter interface. Safe to call from several threads."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._back_end_name = back_ends.chosen(environment or {})
        self._back_end: TimerFactory | None = None
        self._native: NativeMetadata | None = None
        self._import: ImportMetadata | None = None
        self._numbers = itertools.count(1)
        self._sessions: dict[str, Session] = {}
        self._profiler = Profiler()
        self._lock = threading.Lock()

    # Description

    def describe(self) -> dict[str, object]:
        """Name, version, capabilities, tactics, and the environment of this machine."""
        return {
            "protocol": PROTOCOL,
            "name": options.PRODUCT,
            "version": _version(),
            "language": "Python",
            "homepage": "",
            "capabilities": [*CAPABILITIES, *(["device"] if self._on_card else [])],
            "native_metadata": self._native_metadata().as_json(),
            "import_metadata": self._import_metadata().as_json(),
            "tactics": [_tactic_as_json(tactic) for tactic in TACTICS],
            "tactic_digest": digest(),
        }

    def resolve(
        self, environment: dict[str, str], metadata: dict[str, object] | None = None
    ) -> dict[str, object]:
        """The options that the variables in `environment` set, for this machine or `metadata`."""
        machine = None if metadata is None else _metadata(NativeMetadata, metadata, "metadata")
        found = self._options(environment, machine)
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
        """The values of M that a warm-up up to `maximum` rows measures."""
        return buckets.profiles(_integer(maximum, "maximum"))

    def tactic_digest(self, tactics: list[dict[str, object]]) -> str:
        """The digest of a list of tactic descriptors."""
        if not isinstance(tactics, list):
            raise TypeError(f"tactics is {shown(tactics)}; give a list of descriptors.")
        return digest([_tactic_from_json(item, index) for index, item in enumerate(tactics)])

    # Documents

    def read_native(
        self, path: str, expected: dict[str, object], session: str | None = None
    ) -> dict[str, object]:
        """Read the plans of a native file; with a session, install them there."""
        environment = _metadata(NativeMetadata, expected, "expected")
        target = None if session is None else self._session(session)
        try:
            document = native_document.read_native(_text(path, "path"), environment)
        except Rejected as rejected:
            if target is not None:
                target.count_rejection("native", rejected)
            raise
        if target is not None:
            ours = environment == target.options.metadata
            target.install(document.plans, "native", ours=ours)
        return {"plans": as_rows(document.plans), "ignored": 0}

    def read_flashinfer(
        self, path: str, expected: dict[str, object], session: str | None = None
    ) -> dict[str, object]:
        """Read the plans of a FlashInfer file; with a session, install them there."""
        environment = _metadata(ImportMetadata, expected, "expected")
        target = None if session is None else self._session(session)
        try:
            found = flashinfer_import.read_flashinfer(_text(path, "path"), environment)
        except Rejected as rejected:
            if target is not None:
                target.count_rejection("import", rejected)
            raise
        if target is not None:
            ours = environment == self._import_metadata()
            target.install(found.plans, "import", ours=ours)
        return {"plans": as_rows(found.plans), "ignored": found.ignored}

    def serialize(self, document: dict[str, object]) -> str:
        """The text of the file that holds `document`."""
        return native_document.validate(document).render()

    def merge(self, prior: dict[str, object], current: dict[str, object]) -> dict[str, object]:
        """One document with the plans of both; where both have one, `current` wins."""
        earlier, later = native_document.validate(prior), native_document.validate(current)
        return merged(earlier, later).as_json()

    def write_native(self, path: str, document: dict[str, object]) -> dict[str, int]:
        """Merge `document` into the file at `path` and publish it."""
        written = publication.update(_text(path, "path"), native_document.validate(document))
        return {"plans": len(written.plans)}

    # Sessions

    def open(self, environment: dict[str, str]) -> dict[str, str]:
        """Open a session without plans. A wrong option rejects; no file is read or written."""
        found = self._options(environment)
        expected = self._import_metadata()
        back_end = self._card() if self._on_card else None
        with self._lock:
            name = f"session-{next(self._numbers)}"
            self._sessions[name] = Session(
                found,
                name=name,
                expected_import=expected,
                profiler=self._profiler,
                back_end=back_end,
            )
        return {"session": name}

    def warm_up(
        self,
        session: str,
        max_tokens: int,
        shapes: list[list[int]],
        timings: dict[str, object] | None = None,
    ) -> dict[str, object]:
        """Load the session's files and make every profile of every shape ready."""
        target = self._session(session)
        back_end = _back_end(timings)
        weights = [(n, k) for n, k in _rows(shapes, ("N", "K"), "shapes")]
        done = target.warm_up(max_tokens, weights, back_end=back_end)
        rejected = [_as_json(one) for one in target.rejections()]
        return {"loaded": done.loaded, "tuned": done.tuned, "rejected": rejected}

    def complete(self, session: str) -> dict[str, object]:
        """End the warm-up and save. A failed save is part of the result, not a rejection."""
        return asdict(self._session(session).complete())

    def abandon(self, session: str) -> None:
        """End the warm-up and write nothing."""
        self._session(session).abandon()

    def plan(
        self,
        session: str,
        m: int,
        n: int,
        k: int,
        *,
        capturing: bool = False,
        timings: dict[str, object] | None = None,
    ) -> dict[str, object]:
        """The plan for M x N x K, tuned if there is none."""
        target = self._session(session)
        if not isinstance(capturing, bool):
            raise TypeError(f"capturing is {shown(capturing)}; give true or false.")
        served = target.plan(m, n, k, capturing=capturing, back_end=_back_end(timings))
        return served._asdict()

    def plan_many(
        self,
        session: str,
        requests: list[list[int]],
        load: str | None = None,
        timings: dict[str, object] | None = None,
    ) -> dict[str, object]:
        """Plans for concurrent requests, one thread each, and perhaps a load during a tuning."""
        target = self._session(session)
        plans: Plans = {}
        if load is not None:
            plans = native_document.read_native(_text(load, "load"), target.options.metadata).plans
        answers = plan_concurrently(
            target,
            [(m, n, k) for m, n, k in _rows(requests, ("M", "N", "K"), "requests")],
            _back_end(timings),
            load=None if load is None else lambda: target.install(plans, "native"),
        )
        return {
            "plans": [_outcome(one) for one in answers.served],
            "tunings": answers.tunings,
            "load": None if answers.load is None else _as_json(answers.load),
        }

    def plans(self, session: str) -> list[dict[str, int]]:
        """The ready plans of the session, sorted by shape."""
        return as_rows(self._session(session).plans())

    def stats(self, session: str) -> dict[str, object]:
        """The path, the mode and the counts of the session."""
        return asdict(self._session(session).statistics())

    def trace(self, session: str) -> list[dict[str, object]]:
        """The calls that the last tuning of the session made to its timer, in order."""
        return [step._asdict() for step in self._session(session).trace()]

    def times(self, session: str) -> dict[str, float]:
        """The mean microseconds of each tactic with a valid time in the last tuning, by its id."""
        found = self._session(session).times()
        return {str(tactic): float(mean) for tactic, mean in found.items()}

    def fingerprint(self, session: str) -> str:
        """16 hex digits of the session's environment."""
        return self._session(session).fingerprint

    def close(self, session: str) -> None:
        """End the session; its name is not used again."""
        target = self._session(session)
        with self._lock:
            self._sessions.pop(session, None)
        target.close()

    def gemm(
        self, m: int, n: int, k: int, tactic: int, seed: int, *, direct_sf: bool
    ) -> dict[str, object]:
        """One product of random operands, with its operands and its output as bytes."""
        return self._case(m, n, k, tactic=tactic, seed=seed, direct_sf=direct_sf)

    def replay(self, m: int, n: int, k: int, tactic: int, seed: int) -> dict[str, object]:
        """The product of `gemm`, from a captured graph of one launch."""
        return self._case(m, n, k, tactic=tactic, seed=seed, direct_sf=True, replayed=True)

    def _case(self, *shape: int, **how: object) -> dict[str, object]:
        case = importlib.import_module(".gemm.case", __package__)  # imports numpy only here
        found: dict[str, object] = (
            case.card_case(self._card(), *shape, **how)
            if self._on_card
            else case.gemm_case(*shape, **how)
        )
        return found

    @property
    def _on_card(self) -> bool:
        return self._back_end_name != NUMPY

    def _card(self) -> TimerFactory:
        """The back end on the card, shared by all sessions and products."""
        with self._lock:
            if self._back_end is None:
                self._back_end = back_ends.default_back_end(self._back_end_name)
            return self._back_end

    def _native_metadata(self) -> NativeMetadata:
        if self._native is None:
            self._native = back_ends.native_metadata(self._back_end_name)
        return self._native

    def _import_metadata(self) -> ImportMetadata:
        if self._import is None:
            self._import = back_ends.import_metadata(self._back_end_name)
        return self._import

    def _options(self, environment: object, machine: NativeMetadata | None = None) -> Options:
        variables = {**_variables(environment), BACK_END: self._back_end_name}
        return options.resolve(variables, machine or self._native_metadata())

    def _session(self, name: str) -> Session:
        with self._lock:
            found = self._sessions.get(_text(name, "session"))
        if found is None:
            raise Rejected(
                "lifecycle",
                name,
                f"there is no open session {shown(name)}; open one and use the name it returns.",
            )
        return found


def _outcome(one: Served | Rejected) -> dict[str, object]:
    return {"rejected": _as_json(one)} if isinstance(one, Rejected) else one._asdict()


def _as_json(rejected: Rejected) -> dict[str, str]:
    return {"code": rejected.code, "member": rejected.member, "message": rejected.message}


# Arguments: a mistake of the caller raises TypeError or ValueError, and is not a rejection.


def _text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} is {shown(value)}; give a string.")
    return value


def _integer(value: object, name: str) -> int:
    if type(value) is not int:
        raise TypeError(f"{name} is {shown(value)}; give an integer.")
    return value


def _back_end(timings: object) -> TimerFactory | None:
    return None if timings is None else Script.from_json(timings)


def _rows(value: object, columns: tuple[str, ...], name: str) -> list[list[int]]:
    if not isinstance(value, list):
        raise TypeError(f"{name} is {shown(value)}; give a list.")
    for index, row in enumerate(value):
        if not isinstance(row, list) or len(row) != len(columns):
            raise ValueError(
                f"{name}[{index}] is {shown(row)}; give a list of {' and '.join(columns)}."
            )
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
