"""The ready map and single tunings, with real threads that synchronize by events."""

import random
import threading
from typing import Any

import pytest
from nvfp4_reference import PlanKey, Rejected, plan_map
from nvfp4_reference.plan_map import Plan, PlanMap, TuningError

from .documents import random_plans, verdict
from .sessions import LONG, Call

KEY, OTHER = PlanKey(1, 16, 16), PlanKey(2, 16, 16)


class Tuning:
    """A tuning that signals its begin and ends on a signal."""

    def __init__(self, result: int | BaseException) -> None:
        self._result = result
        self.begun, self.proceed = threading.Event(), threading.Event()
        self.count = 0

    def __call__(self) -> int:
        self.count += 1
        self.begun.set()
        assert self.proceed.wait(LONG)
        if isinstance(self._result, BaseException):
            raise self._result
        return self._result


class Waiting:
    """Lets a test wait until other threads wait for a flight."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._arrivals = threading.Semaphore(0)
        real = plan_map._shared

        def shared(flight: Any, key: PlanKey) -> Plan:
            self._arrivals.release()
            return real(flight, key)

        monkeypatch.setattr(plan_map, "_shared", shared)

    def arrived(self, number: int) -> None:
        for _ in range(number):
            assert self._arrivals.acquire(timeout=LONG)


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> Waiting:
    return Waiting(monkeypatch)


def never() -> int:
    raise AssertionError("this must not be tuned")


def test_the_first_plan_of_a_shape_stays(rng: random.Random) -> None:
    ready = PlanMap()
    first, second = random_plans(rng, 10), random_plans(rng, 10)
    assert ready.install(first, "import") == 10
    changed = {key: (tactic + 1) % 32 for key, tactic in first.items()}
    assert ready.install({**changed, **second}, "native") == 10
    found = ready.snapshot()
    assert found == {
        **{key: Plan(tactic, "import") for key, tactic in first.items()},
        **{key: Plan(tactic, "native") for key, tactic in second.items()},
    }
    assert list(found) == sorted(found)


def test_a_snapshot_is_a_copy() -> None:
    ready = PlanMap()
    ready.snapshot()[KEY] = Plan(0, "live")
    assert ready.snapshot() == {}


def test_threads_install_each_shape_once(rng: random.Random) -> None:
    ready = PlanMap()
    plans = random_plans(rng, 2000)
    barrier = threading.Barrier(8)

    def install() -> int:
        barrier.wait(LONG)
        return ready.install(plans, "native")

    calls = [Call(install) for _ in range(8)]
    assert sum(call.outcome() for call in calls) == len(plans) == len(ready.ready)


def test_many_threads_and_one_missing_key_are_one_tuning(waiting: Waiting) -> None:
    ready = PlanMap()
    tuning = Tuning(7)
    owner = Call(ready.tune_once, KEY, tuning)
    assert tuning.begun.wait(LONG)
    waiters = [Call(ready.tune_once, KEY, never) for _ in range(8)]
    waiting.arrived(8)
    tuning.proceed.set()
    assert owner.outcome() == (Plan(7, "live"), True)
    assert [waiter.outcome() for waiter in waiters] == [(Plan(7, "live"), False)] * 8
    assert ready.tune_once(KEY, never) == (Plan(7, "live"), False)
    assert tuning.count == 1


def test_a_race_of_many_threads_tunes_once(rng: random.Random) -> None:
    for _ in range(50):
        ready = PlanMap()
        barrier = threading.Barrier(8)
        tuned = []

        def ask(
            ready: PlanMap = ready,
            barrier: threading.Barrier = barrier,
            tuned: list[int] = tuned,
            tactic: int = rng.randrange(32),
        ) -> tuple[Plan, bool]:
            def tune() -> int:
                tuned.append(tactic)
                return tactic

            barrier.wait(LONG)
            return ready.tune_once(KEY, tune)

        outcomes = [call.outcome() for call in [Call(ask) for _ in range(8)]]
        assert len(tuned) == 1
        assert sorted(owner for _, owner in outcomes) == [False] * 7 + [True]
        assert {plan.tactic for plan, _ in outcomes} == set(tuned)


def test_other_keys_do_not_wait_for_a_tuning() -> None:
    ready = PlanMap()
    ready.install({OTHER: 3}, "native")
    tuning = Tuning(7)
    owner = Call(ready.tune_once, KEY, tuning)
    assert tuning.begun.wait(LONG)
    third = PlanKey(4, 16, 16)
    # All of this happens while the tuning is under way, and would never end if it waited for it.
    assert ready.tune_once(OTHER, never)[0].tactic == 3
    assert ready.tune_once(third, lambda: 5) == (Plan(5, "live"), True)
    assert ready.install({PlanKey(8, 16, 16): 1}, "native") == 1
    assert list(ready.snapshot()) == [OTHER, third, PlanKey(8, 16, 16)]
    assert not owner.result
    tuning.proceed.set()
    assert owner.outcome()[0].tactic == 7


def test_a_ready_plan_is_read_while_the_lock_is_held() -> None:
    ready = PlanMap()
    ready.install({KEY: 3}, "native")
    with ready._lock:
        assert Call(ready.ready.get, KEY).outcome() == Plan(3, "native")


@pytest.mark.parametrize(
    "failure",
    [
        Rejected("no-valid-tactic", "1,16,16", "no tactic was valid; repair the device."),
        ValueError("a fault"),
        MemoryError(),
        KeyboardInterrupt(),
        SystemExit(3),
    ],
    ids=lambda failure: type(failure).__name__,
)
def test_a_failed_tuning_fails_all_and_leaves_nothing(
    waiting: Waiting, failure: BaseException
) -> None:
    ready = PlanMap()
    tuning = Tuning(failure)
    owner = Call(ready.tune_once, KEY, tuning)
    assert tuning.begun.wait(LONG)
    waiters = [Call(ready.tune_once, KEY, never) for _ in range(4)]
    waiting.arrived(4)
    tuning.proceed.set()
    assert owner.outcome() is failure
    errors = [waiter.outcome() for waiter in waiters]
    assert len({id(error) for error in [failure, *errors]}) == 5
    for error in errors:
        assert error.__cause__ is failure
        if isinstance(failure, Rejected):
            assert (type(error), error.code) == (Rejected, failure.code)
        else:
            assert isinstance(error, TuningError)
            assert type(failure).__name__ in str(error)
    assert ready.snapshot() == {}
    assert ready.tune_once(KEY, lambda: 9) == (Plan(9, "live"), True)


def test_nothing_is_installed_over_a_running_tuning(rng: random.Random) -> None:
    ready = PlanMap("session-1")
    tuning = Tuning(7)
    owner = Call(ready.tune_once, KEY, tuning)
    assert tuning.begun.wait(LONG)
    plans = {**random_plans(rng, 5), KEY: 1}
    assert verdict(ready.install, plans, "native") == ("lifecycle", "session-1")
    assert ready.snapshot() == {}
    tuning.proceed.set()
    assert owner.outcome()[0].tactic == 7
    assert ready.install(plans, "native") == 5
    assert ready.snapshot()[KEY] == Plan(7, "live")


def test_a_tuning_that_looks_up_a_plan_is_an_error_and_no_deadlock() -> None:
    ready = PlanMap()
    for inner in (KEY, OTHER):
        call = Call(ready.tune_once, KEY, lambda inner=inner: ready.tune_once(inner, lambda: 1))
        error = call.outcome()
        assert isinstance(error, RuntimeError)
        assert "it could wait for itself" in str(error)
        assert ready.snapshot() == {}
    assert ready.tune_once(KEY, lambda: 2)[0].tactic == 2


class Interrupting(dict[PlanKey, Any]):
    """The flights, with an interrupt right after one of the calls."""

    def __init__(self, call: str) -> None:
        super().__init__()
        self._call = call

    def setdefault(self, *arguments: Any) -> Any:
        return self._after("setdefault", super().setdefault(*arguments))

    def get(self, *arguments: Any) -> Any:
        return self._after("get", super().get(*arguments))

    def _after(self, call: str, result: Any) -> Any:
        if call == self._call:
            raise KeyboardInterrupt
        return result


def test_an_interrupt_right_after_registering_leaves_nothing() -> None:
    ready = PlanMap()
    ready._flights = Interrupting("setdefault")
    with pytest.raises(KeyboardInterrupt):
        ready.tune_once(KEY, never)
    assert not ready._flights
    assert not ready._lock.locked()
    ready._flights = {}
    assert Call(ready.tune_once, KEY, lambda: 4).outcome()[0].tactic == 4


def test_a_second_interrupt_during_the_first_still_wakes_the_waiters(waiting: Waiting) -> None:
    ready = PlanMap()
    ready._flights = Interrupting("get")
    tuning = Tuning(KeyboardInterrupt())
    owner = Call(ready.tune_once, KEY, tuning)
    assert tuning.begun.wait(LONG)
    waiter = Call(ready.tune_once, KEY, never)
    waiting.arrived(1)
    tuning.proceed.set()
    assert isinstance(owner.outcome(), KeyboardInterrupt)
    assert waiter.outcome() is not None
    assert ready.snapshot() == {}
