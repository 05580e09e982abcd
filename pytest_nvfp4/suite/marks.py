"""How a test states which contract it proves, over which transport, and what it needs."""

from collections.abc import Callable
from typing import Any, TypeVar

import pytest

F = TypeVar("F", bound=Callable[..., Any])

ARGUMENT = "nvfp4"
"""The argument of a contract test: the suite passes a `CaseTools`; no fixture has this name."""

CONTRACT, OVER, REQUIRES = "nvfp4_contract", "nvfp4_over", "nvfp4_requires"

MARKERS = (
    f"{CONTRACT}(id): the cache contract that this test proves",
    f"{OVER}(transport): the only transport over which this test makes sense",
    f"{REQUIRES}(what): what else this case needs: a capability, own-document, or keeps-native",
)

TRANSPORT_IDS = {"in process": "in-process", "JSON lines": "json-lines"}
"""How a transport is spelled in the id of a case."""


def contract(contract_id: str) -> Callable[[F], F]:
    """State which contract a test proves."""
    return _marked(CONTRACT, contract_id)


def over(transport: str) -> Callable[[F], F]:
    """Restrict a test to one transport."""
    return _marked(OVER, transport)


def requires(what: str) -> Callable[[F], F]:
    """Leave a case out unless the implementation also has this; see `Description.has`."""
    return _marked(REQUIRES, what)


def _marked(name: str, value: str) -> Callable[[F], F]:
    return getattr(pytest.mark, name)(value)  # type: ignore[no-any-return]
