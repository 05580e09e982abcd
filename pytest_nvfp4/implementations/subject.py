"""The subject of a run: an implementation behind a transport, with typed operations."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from pytest_nvfp4.implementations.messages import (
    Description,
    NotAnIntegerError,
    Rejected,
    ReportedError,
    SubjectError,
)
from pytest_nvfp4.implementations.operations import OPERATIONS, Operations
from pytest_nvfp4.implementations.plain_data import decode

Reply = tuple[str, Any]
"""``("ok", data)`` or ``("rejected", data)``, not decoded yet."""


class Transport(Protocol):
    """A way to reach an adapter. `call` raises SubjectError where there is no reply."""

    name: str

    def call(self, operation: str, arguments: Mapping[str, Any]) -> Reply: ...

    def close(self) -> None: ...


class Subject(Operations):
    """An implementation behind a transport.

    Each operation returns its result, or `Rejected`; anything else raises SubjectError. `observe`
    is called with each request, so that a failing case can be written down as a sequence of
    requests.
    """

    def __init__(
        self, transport: Transport, observe: Callable[[dict[str, Any]], None] | None = None
    ):
        self.transport = transport
        self._observe = observe

    def call(self, operation: str, /, **arguments: Any) -> Any:
        """Perform an operation with plain data: its result, or the rejection."""
        if self._observe:
            self._observe({"op": operation, **arguments})
        kind, data = self.transport.call(operation, arguments)
        return decode_reply(operation, kind, data)


def describe(transport: Transport) -> tuple[Description, Any]:
    """The description over a transport, as a value and as data; SubjectError without one."""
    kind, data = transport.call("describe", {})
    if kind != "ok":
        raise SubjectError(f"it was rejected: {data!r:.200}")
    try:
        return decode(data, Description), data
    except ValueError as error:
        raise SubjectError(str(error)) from None


def decode_reply(operation: str, kind: str, data: Any) -> Any:
    """A reply as a value of the interface; SubjectError where it breaks the interface."""
    try:
        return decode(data, OPERATIONS[operation].result if kind == "ok" else Rejected)
    except NotAnIntegerError as error:
        # The adapter passed on what the implementation holds: the case can be judged.
        raise ReportedError(f"{operation} returned something other than plans: {error}") from None
    except ValueError as error:
        what = "answer" if kind == "ok" else "rejection"
        raise SubjectError(
            f"the {what} of {operation} breaks the adapter interface: {error}"
        ) from None
