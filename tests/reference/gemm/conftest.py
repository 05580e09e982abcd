"""Fixtures of the GEMM tests."""

import random
from collections.abc import Iterator

import numpy as np
import pytest
from nvfp4_reference.errors import UnavailableError
from nvfp4_reference.gemm.cupy import CupyBackend


@pytest.fixture
def numbers(rng: random.Random) -> np.random.Generator:
    """NumPy's fresh random numbers, from the seed that `rng` prints."""
    return np.random.default_rng(rng.randrange(2**32))


@pytest.fixture(scope="session")
def built_card() -> CupyBackend:
    """A back end whose kernels are built; without one, the test is skipped and says why."""
    back_end = CupyBackend(progress=print)
    reason = back_end.reason()
    if reason is None:
        try:
            back_end.prepare(1, 32, 64, 0)
        except UnavailableError as error:
            pytest.fail(f"a card and a compiler are here, and yet: {error}", pytrace=False)
    else:
        pytest.skip(f"needs a card with kernels: {reason}")
    return back_end


@pytest.fixture
def card(built_card: CupyBackend) -> Iterator[CupyBackend]:
    """A back end on a card, which still answers when the test has ended."""
    yield built_card
    assert built_card.reason() is None
