"""Sessions of the subject, as contract tests speak about them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from pytest_nvfp4.implementations.messages import (
    Completed,
    Planned,
    PlannedMany,
    Rejected,
    Stats,
    Step,
    Timings,
    WarmedUp,
)
from pytest_nvfp4.implementations.subject import Subject
from pytest_nvfp4.model import hybrid_bucket, profile_list
from pytest_nvfp4.plans import PlanKey, PlanMap

T = TypeVar("T")

NATIVE_PATH = "VT_FP4_AUTOTUNE_CACHE_PATH"
IMPORT_PATH = "VT_FP4_FLASHINFER_CACHE_PATH"
FROZEN = "VT_FP4_AUTOTUNE_CACHE_READONLY"
DELAY = "VT_FP4_AUTOTUNE_DELAY_US"
BYPASS = "VT_FP4_PLAN_CACHE"
DIRECT_SF = "VT_FP4_DIRECT_SF"

SHAPES = ((256, 128), (512, 64))
"""(N, K) of the products that most tests warm up."""
MAX_TOKENS = 4

NO_CLOCK: Timings = {"default": "raise"}
"""A clock with which any measurement fails: whoever measures gives itself away."""


def fastest(tactic: int) -> Mapping[str, float]:
    """A clock by which one tactic wins."""
    return {"default": 100, str(tactic): 10}


def profile_keys(max_tokens: int, shapes: Sequence[tuple[int, int]]) -> list[PlanKey]:
    """The keys that a complete map holds for a maximum and shapes (N, K)."""
    buckets = {hybrid_bucket(m) for m in profile_list(max_tokens)}
    return sorted(PlanKey(m, n, k) for m in buckets for n, k in shapes)


def full_map(tactic: int = 5) -> PlanMap:
    """A map that covers what most tests warm up; its tactics differ from profile to profile."""
    keys = profile_keys(MAX_TOKENS, SHAPES)
    return PlanMap([(key, (tactic + index) % 32) for index, key in enumerate(keys)])


class SubjectSession:
    """One session; each operation fails the test where the subject rejects what it must not."""

    def __init__(self, subject: Subject, environment: Mapping[str, str]):
        self.subject = subject
        name = subject.open(environment)
        assert isinstance(name, str), f"open was rejected: {name.message}"
        self.name = name

    def try_warm_up(
        self,
        max_tokens: int = MAX_TOKENS,
        shapes: Sequence[tuple[int, int]] = SHAPES,
        timings: Timings = None,
    ) -> WarmedUp | Rejected:
        """Warm up, whatever comes of it."""
        clock = fastest(0) if timings is None else timings
        return self.subject.warm_up(self.name, max_tokens, shapes, clock)

    def warm_up(
        self,
        max_tokens: int = MAX_TOKENS,
        shapes: Sequence[tuple[int, int]] = SHAPES,
        timings: Timings = None,
    ) -> WarmedUp:
        """Warm up, on a scripted clock by which tactic 0 wins unless another is given."""
        return _granted(self.try_warm_up(max_tokens, shapes, timings), WarmedUp)

    def complete(self) -> Completed:
        return _granted(self.subject.complete(self.name), Completed)

    def saved(self) -> Completed:
        """Complete, with the file saved."""
        completed = self.complete()
        assert completed.failure is None, f"the save failed: {completed.failure}"
        return completed

    def try_plan(
        self, m: int, n: int, k: int, timings: Timings = NO_CLOCK, *, capturing: bool = False
    ) -> Planned | Rejected:
        """Look a plan up, whatever comes of it; unless a clock is given, none may be needed."""
        return self.subject.plan(self.name, m, n, k, capturing=capturing, timings=timings)

    def plan(
        self, m: int, n: int, k: int, timings: Timings = NO_CLOCK, *, capturing: bool = False
    ) -> Planned:
        return _granted(self.try_plan(m, n, k, timings, capturing=capturing), Planned)

    def plan_many(
        self,
        requests: Sequence[tuple[int, int, int]],
        timings: Timings = NO_CLOCK,
        load: Path | None = None,
    ) -> PlannedMany:
        path = None if load is None else str(load)
        answer = self.subject.plan_many(self.name, requests, load=path, timings=timings)
        return _granted(answer, PlannedMany)

    def plans(self) -> PlanMap:
        return _granted(self.subject.plans(self.name), PlanMap)

    def stats(self) -> Stats:
        return _granted(self.subject.stats(self.name), Stats)

    def trace(self) -> tuple[Step, ...]:
        return _granted(self.subject.trace(self.name), tuple)

    def times(self) -> dict[int, float]:
        return _granted(self.subject.times(self.name), dict)

    def fingerprint(self) -> str:
        return _granted(self.subject.fingerprint(self.name), str)

    def close(self) -> None:
        assert self.subject.close(self.name) is None, "close was rejected"


def _granted(answer: object, kind: type[T]) -> T:
    assert not isinstance(answer, Rejected), f"it was rejected: {answer.message}"
    assert isinstance(answer, kind)
    return answer
