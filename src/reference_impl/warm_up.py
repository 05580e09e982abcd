"""What one maximum-token pass covers: every profile of every weight shape."""

from collections.abc import Iterable
from dataclasses import dataclass

from .buckets import HYBRID_BUCKETS, bucket, profiles
from .members import INT32, shown
from .plans import SCALE_BLOCK, PlanKey

LARGEST_M = max(HYBRID_BUCKETS)
"""Rows beyond this have no bucket that a document can hold."""


@dataclass(frozen=True, slots=True)
class MaximumPass:
    """The plans that a pass needs: each key with the M to measure it at, in the pass's order.

    A key's bucket may lie above the maximum (3000 rows are kept as 3072), and is then measured at
    the maximum: nobody has larger buffers.
    """

    maximum: int
    needed: dict[PlanKey, int]

    @classmethod
    def of(cls, max_tokens: int, shapes: Iterable[tuple[int, int]]) -> "MaximumPass":
        """The pass up to `max_tokens` rows over the (N, K) of every weight."""
        if type(max_tokens) is not int or not 1 <= max_tokens <= LARGEST_M:
            raise ValueError(
                f"max_tokens is {shown(max_tokens)}; "
                f"give the largest batch, an integer from 1 to {LARGEST_M}."
            )
        measured = profiles(max_tokens)
        return cls(
            max_tokens,
            {checked_key(m, n, k): m for n, k in shapes for m in measured},
        )


@dataclass(frozen=True, slots=True)
class WarmUp:
    """What a warm-up did: plans loaded by it, plans tuned, and plans missing before tuning."""

    loaded: int
    tuned: int
    missing: int


def checked_key(m: int, n: int, k: int) -> PlanKey:
    """The key that serves a request of M x N x K. An impossible shape is a ValueError.

    N is the output columns, K the unpacked FP4 values. M below 1 is served by bucket 1.
    """
    if type(m) is not int or m > LARGEST_M:
        raise ValueError(f"M is {shown(m)}; give an integer up to {LARGEST_M}.")
    if type(n) is not int or not 0 < n < INT32.stop:
        raise ValueError(f"N is {shown(n)}; give a positive 32-bit integer.")
    if type(k) is not int or not 0 < k < INT32.stop or k % SCALE_BLOCK:
        raise ValueError(f"K is {shown(k)}; give a positive 32-bit multiple of {SCALE_BLOCK}.")
    return PlanKey(bucket(m), n, k)
