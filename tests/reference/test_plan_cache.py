"""Lookup: the plan that serves a request, what a miss may do, and which calls wait."""

import random
import threading
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from nvfp4_reference import PlanKey, Rejected, Session, buckets
from nvfp4_reference.plan_cache import Served
from nvfp4_reference.plan_map import TuningError
from nvfp4_reference.plans import Identity
from nvfp4_reference.profiling import Profiler

from .documents import random_plans, verdict
from .sessions import (
    LONG,
    NK,
    SHAPES,
    BackEnd,
    Call,
    Slow,
    Untouchable,
    at,
    best,
    frozen_at,
    session,
    write_native,
)

BYPASS = {"VT_FP4_PLAN_CACHE": "0"}


def warmed(maximum: int = 64, **named: Any) -> Session:
    found = session(**named)
    found.warm_up(maximum, SHAPES, back_end=best(3))
    assert found.complete().failure is None
    return found


def test_a_miss_tunes_once_and_its_call_has_the_result() -> None:
    cache = session()
    back_end = best(7)
    assert cache.lookup(5, *NK) is None
    assert cache.plan(5, *NK, back_end=back_end) == Served(7, "tuned", True, False)
    for m in (5, 6, 7, 8):
        assert cache.plan(m, *NK, back_end=Untouchable()) == Served(7, "live")
        plan = cache.lookup(m, *NK)
        assert plan is not None
        assert (plan.tactic, plan.source) == (7, "live")
    assert back_end.products == [(8, *NK)]
    assert cache.statistics().tuned == 1


def test_a_hit_makes_no_call_to_the_device_and_no_trace() -> None:
    cache = session()
    cache.plan(5, *NK, back_end=best(7))
    before = cache.trace()
    assert len(before) == 32 * 18
    for capturing in (False, True):
        cache.plan(5, *NK, capturing=capturing, back_end=Untouchable())
    assert cache.trace() is before


@pytest.mark.parametrize("field", [field.name for field in fields(Identity)])
def test_any_field_of_the_identity_changed_misses(field: str) -> None:
    cache = session()
    cache.plan(5, *NK, back_end=best(7))
    assert cache.lookup(5, *NK, cache.identity) == cache.lookup(5, *NK)
    value: Any = getattr(cache.identity, field)
    change: dict[str, Any] = {field: value + 1 if isinstance(value, int) else f"{value}x"}
    assert cache.lookup(5, *NK, replace(cache.identity, **change)) is None


@pytest.mark.parametrize("request_", [(9, *NK), (4, *NK), (8, NK[0] + 1, NK[1]), (8, NK[0], 400)])
def test_any_dimension_changed_misses(request_: tuple[int, int, int]) -> None:
    cache = session()
    cache.plan(8, *NK, back_end=best(7))
    assert cache.lookup(*request_) is None
    assert cache.plan(*request_, back_end=best(8)).tactic == 8


def test_every_m_up_to_the_tuned_maximum_is_served(rng: random.Random) -> None:
    for maximum in (1, 3, 300, 3000, 4096, rng.randrange(1, 5000), 20000):
        cache = warmed(maximum)
        for m in {*range(1, maximum + 1, 7), maximum, *buckets.profiles(maximum)}:
            assert cache.lookup(m, *NK) is not None, (maximum, m)
        assert cache.statistics().lazy == 0


def test_lookup_and_plan_agree_on_every_bucket(rng: random.Random) -> None:
    cache = session()
    cache.install({PlanKey(b, *NK): b % 32 for b in buckets.HYBRID_BUCKETS}, "native")
    for m in [-5, 0, *range(1, 4200), *(rng.randrange(4200, 2**30) for _ in range(1000))]:
        plan = cache.lookup(m, *NK)
        assert plan is not None
        assert plan.tactic == buckets.bucket(m) % 32


def test_beyond_the_tuned_range_is_counted_and_reported_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cache = warmed(64)
    assert cache.statistics().lazy == 0
    caplog.clear()
    assert cache.plan(65, *NK, back_end=best(9)) == Served(9, "tuned", True, True)
    assert cache.plan(128, *NK, back_end=Untouchable()) == Served(9, "live")
    assert cache.statistics().lazy == 1
    assert [record.getMessage() for record in caplog.records] == [
        f'nvfp4 {{"lazy": {{"m": 65, "bucket": 128, "n": {NK[0]}, "k": {NK[1]}}}}}'
    ]
    for _ in range(3):
        assert verdict(lambda: cache.plan(300, *NK, capturing=True))[0] == "capture-miss"
    assert cache.statistics().lazy == 4
    assert len(caplog.records) == 2


def test_a_miss_before_completion_is_not_lazy() -> None:
    cache = session()
    assert not cache.plan(1, *NK, back_end=best(0)).lazy
    cache.warm_up(8, SHAPES, back_end=best(0))
    assert not cache.plan(100, *NK, back_end=best(0)).lazy
    cache.complete()
    assert cache.plan(200, *NK, back_end=best(0)).lazy
    assert cache.statistics().lazy == 1
    cache.begin_warm_up()
    assert not cache.plan(300, *NK, back_end=best(0)).lazy
    cache.abandon()
    assert cache.plan(600, *NK, back_end=best(0)).lazy
    assert cache.statistics().lazy == 2


def test_measured_rows_never_exceed_what_was_declared() -> None:
    cache = session()
    back_end = best(0)
    cache.warm_up(3000, [NK], back_end=back_end)
    assert [m for m, _, _ in back_end.products] == buckets.profiles(3000)
    assert PlanKey(3072, *NK) in cache.plans()
    back_end.products.clear()
    cache.plan(2600, 16, 16, back_end=back_end)  # its bucket, 3072, is more than was declared
    cache.plan(5000, 16, 16, back_end=back_end)  # more than was declared, and what the caller has
    cache.plan(3, 16, 16, back_end=back_end)
    assert [m for m, _, _ in back_end.products] == [3000, 5000, 4]


def test_in_memory_requests_share_a_plan_exactly_as_after_a_save(
    tmp_path: Path, rng: random.Random
) -> None:
    path = tmp_path / "file"
    cache = session(at(path))
    cache.warm_up(300, [NK], back_end=best(1))
    requests = [rng.randrange(1, 6000) for _ in range(40)]
    for m in requests:
        cache.plan(m, *NK, back_end=best(2))
    cache.complete()
    fresh = session(frozen_at(path))
    fresh.begin_warm_up()
    for m in range(1, 10000):
        before, after = cache.lookup(m, *NK), fresh.lookup(m, *NK)
        assert (before and before.tactic) == (after and after.tactic)


# Capture


def test_a_miss_during_capture_touches_no_device() -> None:
    for variables in ({}, BYPASS):
        cache = session(variables, back_end=Untouchable())
        code, member = verdict(lambda c=cache: c.plan(5, *NK, capturing=True))
        assert (code, member) == ("capture-miss", "5,320,384")
        assert cache.trace() == ()
        assert cache.statistics().tuned == 0


def test_a_miss_during_capture_does_not_wait_for_a_tuning() -> None:
    cache = session()
    slow = Slow({"7": 1})
    owner = Call(cache.plan, 8, *NK, back_end=slow)
    assert slow.begun.wait(LONG)
    assert verdict(lambda: cache.plan(8, *NK, capturing=True))[0] == "capture-miss"
    assert cache.lookup(8, *NK) is None
    assert verdict(cache.install, {PlanKey(8, *NK): 1}, "native") == ("lifecycle", "session")
    assert cache.statistics().loaded == 0
    slow.proceed.set()
    assert owner.outcome().tactic == 7
    assert cache.plan(8, *NK, capturing=True).tactic == 7


# Bypass


def test_bypassed_every_lookup_tunes_and_nothing_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_native(path, {PlanKey(8, *NK): 1})
    before = path.read_bytes(), path.stat()
    cache = session(at(path, **BYPASS))
    for tactic in (4, 5, 4):
        assert cache.plan(8, *NK, back_end=best(tactic)) == Served(tactic, "tuned", True, False)
    assert cache.warm_up(4, [NK], back_end=best(1)).tuned == 3
    assert cache.complete().saved == 0
    assert cache.plan(8, *NK, back_end=best(6)) == Served(6, "tuned", True, False)
    assert cache.install({PlanKey(8, *NK): 2}, "native") == 0
    assert cache.lookup(8, *NK) is None
    found = cache.statistics()
    assert (found.mode, found.path) == ("bypass", None)
    assert (found.loaded, found.tuned, found.saved, found.lazy) == (0, 7, 0, 0)
    assert cache.plans() == {}
    assert (path.read_bytes(), path.stat()) == before


# Faults


def test_all_tactics_failing_leaves_nothing(tmp_path: Path) -> None:
    cache = session(at(tmp_path / "file"))
    failing = BackEnd({"default": "raise"})
    assert verdict(lambda: cache.plan(5, *NK, back_end=failing)) == (
        "no-valid-tactic",
        "5,320,384",
    )
    assert verdict(lambda: cache.warm_up(8, SHAPES, back_end=failing))[0] == "no-valid-tactic"
    assert verdict(cache.complete) == ("lifecycle", "session")
    assert cache.plans() == {}
    assert cache.statistics().tuned == 0
    assert len(cache.trace()) == 32
    assert not list(tmp_path.iterdir())
    assert cache.plan(5, *NK, back_end=best(2)).tactic == 2


def test_an_interrupted_tuning_leaves_nothing() -> None:
    cache = session(profiler=Profiler())
    begun, proceed = threading.Event(), threading.Event()
    interrupted = best(7)

    def interrupt() -> None:
        begun.set()
        assert proceed.wait(LONG)
        raise KeyboardInterrupt

    interrupted.on_timer = interrupt
    owner = Call(cache.plan, 8, *NK, back_end=interrupted)
    assert begun.wait(LONG)
    other = Call(cache.plan, 7, *NK, back_end=best(6))
    proceed.set()
    assert isinstance(owner.outcome(), KeyboardInterrupt)
    found = other.outcome()  # it waited and failed with the owner, or came later and tuned
    assert isinstance(found, TuningError) or found == Served(6, "tuned", True)
    assert cache.plan(8, *NK, back_end=best(6)).tactic == 6


def test_an_interrupt_in_the_middle_of_a_measurement_leaves_the_device_free() -> None:
    class Interrupted:
        def timer(self, m: int, n: int, k: int) -> Any:
            timer: Any = best(1).timer(m, n, k)
            timer.synchronize = self.interrupt
            return timer

        def interrupt(self) -> None:
            raise KeyboardInterrupt

    cache = session()
    with pytest.raises(KeyboardInterrupt):
        cache.plan(8, *NK, back_end=Interrupted())
    with pytest.raises(KeyboardInterrupt):
        cache.warm_up(8, SHAPES, back_end=Interrupted())
    assert cache.plans() == {}
    assert cache.warm_up(8, SHAPES, back_end=best(1)).tuned == 8
    assert cache.complete().failure is None


@pytest.mark.parametrize(
    "shape",
    [
        (1, 0, 16),
        (1, -1, 16),
        (1, 2**31, 16),
        (1, 16, 0),
        (1, 16, 17),
        (1, 16, -16),
        (1, 16, 2**31),
        (2**30 + 1, 16, 16),
        (1, True, 16),
        (1, 16.0, 16),
        ("1", 16, 16),
    ],
)
def test_an_impossible_shape_is_a_callers_mistake(shape: Any) -> None:
    cache = session(back_end=Untouchable())
    with pytest.raises(ValueError, match=r"^[MNK] is .*; give .*\.$"):
        cache.plan(*shape)
    assert cache.statistics().tuned == 0


def test_after_close_everything_rejects() -> None:
    cache = warmed()
    cache.close()
    for call in (
        lambda: cache.plan(1, *NK),
        lambda: cache.lookup(1, *NK),
        cache.plans,
        cache.statistics,
        cache.trace,
        cache.complete,
        cache.abandon,
        cache.begin_warm_up,
        lambda: cache.warm_up(8, SHAPES),
        lambda: cache.install({}, "native"),
        cache.close,
    ):
        assert verdict(call) == ("lifecycle", "session")


# Threads


def test_ready_hits_take_no_lock_of_the_cache(rng: random.Random) -> None:
    cache = session()
    plans = random_plans(rng, 500)
    cache.install(plans, "native")
    locks = [cache._map._lock, cache._counters._lock, cache._profiler._device, cache._lock]
    for lock in locks:
        lock.acquire()
    try:
        hit = Call(lambda: [cache.lookup(*key) for key in plans])
        assert [plan.tactic for plan in hit.outcome()] == list(plans.values())
        key = next(iter(plans))
        assert Call(cache.plan, *key).outcome().tactic == plans[key]
    finally:
        for lock in locks:
            lock.release()


def test_a_foreign_thread_storm_tunes_each_key_once(rng: random.Random) -> None:
    cache = session()
    back_end = best(rng.randrange(32))
    shapes = [(rng.randrange(1, 4000), 16 * rng.randrange(1, 9), 16) for _ in range(60)]
    barrier = threading.Barrier(8)

    def ask(seed: int) -> list[int]:
        own = random.Random(seed)
        barrier.wait(LONG)
        return [
            cache.plan(*shape, back_end=back_end).tactic
            for shape in own.sample(shapes, len(shapes))
        ]

    calls = [Call(ask, rng.randrange(2**32)) for _ in range(8)]
    tactics = {tactic for call in calls for tactic in call.outcome()}
    assert len(tactics) == 1
    assert len(back_end.products) == len(set(back_end.products)) == len(cache.plans())
    assert cache.statistics().tuned == len(back_end.products)


def test_rejections_of_waiters_are_their_own() -> None:
    cache = session()
    barrier = threading.Barrier(6)
    failing = BackEnd({"default": "nan"})

    def ask() -> Any:
        barrier.wait(LONG)
        return cache.plan(8, *NK, back_end=failing)

    errors = [call.outcome() for call in [Call(ask) for _ in range(6)]]
    assert all(isinstance(error, Rejected) for error in errors)
    assert {error.code for error in errors} == {"no-valid-tactic"}
    assert len({id(error) for error in errors}) == 6
