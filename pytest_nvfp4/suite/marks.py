"""How a test says which contract it proves, over which transport, and what it needs."""

from collections.abc import Callable
from typing import Any, TypeVar

import pytest

F = TypeVar("F", bound=Callable[..., Any])

CONTRACT, OVER, REQUIRES = "nvfp4_contract", "nvfp4_over", "nvfp4_requires"

MARKERS = (
    f"{CONTRACT}(id): the cache contract that this test proves",
    f"{OVER}(transport): the only transport over which this test makes sense",
    f"{REQUIRES}(what): what else this case needs: a capability, own-document, or keeps-native",
)


def contract(contract_id: str) -> Callable[[F], F]:
    """Say which contract a test proves.

    It also makes the function a test whatever naming pattern the surrounding project has set.
    """

    def decorate(function: F) -> F:
        function.__test__ = True  # type: ignore[attr-defined]
        return getattr(pytest.mark, CONTRACT)(contract_id)(function)  # type: ignore[no-any-return]

    return decorate


def over(transport: str) -> Callable[[F], F]:
    """Restrict a test to one transport."""
    return getattr(pytest.mark, OVER)(transport)  # type: ignore[no-any-return]


def requires(capability: str) -> Callable[[F], F]:
    """Leave a case out unless the implementation also has this; see `Description.has`."""
    return getattr(pytest.mark, REQUIRES)(capability)  # type: ignore[no-any-return]
