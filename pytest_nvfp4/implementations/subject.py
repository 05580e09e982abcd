"""The subject of a run: an implementation as the suite sees it, with typed operations."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from pytest_nvfp4.implementations.interface import (
    DECODERS,
    Completed,
    Description,
    Document,
    NotAnIntegerError,
    Options,
    Planned,
    PlannedMany,
    Product,
    Reading,
    Rejected,
    ReportedError,
    Stats,
    Step,
    SubjectError,
    WarmedUp,
    decode_rejection,
    encode_tactic,
)
from pytest_nvfp4.plans import PlanMap, Tactic

Timings = Mapping[str, float | str] | None

Answer = tuple[str, Any]
"""``("ok", data)`` or ``("rejected", data)``, not decoded yet."""


class Transport(Protocol):
    """A way to reach an adapter. `call` raises SubjectError where the adapter broke."""

    name: str

    def call(self, operation: str, arguments: Mapping[str, Any]) -> Answer: ...

    def close(self) -> None: ...


class Subject:
    """An implementation behind a transport.

    Each operation returns its value, or `Rejected` where the implementation says no; anything else
    raises SubjectError. `observe` is called with each request, so that a failing case can be
    written down as a sequence that anybody can replay.
    """

    def __init__(
        self, transport: Transport, observe: Callable[[dict[str, Any]], None] | None = None
    ):
        self.transport = transport
        self._observe = observe

    def call(self, operation: str, **arguments: Any) -> Any:
        """Call an operation and decode its answer."""
        if self._observe:
            self._observe({"op": operation, **arguments})
        kind, data = self.transport.call(operation, arguments)
        decode = DECODERS[operation] if kind == "ok" else decode_rejection
        try:
            return decode(data)
        except NotAnIntegerError as error:
            # The adapter passed on what the implementation holds: the case can be judged.
            raise ReportedError(f"{operation} gave a plan that is none: {error}") from None
        except ValueError as error:
            what = "answer" if kind == "ok" else "rejection"
            raise SubjectError(
                f"the {what} of {operation} breaks the adapter interface: {error}"
            ) from None

    def describe(self) -> Description:
        """Ask who the implementation is; it has no right to reject this."""
        answer = self.call("describe")
        if not isinstance(answer, Description):
            raise SubjectError(f"describe was rejected: {answer.message}")
        return answer

    def resolve(
        self, environment: Mapping[str, str], metadata: Mapping[str, Any] | None = None
    ) -> Options | Rejected:
        """Resolve options from these environment variables, and from no others."""
        return self.call(  # type: ignore[no-any-return]
            "resolve",
            environment=dict(environment),
            metadata=None if metadata is None else dict(metadata),
        )

    def _granted(self, operation: str, **arguments: Any) -> Any:
        """Call an operation that no implementation has a reason to reject."""
        answer = self.call(operation, **arguments)
        assert not isinstance(answer, Rejected), f"{operation} was rejected: {answer.message}"
        return answer

    def bucket(self, m: int) -> int:
        """The hybrid bucket of M tokens."""
        return self._granted("bucket", m=m)  # type: ignore[no-any-return]

    def profiles(self, maximum: int) -> list[int]:
        """The token counts that are tuned for a maximum."""
        return self._granted("profiles", maximum=maximum)  # type: ignore[no-any-return]

    def tactic_digest(self, tactics: Sequence[Tactic]) -> str:
        """The 16-hex-digit digest of these descriptors in this order."""
        rows = [encode_tactic(tactic) for tactic in tactics]
        return self._granted("tactic_digest", tactics=rows)  # type: ignore[no-any-return]

    def read_native(
        self, path: str, expected: Mapping[str, Any], session: str | None = None
    ) -> Reading | Rejected:
        """Read a native document under an environment of 18 metadata fields."""
        return self.call("read_native", path=path, expected=dict(expected), session=session)  # type: ignore[no-any-return]

    def read_flashinfer(
        self, path: str, expected: Mapping[str, str], session: str | None = None
    ) -> Reading | Rejected:
        """Import a FlashInfer document under an environment of 6 metadata fields."""
        return self.call("read_flashinfer", path=path, expected=dict(expected), session=session)  # type: ignore[no-any-return]

    def serialize(self, document: Document) -> str | Rejected:
        """The text of a document as it would be written."""
        return self.call("serialize", document=document)  # type: ignore[no-any-return]

    def merge(self, prior: Document, current: Document) -> Document | Rejected:
        """Merge two documents; the current one wins."""
        return self.call("merge", prior=prior, current=current)  # type: ignore[no-any-return]

    def write_native(self, path: str, document: Document) -> int | Rejected:
        """Merge into the file and publish it; the number of plans that it has now."""
        return self.call("write_native", path=path, document=document)  # type: ignore[no-any-return]

    def open(self, environment: Mapping[str, str]) -> str | Rejected:
        """Open a session with an empty ready map."""
        return self.call("open", environment=dict(environment))  # type: ignore[no-any-return]

    def warm_up(
        self,
        session: str,
        max_tokens: int,
        shapes: Sequence[tuple[int, int]],
        timings: Timings = None,
    ) -> WarmedUp | Rejected:
        """Begin a warm-up, load the files, and run the pass at the maximum number of tokens.

        `shapes` are (N, K); `timings` script the clock: microseconds, "raise", "nan", "inf" or
        "-inf" by tactic id (as a string) or "default"; None measures for real.
        """
        return self.call(  # type: ignore[no-any-return]
            "warm_up",
            session=session,
            max_tokens=max_tokens,
            shapes=[list(shape) for shape in shapes],
            timings=timings,
        )

    def complete(self, session: str) -> Completed | Rejected:
        """End the warm-up and save."""
        return self.call("complete", session=session)  # type: ignore[no-any-return]

    def abandon(self, session: str) -> Rejected | None:
        """End the warm-up without saving."""
        return self.call("abandon", session=session)  # type: ignore[no-any-return]

    def plan(
        self,
        session: str,
        m: int,
        n: int,
        k: int,
        *,
        capturing: bool = False,
        timings: Timings = None,
    ) -> Planned | Rejected:
        """The plan that serves M × N × K, tuned if it must be."""
        return self.call(  # type: ignore[no-any-return]
            "plan", session=session, m=m, n=n, k=k, capturing=capturing, timings=timings
        )

    def plan_many(
        self,
        session: str,
        requests: Sequence[tuple[int, int, int]],
        *,
        load: str | None = None,
        timings: Timings = None,
    ) -> PlannedMany | Rejected:
        """Plans for requests (M, N, K) that come at once, each in a thread of its own.

        While they run, the scripted clock stands still until every request has been answered,
        waits for a tuning or has begun one, and until the native file `load`, if given, has been
        loaded or refused.
        """
        return self.call(  # type: ignore[no-any-return]
            "plan_many",
            session=session,
            requests=[list(request) for request in requests],
            load=load,
            timings=timings,
        )

    def plans(self, session: str) -> PlanMap | Rejected:
        """The session's ready map."""
        return self.call("plans", session=session)  # type: ignore[no-any-return]

    def stats(self, session: str) -> Stats | Rejected:
        """The session's counters."""
        return self.call("stats", session=session)  # type: ignore[no-any-return]

    def close(self, session: str) -> Rejected | None:
        """End a session."""
        return self.call("close", session=session)  # type: ignore[no-any-return]

    def trace(self, session: str) -> tuple[Step, ...] | Rejected:
        """What the session's last tuning asked of the device, in order."""
        return self.call("trace", session=session)  # type: ignore[no-any-return]

    def times(self, session: str) -> dict[int, float] | Rejected:
        """Mean microseconds of each tactic with a valid time in the session's last tuning."""
        return self.call("times", session=session)  # type: ignore[no-any-return]

    def fingerprint(self, session: str) -> str | Rejected:
        """The 16 hex digits of the session's environment."""
        return self.call("fingerprint", session=session)  # type: ignore[no-any-return]

    def gemm(
        self, m: int, n: int, k: int, *, tactic: int, seed: int, direct_sf: bool = True
    ) -> Product:
        """Quantize random operands that follow from the seed, and multiply them with one tactic."""
        return self._granted(  # type: ignore[no-any-return]
            "gemm", m=m, n=n, k=k, tactic=tactic, seed=seed, direct_sf=direct_sf
        )

    def replay(self, m: int, n: int, k: int, *, tactic: int, seed: int) -> Product:
        """The same product with direct scales, from a graph that captured one launch of it.

        The output is made NaN between the capture and the replay.
        """
        return self._granted("replay", m=m, n=n, k=k, tactic=tactic, seed=seed)  # type: ignore[no-any-return]
