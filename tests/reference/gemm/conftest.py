"""Fixtures of the GEMM tests."""

import random

import numpy as np
import pytest


@pytest.fixture
def numbers(rng: random.Random) -> np.random.Generator:
    """NumPy's fresh random numbers, from the seed that `rng` prints."""
    return np.random.default_rng(rng.randrange(2**32))
