"""Plans: the tactic to run for a product of M x N x K.

In memory, plans are a mapping from `PlanKey` to a tactic id. Device, data type, layouts and tactic
set are the same for all plans of a document, so its metadata hold them once.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from .buckets import HYBRID_BUCKETS, bucket
from .members import INT32, shown

RUNNER = "CutlassFp4GemmRunner"
"""The only runner whose tactic ids are defined."""

SCALE_BLOCK = 16
"""Values along K that share one scale; K is a multiple of it."""

LARGEST_M = max(HYBRID_BUCKETS)
"""The largest M with a bucket that a document can hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What, beside the shape, a plan is valid for; the same for all plans of a document.

    Fields have the names and the order of a plan's members; `output_dtype` is the id of the type.
    """

    architecture: int
    device_ordinal: int
    fp4_layout: str
    output_dtype: int
    runner: str = RUNNER
    scale_layout: str
    tactic_set_version: int


class PlanKey(NamedTuple):
    """The shape of a plan; ordered by M, then N, then K, as in documents.

    `m`: a hybrid bucket. `n`: output columns. `k`: unpacked FP4 values, two per byte.
    """

    m: int
    n: int
    k: int


Plans = Mapping[PlanKey, int]
"""Tactic ids by shape."""


def as_rows(plans: Plans) -> list[dict[str, int]]:
    """The plans as the adapter interface lists them, sorted by (m, n, k)."""
    return [
        {"m": key.m, "n": key.n, "k": key.k, "tactic": tactic}
        for key, tactic in sorted(plans.items())
    ]


def checked_key(m: int, n: int, k: int) -> PlanKey:
    """The key of the plan for M x N x K; `ValueError` for an impossible shape.

    N is the number of output columns, K of unpacked FP4 values. Bucket 1 serves an M below 1.
    """
    if type(m) is not int or m > LARGEST_M:
        raise ValueError(f"M is {shown(m)}; give an integer up to {LARGEST_M}.")
    if type(n) is not int or not 0 < n < INT32.stop:
        raise ValueError(f"N is {shown(n)}; give a positive 32-bit integer.")
    if type(k) is not int or not 0 < k < INT32.stop or k % SCALE_BLOCK:
        raise ValueError(f"K is {shown(k)}; give a positive 32-bit multiple of {SCALE_BLOCK}.")
    return PlanKey(bucket(m), n, k)
