"""The adapter interface: every operation, declared once.

An adapter is an object with these operations as methods (keyword arguments, plain data), or an
executable that answers them as JSON lines. A method of `Operations` is the declaration of one: its
name, parameters and result are those of the operation, and its docstring is the sentence about it.
From it follow what the suite calls, the validation of both directions, the published JSON Schema
(`schema`), the table of operations, the stubs of the templates (`stubs`) and the smoke test.

To add an operation, add a method here, and cases that use it in ``conformance/``.
"""

# mypy: disable-error-code="empty-body"

import enum
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import (
    Any,
    Concatenate,
    Final,
    Literal,
    ParamSpec,
    TypeVar,
    get_args,
    get_type_hints,
    overload,
)

import msgspec

from pytest_nvfp4.implementations.messages import (
    CapabilityName,
    Completed,
    Description,
    Digest,
    Document,
    Environment,
    Metadata,
    Opened,
    Options,
    Planned,
    PlannedMany,
    Product,
    Reading,
    Rejected,
    Stats,
    Step,
    Tactics,
    Times,
    Timings,
    WarmedUp,
    Written,
)
from pytest_nvfp4.implementations.plain_data import encode
from pytest_nvfp4.plans import PlanMap, Tactic

P = ParamSpec("P")
R = TypeVar("R")
O = TypeVar("O", bound="Operations")  # noqa: E741 - the operations that a method belongs to


class Sample(enum.Enum):
    """Good arguments that the smoke test makes from the description, and in its own folder."""

    NATIVE_FILE = enum.auto()
    FLASHINFER_FILE = enum.auto()
    NEW_FILE = enum.auto()
    DOCUMENT = enum.auto()
    NATIVE_METADATA = enum.auto()
    IMPORT_METADATA = enum.auto()
    VARIABLES = enum.auto()
    SESSION = enum.auto()
    TACTICS = enum.auto()


@dataclass(frozen=True, eq=False)
class Operation:
    """One operation as data.

    `parameters` are names and types, all of them always given; `result` is the type of the answer;
    `capabilities` are those that need the operation, the first of them the one it belongs to;
    `example` has good arguments.
    """

    name: str
    summary: str
    capabilities: tuple[CapabilityName, ...]
    parameters: Mapping[str, Any]
    result: Any
    rejectable: bool
    example: Mapping[str, Any]

    @functools.cached_property
    def arguments(self) -> type[msgspec.Struct]:
        """The arguments as one message."""
        fields = list(self.parameters.items())
        return msgspec.defstruct(self.name, fields, frozen=True, forbid_unknown_fields=True)

    @property
    def of_a_session(self) -> bool:
        """Whether it needs an open session."""
        return next(iter(self.parameters), None) == "session"


_DECLARED: dict[str, Operation] = {}

_SESSION = {"session": Sample.SESSION}
_PRODUCT = {"m": 1, "n": 256, "k": 128}
_CLOCK = {"timings": {"default": 100}}


@overload
def _operation(
    *capabilities: CapabilityName,
    example: Mapping[str, Any],
    rejectable: Literal[True] = ...,
    wire: Any = ...,
    types: Mapping[str, Any] = ...,
) -> Callable[[Callable[Concatenate[O, P], R]], Callable[Concatenate[O, P], R | Rejected]]: ...
@overload
def _operation(
    *capabilities: CapabilityName,
    example: Mapping[str, Any],
    rejectable: Literal[False],
    wire: Any = ...,
    types: Mapping[str, Any] = ...,
) -> Callable[[Callable[Concatenate[O, P], R]], Callable[Concatenate[O, P], R]]: ...
def _operation(
    *capabilities: CapabilityName,
    example: Mapping[str, Any],
    rejectable: bool = True,
    wire: Any = None,
    types: Mapping[str, Any] = MappingProxyType({}),
) -> Any:
    """Declare a method as an operation that these capabilities need.

    No implementation has a reason to reject an operation that is not `rejectable`. `wire` is the
    message whose only member is the method's result, where the result has no name of its own;
    `types` are the wire types of parameters that callers may give in more forms.
    """

    def declare(method: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(method)
        hints = get_type_hints(method, include_extras=True)
        names = list(signature.parameters)[1:]
        assert method.__doc__, f"{method.__name__} needs a sentence"
        declared = Operation(
            name=method.__name__,
            summary=method.__doc__.strip().partition("\n")[0].rstrip("."),
            capabilities=capabilities,
            parameters=MappingProxyType({n: types.get(n, hints[n]) for n in names}),
            result=wire or hints["return"],
            rejectable=rejectable,
            example=MappingProxyType(dict(example)),
        )
        assert declared.example.keys() == declared.parameters.keys(), declared.name
        _DECLARED[declared.name] = declared
        member = wire.__struct_fields__[0] if wire else None

        @functools.wraps(method)
        def perform(self: "Operations", *args: Any, **kwargs: Any) -> Any:
            given = signature.bind(self, *args, **kwargs)
            given.apply_defaults()
            arguments = {name: encode(given.arguments[name]) for name in names}
            answer = self.call(declared.name, **arguments)
            if isinstance(answer, Rejected):
                assert rejectable, f"{declared.name} was rejected: {answer.message}"
                return answer
            return getattr(answer, member) if member else answer

        return perform

    return declare


class Operations:
    """The operations; `call` performs one, by whatever transport."""

    def call(self, operation: str, /, **arguments: Any) -> Any:
        """Perform an operation: its result, or the rejection."""
        raise AssertionError(f"no transport performs {operation}; this class only declares")

    @_operation(example={}, rejectable=False)
    def describe(self) -> Description:
        """Who the implementation is, what it claims, and the environment that it runs in."""

    # --- Documents, without a session

    @_operation(
        "native-document",
        example={
            "path": Sample.NATIVE_FILE,
            "expected": Sample.NATIVE_METADATA,
            "session": None,
        },
    )
    def read_native(self, path: str, expected: Metadata, session: str | None = None) -> Reading:
        """Read a native document under an environment of 18 fields, for a session if given."""

    @_operation("native-document", example={"document": Sample.DOCUMENT})
    def serialize(self, document: Document) -> str:
        """The text of a document as it would be written."""

    @_operation(
        "flashinfer-import",
        example={
            "path": Sample.FLASHINFER_FILE,
            "expected": Sample.IMPORT_METADATA,
            "session": None,
        },
    )
    def read_flashinfer(self, path: str, expected: Metadata, session: str | None = None) -> Reading:
        """Import a FlashInfer document under an environment of 6 fields, for a session likewise."""

    @_operation("merge", example={"prior": Sample.DOCUMENT, "current": Sample.DOCUMENT})
    def merge(self, prior: Document, current: Document) -> Document:
        """The document of both; where they differ, the current one wins."""

    @_operation(
        "publication",
        example={"path": Sample.NEW_FILE, "document": Sample.DOCUMENT},
        wire=Written,
    )
    def write_native(self, path: str, document: Document) -> int:
        """Merge a document into a file and publish it; return how many plans it has now."""

    # --- Tables

    @_operation("buckets", example={"m": 300}, rejectable=False)
    def bucket(self, m: int) -> int:
        """The hybrid bucket of M tokens."""

    @_operation("buckets", example={"maximum": 300}, rejectable=False)
    def profiles(self, maximum: int) -> list[int]:
        """The token counts that are tuned for a maximum."""

    @_operation(
        "tactics",
        example={"tactics": Sample.TACTICS},
        rejectable=False,
        types={"tactics": Tactics},
    )
    def tactic_digest(self, tactics: Sequence[Tactic]) -> Digest:
        """The digest of these descriptors in this order."""

    @_operation("options", example={"environment": Sample.VARIABLES, "metadata": None})
    def resolve(self, environment: Environment, metadata: Metadata | None = None) -> Options:
        """The options that these variables mean, for a native environment if one is given."""

    # --- Sessions

    @_operation("session", example={"environment": Sample.VARIABLES}, wire=Opened)
    def open(self, environment: Environment) -> str:
        """Open a session with an empty ready map and return its name."""

    @_operation(
        "warm-up",
        "frozen",
        "fresh-process",
        example={**_SESSION, "max_tokens": 1, "shapes": [[256, 128]], **_CLOCK},
        types={"shapes": list[tuple[int, int]]},
    )
    def warm_up(
        self,
        session: str,
        max_tokens: int,
        shapes: Sequence[tuple[int, int]],
        timings: Timings = None,
    ) -> WarmedUp:
        """Begin a warm-up, load the files, and run the pass at the maximum number of tokens.

        `shapes` are (N, K).
        """

    @_operation("warm-up", example=_SESSION)
    def complete(self, session: str) -> Completed:
        """End the warm-up and save."""

    @_operation("warm-up", example=_SESSION)
    def abandon(self, session: str) -> None:
        """End the warm-up without saving."""

    @_operation(
        "plan-map", "capture-guard", example={**_SESSION, **_PRODUCT, "capturing": False, **_CLOCK}
    )
    def plan(
        self,
        session: str,
        m: int,
        n: int,
        k: int,
        *,
        capturing: bool = False,
        timings: Timings = None,
    ) -> Planned:
        """The plan that serves M × N × K, tuned if it must be."""

    @_operation(
        "plan-map",
        example={**_SESSION, "requests": [[1, 256, 128]], "load": None, **_CLOCK},
        types={"requests": list[tuple[int, int, int]]},
    )
    def plan_many(
        self,
        session: str,
        requests: Sequence[tuple[int, int, int]],
        *,
        load: str | None = None,
        timings: Timings = None,
    ) -> PlannedMany:
        """Plans for requests (M, N, K) that come at once, each in a thread of its own.

        While they run, the scripted clock stands still until every request has been answered,
        waits for a tuning or has begun one, and until the native file `load`, if given, has been
        loaded or rejected.
        """

    @_operation("session", example=_SESSION)
    def plans(self, session: str) -> PlanMap:
        """The session's ready map."""

    @_operation("session", example=_SESSION)
    def stats(self, session: str) -> Stats:
        """The session's counters."""

    @_operation("scripted-timer", example=_SESSION)
    def trace(self, session: str) -> tuple[Step, ...]:
        """The calls that the session's last tuning made to the device, in order."""

    @_operation("device", example=_SESSION)
    def times(self, session: str) -> Times:
        """Mean microseconds of each tactic that had a valid time in the session's last tuning."""

    @_operation("diagnostics", example=_SESSION)
    def fingerprint(self, session: str) -> Digest:
        """The digest of the session's environment."""

    @_operation("session", example=_SESSION)
    def close(self, session: str) -> None:
        """End a session."""

    # --- Products

    @_operation(
        "gemm",
        example={"m": 1, "n": 16, "k": 16, "tactic": 0, "seed": 0, "direct_sf": True},
        rejectable=False,
    )
    def gemm(
        self, m: int, n: int, k: int, *, tactic: int, seed: int, direct_sf: bool = True
    ) -> Product:
        """Quantize random operands that follow from the seed, and multiply them with one tactic."""

    @_operation(
        "device",
        example={"m": 1, "n": 16, "k": 32, "tactic": 0, "seed": 0},
        rejectable=False,
    )
    def replay(self, m: int, n: int, k: int, *, tactic: int, seed: int) -> Product:
        """The same product with direct scales, from a graph that captured one launch of it.

        The output is made NaN between the capture and the replay.
        """


OPERATIONS: Final[Mapping[str, Operation]] = MappingProxyType(_DECLARED)
"""Name → operation, in an order in which a session can perform them all."""

CAPABILITIES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        capability: tuple(op.name for op in OPERATIONS.values() if capability in op.capabilities)
        for capability in get_args(CapabilityName)
    }
)
"""Capability → the operations that an adapter which claims it must have, beside `describe`."""
