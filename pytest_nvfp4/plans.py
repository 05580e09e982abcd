"""Plan keys, tactics, and the immutable map from one to the other.

A *plan* says which CUDA kernel (*tactic*) runs the GEMM ``(M, K) × (K, N)`` of one shape. M is a
bucket of token counts; N and K are elements of the unpacked operands.
"""

import hashlib
import operator
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from pytest_nvfp4.errors import UsageError

__all__ = [
    "TACTICS",
    "TILES",
    "Change",
    "NotPlansError",
    "PlanKey",
    "PlanMap",
    "Scheduler",
    "Tactic",
    "as_plan_map",
    "by_shape",
    "difference_table",
    "differences",
    "tactic_name",
]

Scheduler = Literal["data-parallel", "stream-k"]

TILES: tuple[tuple[int, int, int], ...] = (
    (128, 32, 128),
    (128, 32, 256),
    (128, 64, 128),
    (128, 64, 256),
    (128, 128, 128),
    (128, 128, 256),
    (256, 128, 128),
    (128, 256, 128),
)
_VARIANTS: tuple[tuple[bool, Scheduler], ...] = (
    (True, "data-parallel"),
    (False, "data-parallel"),
    (True, "stream-k"),
    (False, "stream-k"),
)


class PlanKey(NamedTuple):
    """The key of a plan: M bucket in tokens, N and K in elements; sorted by m, n, then k."""

    m: int
    n: int
    k: int


@dataclass(frozen=True, slots=True)
class Tactic:
    """One kernel configuration: its id, tile (M, N, K) in elements, operand order and scheduler.

    Source: FlashInfer 0.6.13 fp4_gemm_cutlass_template_sm120.h:187-220.
    """

    id: int
    tile: tuple[int, int, int]
    swap_ab: bool
    scheduler: Scheduler
    cluster: tuple[int, int, int] = (1, 1, 1)

    @property
    def name(self) -> str:
        """A readable name, such as ``128x32x256 swap stream-k``."""
        order = "swap" if self.swap_ab else "plain"
        return f"{'x'.join(map(str, self.tile))} {order} {self.scheduler}"

    @property
    def short_name(self) -> str:
        """The name with the scheduler's abbreviation: ``128x32x256 swap sk``."""
        return self.name.replace("data-parallel", "dp").replace("stream-k", "sk")


TACTICS: tuple[Tactic, ...] = tuple(
    Tactic(4 * index + variant, tile, swap_ab, scheduler)
    for index, tile in enumerate(TILES)
    for variant, (swap_ab, scheduler) in enumerate(_VARIANTS)
)


def tactic_name(tactic: int | None) -> str:
    """The name of a tactic id; "no plan" for None, "unknown tactic" for an id beyond the 32."""
    if tactic is None:
        return "no plan"
    return TACTICS[tactic].name if 0 <= tactic < len(TACTICS) else "unknown tactic"


class PlanMap(Mapping[PlanKey, int]):
    """An immutable map (m, n, k) → tactic id, iterated in sorted order, hashable, with a digest."""

    __slots__ = ("_plans",)
    _plans: dict[PlanKey, int]

    def __init__(self, plans: Mapping[PlanKey, int] | Iterable[tuple[tuple[int, int, int], int]]):
        """From a mapping or from (key, tactic) pairs; ValueError for a key that occurs twice."""
        pairs = list(plans.items() if isinstance(plans, Mapping) else plans)
        ordered = {PlanKey(*key): tactic for key, tactic in sorted(pairs)}
        if len(ordered) != len(pairs):
            keys = [PlanKey(*key) for key, _ in pairs]
            twice = next(key for key in ordered if keys.count(key) > 1)
            raise ValueError(f"plan key {tuple(twice)} occurs twice; give each key once")
        self._plans = ordered

    def __getitem__(self, key: tuple[int, int, int]) -> int:
        return self._plans[PlanKey(*key)]

    def __iter__(self) -> Iterator[PlanKey]:
        return iter(self._plans)

    def __len__(self) -> int:
        return len(self._plans)

    def __hash__(self) -> int:
        return hash(tuple(self._plans.items()))

    def __repr__(self) -> str:
        return f"<PlanMap of {len(self)} plans, digest {self.digest[:16]}>"

    @property
    def rows(self) -> list[tuple[int, int, int, int]]:
        """The plans as (m, n, k, tactic) rows, sorted."""
        return [(*key, tactic) for key, tactic in self._plans.items()]

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of the sorted rows; two maps are equal exactly when their digests are."""
        text = "".join(f"{m},{n},{k},{tactic}\n" for m, n, k, tactic in self.rows)
        return hashlib.sha256(text.encode("ascii")).hexdigest()


class NotPlansError(UsageError):
    """A value that was given as plans is no plan map; the text is one sentence."""


def as_plan_map(value: object) -> PlanMap:
    """A `PlanMap` of the same plans as a `PlanMap` or another mapping (m, n, k) → tactic id.

    NotPlansError for any other value, a key that is no tuple of three positive integers, and a
    tactic that is no integer from 0 to 31. Integers may be NumPy's.
    """
    if not isinstance(value, Mapping):
        path = isinstance(value, str | bytes | os.PathLike)
        advice = (
            "read a cache file with pytest_nvfp4.cache_files.read_plans(path)"
            if path
            else "give a PlanMap, or a mapping (m, n, k) → tactic id"
        )
        raise NotPlansError(f"a plan map is needed here, not {type(value).__name__}; {advice}")
    pairs = [(_checked_key(key), _checked_tactic(key, value[key])) for key in value]
    try:
        return PlanMap(pairs)
    except ValueError as error:
        raise NotPlansError(str(error)) from None


def _checked_key(key: object) -> PlanKey:
    numbers = [_integer(part) for part in key] if isinstance(key, tuple) else []
    if len(numbers) != 3 or any(number is None or number < 1 for number in numbers):
        raise NotPlansError(f"plan key {key!r} is not possible; use (m, n, k), integers above 0")
    return PlanKey(*numbers)  # type: ignore[arg-type]


def _checked_tactic(key: object, tactic: object) -> int:
    number = _integer(tactic)
    if number is None or not 0 <= number < len(TACTICS):
        raise NotPlansError(
            f"the plan of {tuple(key)} has tactic {tactic!r}; "  # type: ignore[arg-type]
            f"use an integer from 0 to {len(TACTICS) - 1}"
        )
    return number


def _integer(value: object) -> int | None:
    """An integer of any kind, NumPy's too, as int; None for anything else, and for a bool."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return None


def by_shape(key: PlanKey) -> tuple[int, int, int]:
    """A sort key that keeps the plans of one shape together: (n, k, m)."""
    return key.n, key.k, key.m


@dataclass(frozen=True, slots=True)
class Change:
    """One key at which two maps differ: its tactic in each, None where a map lacks the key."""

    key: PlanKey
    left: int | None
    right: int | None


def differences(left: Mapping[PlanKey, int], right: Mapping[PlanKey, int]) -> list[Change]:
    """List the keys at which two maps differ, sorted by (n, k, m): shape by shape."""
    shared = {PlanKey(*key) for key in left.keys() | right.keys()}
    keys = sorted(shared, key=by_shape)
    return [
        Change(key, left.get(key), right.get(key))
        for key in keys
        if left.get(key) != right.get(key)
    ]


def difference_table(
    changes: Iterable[Change], left_name: str = "left", right_name: str = "right"
) -> list[str]:
    """Changes as lines of at most 80 columns: a heading, then N, K, M and both tactics of each.

    A tactic is its id and `Tactic.short_name`, or "—" where a map lacks the plan. Only the first 26
    characters of a name are shown.
    """
    lines = [f"{'N':>6} {'K':>6} {'M':>5}  {left_name[:26]:<26}  {right_name[:26]}"]
    lines += [
        f"{key.n:>6} {key.k:>6} {key.m:>5}  {_cell(left):<26}  {_cell(right)}".rstrip()
        for key, left, right in ((change.key, change.left, change.right) for change in changes)
    ]
    return lines


def _cell(tactic: int | None) -> str:
    if tactic is None:
        return "—"
    known = 0 <= tactic < len(TACTICS)
    return f"{tactic:>2} {TACTICS[tactic].short_name if known else tactic_name(tactic)}"
