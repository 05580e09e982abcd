"""The subject of a run: an implementation as the suite sees it, with typed operations."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from pytest_nvfp4.implementations.interface import (
    DECODERS,
    Description,
    Document,
    Options,
    Reading,
    Rejected,
    Stats,
    SubjectError,
    decode_rejection,
    encode_tactic,
)
from pytest_nvfp4.plans import PlanMap, Tactic

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

    def bucket(self, m: int) -> int | Rejected:
        """The hybrid bucket of M tokens."""
        return self.call("bucket", m=m)  # type: ignore[no-any-return]

    def profiles(self, maximum: int) -> list[int] | Rejected:
        """The token counts that are tuned for a maximum."""
        return self.call("profiles", maximum=maximum)  # type: ignore[no-any-return]

    def tactic_digest(self, tactics: Sequence[Tactic]) -> str | Rejected:
        """The 16-hex-digit digest of these descriptors in this order."""
        return self.call("tactic_digest", tactics=[encode_tactic(t) for t in tactics])  # type: ignore[no-any-return]

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

    def plans(self, session: str) -> PlanMap | Rejected:
        """The session's ready map."""
        return self.call("plans", session=session)  # type: ignore[no-any-return]

    def stats(self, session: str) -> Stats | Rejected:
        """The session's counters."""
        return self.call("stats", session=session)  # type: ignore[no-any-return]

    def close(self, session: str) -> Rejected | None:
        """End a session."""
        return self.call("close", session=session)  # type: ignore[no-any-return]
