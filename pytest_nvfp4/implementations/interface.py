"""The adapter interface: its operations, and what each one answers, as typed values.

An adapter is an object with these operations as methods (keyword arguments, plain data), or an
executable that speaks them as JSON lines. ``interface.schema.json`` beside this file says the same
for people who write adapters in other languages; the decoders here hold every answer to it.
"""

import base64
import binascii
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, TypeVar

from pytest_nvfp4.plans import TACTICS, PlanKey, PlanMap, Scheduler, Tactic

PROTOCOL: Final = 1

OPERATIONS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "describe": (),
        "resolve": ("environment", "metadata"),
        "bucket": ("m",),
        "profiles": ("maximum",),
        "tactic_digest": ("tactics",),
        "read_native": ("path", "expected", "session"),
        "read_flashinfer": ("path", "expected", "session"),
        "serialize": ("document",),
        "merge": ("prior", "current"),
        "write_native": ("path", "document"),
        "open": ("environment",),
        "warm_up": ("session", "max_tokens", "shapes", "timings"),
        "complete": ("session",),
        "abandon": ("session",),
        "plan": ("session", "m", "n", "k", "capturing", "timings"),
        "plan_many": ("session", "requests", "load", "timings"),
        "plans": ("session",),
        "stats": ("session",),
        "trace": ("session",),
        "times": ("session",),
        "fingerprint": ("session",),
        "close": ("session",),
        "gemm": ("m", "n", "k", "tactic", "seed", "direct_sf"),
        "replay": ("m", "n", "k", "tactic", "seed"),
    }
)
"""Operation → the names of its arguments, all of them always given."""

CAPABILITIES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "options": ("resolve",),
        "buckets": ("bucket", "profiles"),
        "tactics": ("tactic_digest",),
        "native-document": ("read_native", "serialize"),
        "flashinfer-import": ("read_flashinfer",),
        "merge": ("merge",),
        "publication": ("write_native",),
        "session": ("open", "plans", "stats", "close"),
        "plan-map": ("plan", "plan_many"),
        "scripted-timer": ("trace",),
        "warm-up": ("warm_up", "complete", "abandon"),
        "frozen": ("warm_up",),
        "capture-guard": ("plan",),
        "diagnostics": ("fingerprint",),
        "fresh-process": ("warm_up",),
        "gemm": ("gemm",),
        "device": ("replay", "times"),
        "ranks": (),
    }
)
"""Capability → the operations that an adapter which claims it has to have, beside `describe`."""

Document = dict[str, Any]
"""A document as data; a native one is ``{"_metadata": {18 fields}, "plans": [{11 fields}, ...]}``.

FlashInfer's is ``{"_metadata": {6 fields}, key: [runner, tactic], ...}``.
"""

NATIVE, FLASHINFER = "native", "flashinfer"
OWN = "own-document"


class SubjectError(Exception):
    """The implementation broke: it crashed, hung, lied about the interface, or raised.

    This is no verdict on a contract; it says that there could not be one.
    """


class ReportedError(SubjectError):
    """The adapter itself reported that an operation failed; it is still in step and goes on."""


class UnsupportedError(ReportedError):
    """The adapter does not have this operation."""


class NoAnswerError(SubjectError):
    """An executable let the time for an answer pass."""


class NotAnIntegerError(ValueError):
    """A plan came with something other than integers, which only an implementation can do."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """The implementation's own no: a code, the member that is at fault, and a sentence."""

    code: str
    member: str
    message: str


@dataclass(frozen=True, slots=True)
class Description:
    """Who the implementation is, what it claims, and the environment it says it runs in.

    `documents` is the kind that it keeps its own plans in; with `own_environment_only`, reads
    expect the environment of the description and cannot be told to expect another.
    """

    name: str
    version: str
    language: str
    homepage: str
    capabilities: frozenset[str]
    native_metadata: Mapping[str, int | str] | None
    import_metadata: Mapping[str, str] | None
    tactics: tuple[Tactic, ...] | None
    tactic_digest: str | None
    documents: str = NATIVE
    own_environment_only: bool = False

    @property
    def own_metadata(self) -> Mapping[str, Any] | None:
        """The metadata of this machine in documents of the kind that it keeps."""
        return self.native_metadata if self.documents == NATIVE else self.import_metadata

    @property
    def has(self) -> frozenset[str]:
        """What a test may require: capabilities, ``keeps-KIND`` and ``own-document``.

        The last is there where it reads the kind of document that it keeps, and tests can make one.
        """
        reading = "native-document" if self.documents == NATIVE else "flashinfer-import"
        own = reading in self.capabilities and self.own_metadata
        return self.capabilities | {f"keeps-{self.documents}"} | ({OWN} if own else frozenset())


@dataclass(frozen=True, slots=True)
class Reading:
    """What reading a document gave: its plans, and how many foreign operations were ignored."""

    plans: PlanMap
    ignored: int


@dataclass(frozen=True, slots=True)
class Options:
    """Resolved options; paths are None where there is no such file to use; the delay is in µs."""

    enabled: bool
    frozen: bool
    bypass: bool
    delay_microseconds: int
    native_path: str | None
    import_path: str | None
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Stats:
    """A session's counters, and the file and mode (None where an adapter does not say)."""

    loaded: int
    rejected: int
    tuned: int
    saved: int
    lazy: int
    path: str | None = None
    mode: str | None = None


@dataclass(frozen=True, slots=True)
class WarmedUp:
    """What a warm-up did: plans loaded and tuned, and the rejections of files that it met."""

    loaded: int
    tuned: int
    rejected: tuple[Rejected, ...]


@dataclass(frozen=True, slots=True)
class Completed:
    """What completing saved: the number of plans in the file, or why there is no new file."""

    saved: int
    failure: str | None


@dataclass(frozen=True, slots=True)
class Planned:
    """The tactic that serves a request, where it came from, and whether this request tuned it.

    `source` is ``live`` (tuned earlier in this session), ``import``, ``native``, ``tuned``, or
    ``fallback``, where there is no plan and what runs was not measured.
    """

    tactic: int
    source: str
    tuned: bool
    lazy: bool


@dataclass(frozen=True, slots=True)
class PlannedMany:
    """What simultaneous requests got, how many tunings that took, and how the load fared."""

    plans: tuple[Planned | Rejected, ...]
    tunings: int
    load: Rejected | None


@dataclass(frozen=True, slots=True)
class Step:
    """One call that profiling made: ``run`` of a tactic, ``synchronize``, ``delay``, ``event``."""

    step: str
    tactic: int | None = None
    microseconds: int | None = None


@dataclass(frozen=True, slots=True)
class Operand:
    """A quantized matrix (rows × K): E2M1 pairs, E4M3 scales (linear and swizzled), global scale.

    `packed` is rows × K/2 bytes with the low nibble first along K, `scales` rows × K/16 bytes,
    `swizzled` the 128×4 layout, `global_scale` a float32 by which the values were multiplied.
    """

    rows: int
    packed: bytes
    scales: bytes
    swizzled: bytes
    global_scale: float


@dataclass(frozen=True, slots=True)
class Product:
    """One GEMM: operands A (M × K) and B (N × K), alpha, and the output (M × N) as bytes.

    `guard` is the memory right behind the output, which the adapter filled with 0xA5 before.
    """

    a: Operand
    b: Operand
    alpha: float
    output: bytes
    output_dtype: str
    guard: bytes


# --- Decoders: each takes an operation's answer as data and returns its value, or raises ValueError
# with a sentence that starts with the name of what is wrong.

T = TypeVar("T")
_DIGEST = re.compile(r"[0-9a-f]{16}")


def check(condition: bool, sentence: str) -> None:
    if not condition:
        raise ValueError(sentence)


def _member(data: Mapping[str, Any], name: str, kind: type[T], *, optional: bool = False) -> T:
    value = data.get(name)
    if value is None and optional:
        return value  # type: ignore[return-value]
    check(name in data, f"{name} is absent")
    # bool is an int to isinstance, but not to JSON.
    check(
        isinstance(value, kind) and (kind is bool or not isinstance(value, bool)),
        f"{name} is {value!r:.60}, no {kind.__name__}",
    )
    return value  # type: ignore[return-value]


def _closed(data: object, what: str, names: set[str]) -> Mapping[str, Any]:
    check(isinstance(data, dict), f"{what} is {data!r:.60}, no object")
    unknown = sorted(data.keys() - names)  # type: ignore[attr-defined]
    check(not unknown, f"{what} has the unknown member {unknown[:1]}")
    return data  # type: ignore[return-value]


def _list_of(data: object, what: str, kind: type[T]) -> list[T]:
    check(isinstance(data, list), f"{what} is {data!r:.60}, no array")
    for item in data:  # type: ignore[attr-defined]
        check(
            isinstance(item, kind) and not isinstance(item, bool),
            f"{what} holds {item!r:.60}, no {kind.__name__}",
        )
    return data  # type: ignore[return-value]


def decode_tactic(data: object) -> Tactic:
    """Decode one tactic descriptor."""
    row = _closed(data, "a tactic", {"id", "tile", "swap_ab", "scheduler", "cluster"})
    tile = _list_of(row.get("tile"), "tile", int)
    cluster = _list_of(row.get("cluster"), "cluster", int)
    check(len(tile) == 3 and len(cluster) == 3, "tile and cluster have three extents each")
    scheduler: Scheduler | str = _member(row, "scheduler", str)
    check(scheduler in ("data-parallel", "stream-k"), f"scheduler {scheduler!r} is unknown")
    return Tactic(
        _member(row, "id", int),
        (tile[0], tile[1], tile[2]),
        _member(row, "swap_ab", bool),
        scheduler,  # type: ignore[arg-type]
        (cluster[0], cluster[1], cluster[2]),
    )


def encode_tactic(tactic: Tactic) -> dict[str, Any]:
    """Encode a descriptor as the interface spells it."""
    return {
        "id": tactic.id,
        "tile": list(tactic.tile),
        "swap_ab": tactic.swap_ab,
        "scheduler": tactic.scheduler,
        "cluster": list(tactic.cluster),
    }


def decode_digest(data: object) -> str:
    """Decode a 16-hex-digit digest."""
    check(
        isinstance(data, str) and bool(_DIGEST.fullmatch(data)),
        f"{data!r:.60} is no digest of 16 hex digits",
    )
    return data  # type: ignore[return-value]


def decode_description(data: object) -> Description:
    """Decode and check the answer of `describe` against what it claims."""
    names = {"protocol", "name", "version", "language", "homepage", "capabilities"}
    names |= {"native_metadata", "import_metadata", "tactics", "tactic_digest"}
    names |= {"documents", "environment"}
    row = _closed(data, "the description", names)
    protocol = _member(row, "protocol", int)
    check(protocol == PROTOCOL, f"protocol is {protocol}, but this suite speaks {PROTOCOL}")
    capabilities = _list_of(row.get("capabilities"), "capabilities", str)
    unknown = sorted(set(capabilities) - CAPABILITIES.keys())
    check(not unknown, f"capabilities holds the unknown {unknown[:1]}")
    check(len(set(capabilities)) == len(capabilities), "capabilities holds a name twice")
    for claim, needed in (
        ("native-document", "native_metadata"),
        ("flashinfer-import", "import_metadata"),
        ("tactics", "tactics"),
        ("tactics", "tactic_digest"),
    ):
        check(
            claim not in capabilities or row.get(needed) is not None,
            f"{needed} is absent, though the capability {claim} is claimed",
        )
    native = _metadata(row, "native_metadata")
    architecture = (native or {}).get("architecture")
    check(
        "device" not in capabilities or (isinstance(architecture, int) and architecture > 0),
        f"native_metadata.architecture is {architecture!r:.60}, though the capability device is "
        "claimed; give the GPU's, as in 90, or claim no device",
    )
    tactics = row.get("tactics")
    digest = row.get("tactic_digest")
    return Description(
        name=_named(row, "name"),
        version=_named(row, "version"),
        language=_named(row, "language"),
        homepage=_member(row, "homepage", str),
        capabilities=frozenset(capabilities),
        native_metadata=native,
        import_metadata=_metadata(row, "import_metadata"),
        tactics=None
        if tactics is None
        else tuple(map(decode_tactic, _list_of(tactics, "tactics", dict))),
        tactic_digest=None if digest is None else decode_digest(digest),
        documents=_choice(row, "documents", (NATIVE, FLASHINFER)),
        own_environment_only=_choice(row, "environment", ("any", "own")) == "own",
    )


def _choice(row: Mapping[str, Any], name: str, words: tuple[str, ...]) -> str:
    """One of the words, the first unless the member is there."""
    value = row.get(name, words[0])
    check(value in words, f"{name} is {value!r:.60}; use {' or '.join(words)}")
    return value  # type: ignore[no-any-return]


def _named(row: Mapping[str, Any], name: str) -> str:
    value = _member(row, name, str)
    check(bool(value.strip()), f"{name} is empty")
    return value


def _metadata(row: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    data = _member(row, name, dict, optional=True)
    for field, value in (data or {}).items():
        check(
            isinstance(value, int | str) and not isinstance(value, bool),
            f"{name}.{field} is {value!r:.60}, neither an integer nor a string",
        )
    return data


def decode_plans(data: object) -> PlanMap:
    """Decode plan rows ``{"m", "n", "k", "tactic"}``; a repeated key is an error."""
    check(isinstance(data, list), f"plans is {data!r:.60}, no array")
    try:
        pairs = [
            (PlanKey(row["m"], row["n"], row["k"]), row["tactic"])
            for row in data  # type: ignore[attr-defined]
        ]
    except (TypeError, KeyError):
        raise ValueError("a plan lacks one of m, n, k and tactic") from None
    for key, tactic in pairs:
        if {int} != {type(key.m), type(key.n), type(key.k), type(tactic)}:
            raise NotAnIntegerError(
                f"the plan {(*key, tactic)!r:.80} holds something other than integers"
            )
    check(all(len(row) == 4 for row in data), "a plan has more than m, n, k and tactic")  # type: ignore[attr-defined]
    return PlanMap(pairs)


def decode_reading(data: object) -> Reading:
    """Decode the answer of `read_native` and `read_flashinfer`."""
    row = _closed(data, "a reading", {"plans", "ignored"})
    return Reading(decode_plans(row.get("plans")), _member(row, "ignored", int))


def decode_options(data: object) -> Options:
    """Decode the answer of `resolve`."""
    flags = {"enabled", "frozen", "bypass"}
    others = {"delay_microseconds", "native_path", "import_path", "warnings"}
    row = _closed(data, "the options", flags | others)
    return Options(
        enabled=_member(row, "enabled", bool),
        frozen=_member(row, "frozen", bool),
        bypass=_member(row, "bypass", bool),
        delay_microseconds=_member(row, "delay_microseconds", int),
        native_path=_member(row, "native_path", str, optional=True),
        import_path=_member(row, "import_path", str, optional=True),
        warnings=tuple(_list_of(row.get("warnings"), "warnings", str)),
    )


def decode_stats(data: object) -> Stats:
    """Decode the answer of `stats`."""
    names = ("loaded", "rejected", "tuned", "saved", "lazy")
    row = _closed(data, "the stats", {*names, "path", "mode"})
    counts = [_member(row, name, int) for name in names]
    texts = [_member(row, name, str, optional=True) for name in ("path", "mode")]
    return Stats(*counts, *texts)  # type: ignore[arg-type]


def decode_warm_up(data: object) -> WarmedUp:
    """Decode the answer of `warm_up`."""
    row = _closed(data, "the result", {"loaded", "tuned", "rejected"})
    rejected = _list_of(row.get("rejected"), "rejected", dict)
    return WarmedUp(
        _member(row, "loaded", int),
        _member(row, "tuned", int),
        tuple(decode_rejection(item) for item in rejected),
    )


def decode_completed(data: object) -> Completed:
    """Decode the answer of `complete`."""
    row = _closed(data, "the result", {"saved", "failure"})
    return Completed(_member(row, "saved", int), _member(row, "failure", str, optional=True))


def decode_planned(data: object) -> Planned:
    """Decode the answer of `plan`."""
    row = _closed(data, "a plan", {"tactic", "source", "tuned", "lazy"})
    source = _member(row, "source", str)
    known = ("live", "import", "native", "tuned", "fallback")
    check(source in known, f"source {source!r:.40} is unknown")
    flags = [_member(row, name, bool) for name in ("tuned", "lazy")]
    return Planned(_member(row, "tactic", int), source, *flags)


def decode_many(data: object) -> PlannedMany:
    """Decode the answer of `plan_many`."""
    row = _closed(data, "the result", {"plans", "tunings", "load"})
    plans = [
        decode_rejection(_closed(item, "a plan", {"rejected"})["rejected"])
        if "rejected" in item
        else decode_planned(item)
        for item in _list_of(row.get("plans"), "plans", dict)
    ]
    load = row.get("load")
    return PlannedMany(
        tuple(plans), _member(row, "tunings", int), None if load is None else decode_rejection(load)
    )


def decode_trace(data: object) -> tuple[Step, ...]:
    """Decode the answer of `trace`."""
    steps = []
    for item in _list_of(data, "the trace", dict):
        row = _closed(item, "a step", {"step", "tactic", "microseconds"})
        name = _member(row, "step", str)
        check(name in ("run", "synchronize", "delay", "event"), f"step {name!r:.40} is unknown")
        numbers = [_member(row, key, int, optional=True) for key in ("tactic", "microseconds")]
        steps.append(Step(name, *numbers))
    return tuple(steps)


def decode_times(data: object) -> dict[int, float]:
    """Decode the answer of `times`: tactic id → mean microseconds, finite and not negative."""
    row = _closed(data, "the times", {str(tactic.id) for tactic in TACTICS})
    times = {int(name): _number(row, name) for name in row}
    for tactic, mean in times.items():
        check(0 <= mean < math.inf, f"{tactic} is {mean!r}, no finite time")
    return times


def decode_product(data: object) -> Product:
    """Decode the answer of `gemm` and of `replay`; bytes are base64."""
    row = _closed(data, "the product", {"a", "b", "alpha", "output", "output_dtype", "guard"})
    dtype = _member(row, "output_dtype", str)
    check(dtype in ("bf16", "f16", "f32"), f"output_dtype {dtype!r:.40} is unknown")
    return Product(
        _operand(row.get("a")),
        _operand(row.get("b")),
        _number(row, "alpha"),
        _bytes(row, "output"),
        dtype,
        _bytes(row, "guard"),
    )


def _operand(data: object) -> Operand:
    row = _closed(data, "an operand", {"rows", "packed", "scales", "swizzled", "global_scale"})
    return Operand(
        _member(row, "rows", int),
        _bytes(row, "packed"),
        _bytes(row, "scales"),
        _bytes(row, "swizzled"),
        _number(row, "global_scale"),
    )


def _number(row: Mapping[str, Any], name: str) -> float:
    value = row.get(name)
    check(
        isinstance(value, int | float) and not isinstance(value, bool),
        f"{name} is {value!r:.60}, no number",
    )
    try:
        return float(value)  # type: ignore[arg-type]
    except OverflowError:
        raise ValueError(f"{name} is {value!r:.60}, beyond a double") from None


def _bytes(row: Mapping[str, Any], name: str) -> bytes:
    try:
        return base64.b64decode(_member(row, name, str), validate=True)
    except binascii.Error:
        raise ValueError(f"{name} is not base64") from None


def decode_document(data: object) -> Document:
    """Decode a document; what it holds is judged elsewhere."""
    check(isinstance(data, dict), f"a document is {data!r:.60}, no object")
    row: Document = data  # type: ignore[assignment]
    _member(row, "_metadata", dict)
    if "plans" in row:
        _member(row, "plans", list)
    return dict(row)


def decode_rejection(data: object) -> Rejected:
    """Decode a rejection."""
    row = _closed(data, "a rejection", {"code", "member", "message"})
    rejected = Rejected(
        _member(row, "code", str), _member(row, "member", str), _member(row, "message", str)
    )
    check(bool(rejected.code), "code is empty")
    check(bool(rejected.message.strip()), "message is empty")
    return rejected


def _integer(data: object) -> int:
    check(type(data) is int, f"{data!r:.60} is no integer")
    return data  # type: ignore[return-value]


def _integers(data: object) -> list[int]:
    return _list_of(data, "the list", int)


def _text(data: object) -> str:
    check(isinstance(data, str), f"{data!r:.60} is no string")
    return data  # type: ignore[return-value]


def _written(data: object) -> int:
    return _member(_closed(data, "the result", {"plans"}), "plans", int)


def _session(data: object) -> str:
    return _member(_closed(data, "the result", {"session"}), "session", str)


def _nothing(data: object) -> None:
    check(data is None, f"{data!r:.60} is not null")


DECODERS: Final[Mapping[str, Callable[[object], Any]]] = MappingProxyType(
    {
        "describe": decode_description,
        "resolve": decode_options,
        "bucket": _integer,
        "profiles": _integers,
        "tactic_digest": decode_digest,
        "read_native": decode_reading,
        "read_flashinfer": decode_reading,
        "serialize": _text,
        "merge": decode_document,
        "write_native": _written,
        "open": _session,
        "warm_up": decode_warm_up,
        "complete": decode_completed,
        "abandon": _nothing,
        "plan": decode_planned,
        "plan_many": decode_many,
        "plans": decode_plans,
        "stats": decode_stats,
        "trace": decode_trace,
        "times": decode_times,
        "fingerprint": decode_digest,
        "close": _nothing,
        "gemm": decode_product,
        "replay": decode_product,
    }
)
"""Operation → the decoder of its answer."""
