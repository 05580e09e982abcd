"""Random operands for which the order of a sum changes the result.

Normally distributed numbers quantize to block scales of similar size, and their products add up in
float32 without rounding. Every order would give the same bytes, and a test of the order would test
nothing. So each block of 16 is divided by a random power of two, which spreads the block scales
over nearly all E4M3 exponents.
"""

import numpy as np

from .elements import BLOCK, Floats

MOST_HALVINGS = 13
"""From the scale of an undivided block down to about the smallest normal E4M3."""


def check_shape(m: int, n: int, k: int) -> None:
    """`ValueError` unless all are positive integers and K is a multiple of 16."""
    for name, size in (("M", m), ("N", n), ("K", k)):
        if type(size) is not int or size < 1:
            raise ValueError(f"{name} is {size!r}; give a positive integer.")
    if k % BLOCK:
        raise ValueError(f"K is {k}; give a multiple of 16, since 16 values share a scale.")


def random_operands(m: int, n: int, k: int, seed: int) -> tuple[Floats, Floats]:
    """A float32 activation, M × K, and weight, N × K; the weight does not depend on M.

    `ValueError` for an invalid shape, or a seed that is not a non-negative integer.
    """
    check_shape(m, n, k)
    return random_activation(m, k, seed), random_weight(n, k, seed)


def random_activation(m: int, k: int, seed: int) -> Floats:
    """The activation of `random_operands`."""
    return _operand(m, k, (_checked(seed), 0))


def random_weight(n: int, k: int, seed: int) -> Floats:
    """The weight of `random_operands`."""
    return _operand(n, k, (_checked(seed), 1))


def _checked(seed: int) -> int:
    if type(seed) is not int or seed < 0:
        raise ValueError(f"The seed is {seed!r}; give a non-negative integer.")
    return seed


def _operand(rows: int, k: int, seed: tuple[int, int]) -> Floats:
    rng = np.random.default_rng(seed)
    numbers = rng.standard_normal((rows, k // BLOCK, BLOCK), np.float32)
    halvings = rng.integers(0, MOST_HALVINGS, (rows, k // BLOCK, 1), endpoint=True)
    # One block of each row is not divided, so that no output is too small for float16.
    halvings[:, 0] = 0
    return np.ldexp(numbers, -halvings).reshape(rows, k)
