"""Fixtures of the reference's tests."""

import random

import pytest


@pytest.fixture
def rng() -> random.Random:
    """Fresh random data; the seed is printed with a failure."""
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    return random.Random(seed)
