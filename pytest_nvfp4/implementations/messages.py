"""The values that cross the adapter interface, as types.

msgspec holds data to these types: neither a bool nor a float passes for an integer, and no object
may have a member that its type lacks. What a type cannot express is checked where the value is
made, here or in `plain_data`, so every value is a valid one. `operations` declares which operation
takes and returns which.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from pytest_nvfp4.plans import PlanMap, Scheduler, Tactic

PROTOCOL: Final = 1

NATIVE, FLASHINFER = "native", "flashinfer"
OWN = "own-document"

CapabilityName = Literal[
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
    "device",
    "ranks",
]
"""What an implementation may claim; the specification has a sentence about each."""

NEEDED_TO_CLAIM: Final[Mapping[str, tuple[str, ...]]] = {
    "native-document": ("native_metadata",),
    "flashinfer-import": ("import_metadata",),
    "tactics": ("tactics", "tactic_digest"),
}
"""Capability → the members of a description that it cannot do without."""


# --- Errors


class SubjectError(Exception):
    """The implementation crashed, hung, raised, or broke the interface.

    This is no verdict on a contract: there could not be one.
    """


class ReportedError(SubjectError):
    """The adapter reported that an operation failed; it is still in step with the suite."""


class UnsupportedError(ReportedError):
    """The adapter does not have this operation."""


class NoAnswerError(SubjectError):
    """An executable gave no answer within the time limit."""


class NotAnIntegerError(Exception):
    """A plan has a number that is no integer: the implementation accepted what it must reject."""


# --- Numbers and texts


Digest = Annotated[str, Meta(pattern="^[0-9a-f]{16}$", max_length=16)]
"""16 hex digits."""

Bytes = Annotated[
    bytes,
    Meta(
        extra_json_schema={
            "pattern": "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"
        }
    ),
]
"""Bytes, as base64 in JSON."""

Name = Annotated[str, Meta(pattern=r"\S")]
"""Text with something to see in it."""

Timings = (
    Mapping[
        Annotated[str, Meta(pattern="^(default|[0-9]|[12][0-9]|3[01])$", max_length=7)],
        float | Literal["raise", "nan", "inf", "-inf"],
    ]
    | None
)
"""A scripted clock: microseconds, or what goes wrong, by tactic id or for all others.

None measures for real.
"""

Environment = Mapping[str, str]
"""Environment variables; an implementation uses these and no others."""

Metadata = Mapping[str, int | str]
"""The fields of a native environment (18) or of a FlashInfer environment (6)."""


# --- Values with rules that a type cannot express; `plain_data` has their wire forms.


if TYPE_CHECKING:
    Document = dict[str, Any]
    Times = dict[int, float]
    Capabilities = frozenset[str]
    Tactics = tuple[Tactic, ...]
    PlannedEach = tuple["Planned | Rejected", ...]
else:

    class Document(dict):
        """A document as data, of the kind that the implementation keeps.

        A native one is ``{"_metadata": {18 fields}, "plans": [{11 fields}, ...]}``, FlashInfer's is
        ``{"_metadata": {6 fields}, key: [runner, tactic], ...}``. Its content is judged, not
        validated.
        """

    class Times(dict):
        """Mean microseconds by tactic id, finite and not negative."""

    class Capabilities(frozenset):
        """The capabilities that are claimed, each once."""

    class Tactics(tuple):
        """Tactic descriptors, as `pytest_nvfp4.plans` has them."""

    class PlannedEach(tuple):
        """The plan or the rejection of each request, in the order of the requests."""


class _Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A JSON object with these members and no others."""


class PlanRow(_Message, frozen=True):
    """One plan: M bucket, N and K in elements, and the id of the tactic."""

    m: int
    n: int
    k: int
    tactic: int


class TacticDescriptor(_Message, frozen=True):
    """One tactic: tile (M, N, K) in elements, operand order, scheduler and cluster."""

    id: int
    tile: tuple[int, int, int]
    swap_ab: bool
    scheduler: Scheduler
    cluster: tuple[int, int, int]


class Rejected(_Message, frozen=True):
    """A rejection: a code of the specification, the member at fault, and a sentence.

    `member` is empty where the document as a whole is at fault.
    """

    code: Annotated[str, Meta(min_length=1)]
    member: str
    message: Name


class Description(_Message, frozen=True):
    """Who the implementation is, what it claims, and the environment that it runs in.

    `documents` is the kind that it keeps its own plans in. With `environment` "own", reads expect
    the environment of this description, whatever they are called with.
    """

    protocol: int
    name: Name
    version: Name
    language: Name
    homepage: str
    capabilities: Capabilities
    native_metadata: dict[str, int | str] | None = None
    import_metadata: dict[str, str] | None = None
    tactics: Tactics | None = None
    tactic_digest: Digest | None = None
    documents: Literal["native", "flashinfer"] = "native"
    environment: Literal["any", "own"] = "any"

    def __post_init__(self) -> None:
        if self.protocol != PROTOCOL:
            raise ValueError(f"protocol is {self.protocol}, but this suite speaks {PROTOCOL}")
        for claim, needed in NEEDED_TO_CLAIM.items():
            for member in needed:
                if claim in self.capabilities and getattr(self, member) is None:
                    raise ValueError(
                        f"{member} is absent, though the capability {claim} is claimed"
                    )
        architecture = (self.native_metadata or {}).get("architecture")
        if "device" in self.capabilities and not (
            isinstance(architecture, int) and architecture > 0
        ):
            raise ValueError(
                f"native_metadata.architecture is {architecture!r:.60}, though the capability "
                "device is claimed; give the GPU's, as in 90, or claim no device"
            )

    @property
    def own_environment_only(self) -> bool:
        """Whether reads cannot be made to expect another environment."""
        return self.environment == "own"

    @property
    def own_metadata(self) -> Mapping[str, Any] | None:
        """The metadata of this machine in documents of the kind that it keeps."""
        return self.native_metadata if self.documents == NATIVE else self.import_metadata

    @property
    def has(self) -> frozenset[str]:
        """What a case may require: capabilities, ``keeps-KIND`` and ``own-document``.

        The last is there where it reads the kind of document that it keeps, and cases can make one.
        """
        reading = "native-document" if self.documents == NATIVE else "flashinfer-import"
        own = reading in self.capabilities and self.own_metadata
        return self.capabilities | {f"keeps-{self.documents}"} | ({OWN} if own else frozenset())


class Reading(_Message, frozen=True):
    """The plans of a document that was read, and how many foreign operations were ignored."""

    plans: PlanMap
    ignored: int


class Options(_Message, frozen=True):
    """Resolved options; paths are None where there is no such file to use; the delay is in µs."""

    enabled: bool
    frozen: bool
    bypass: bool
    delay_microseconds: int
    warnings: tuple[str, ...]
    native_path: str | None = None
    import_path: str | None = None


class Stats(_Message, frozen=True):
    """A session's counters, and its file and mode (None where an adapter does not report them)."""

    loaded: int
    rejected: int
    tuned: int
    saved: int
    lazy: int
    path: str | None = None
    mode: str | None = None


class WarmedUp(_Message, frozen=True):
    """What a warm-up did: plans loaded and tuned, and the rejections of the files it read."""

    loaded: int
    tuned: int
    rejected: tuple[Rejected, ...]


class Completed(_Message, frozen=True):
    """The number of plans that completing has saved, or why there is no new file."""

    saved: int
    failure: str | None = None


class Planned(_Message, frozen=True):
    """The tactic that serves a request, where it came from, and whether this request tuned it.

    `source` is ``live`` (tuned earlier in this session), ``import``, ``native``, ``tuned``, or
    ``fallback``: there is no plan, and the tactic that runs was not measured.
    """

    tactic: int
    source: Literal["live", "import", "native", "tuned", "fallback"]
    tuned: bool
    lazy: bool


class RejectedPlan(_Message, frozen=True):
    """The rejection of one of several requests."""

    rejected: Rejected


class PlannedMany(_Message, frozen=True):
    """The results of simultaneous requests, the number of tunings, and the load's rejection."""

    plans: PlannedEach
    tunings: int
    load: Rejected | None = None


class Step(_Message, frozen=True):
    """One call that profiling made; `tactic` of a run, `microseconds` of a delay."""

    step: Literal["run", "synchronize", "delay", "event"]
    tactic: int | None = None
    microseconds: int | None = None


class Operand(_Message, frozen=True):
    """A quantized matrix (rows × K): E2M1 pairs, E4M3 scales (linear and swizzled), global scale.

    `packed` is rows × K/2 bytes with the low nibble first along K, `scales` rows × K/16 bytes,
    `swizzled` the 128×4 layout, `global_scale` a float32 by which the values were multiplied.
    """

    rows: int
    packed: Bytes
    scales: Bytes
    swizzled: Bytes
    global_scale: float


class Product(_Message, frozen=True):
    """One GEMM: operands A (M × K) and B (N × K), alpha, and the output (M × N) as bytes.

    `guard` is the memory right behind the output, which the adapter filled with 0xA5 before.
    """

    a: Operand
    b: Operand
    alpha: float
    output: Bytes
    output_dtype: Literal["bf16", "f16", "f32"]
    guard: Bytes


class Written(_Message, frozen=True):
    """How many plans the file has now."""

    plans: int


class Opened(_Message, frozen=True):
    """The name of the session."""

    session: str
