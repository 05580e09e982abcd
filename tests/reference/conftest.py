"""Fixtures of the reference's tests."""

import random

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker of wide matrices and long loops, which `make test-all` runs."""
    config.addinivalue_line("markers", "wide: a wide matrix or a long loop; see `make test-all`")


@pytest.fixture
def rng() -> random.Random:
    """Fresh random data; the seed is printed with a failure."""
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    return random.Random(seed)
