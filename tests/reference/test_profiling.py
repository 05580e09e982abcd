"""Profiling: the sequence, the choice, and faulty timers."""

import math
import random
import threading
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest
from nvfp4_reference.errors import DeviceError
from nvfp4_reference.profiling import Profiler, Step
from nvfp4_reference.scripted_timer import Script

from .documents import verdict
from .sessions import LONG, Call

SHAPE = (16, 320, 384)


class Recorder:
    """A timer that records its calls, with a fixed time for each tactic."""

    def __init__(self, times: dict[int, float | Fraction], fail: dict[str, Any] | None = None):
        self._times, self._fail = times, fail or {}
        self._last = 0
        self.calls: list[Any] = []

    def _note(self, call: str, argument: int | None = None) -> None:
        self.calls.append((call, argument))
        if call in self._fail and (argument is None or argument in self._fail[call][0]):
            raise self._fail[call][1]

    def run(self, tactic: int) -> None:
        self._last = tactic
        self._note("run", tactic)

    def synchronize(self) -> None:
        self._note("synchronize")

    def delay(self, microseconds: int) -> None:
        self._note("delay", microseconds)

    def event(self) -> int:
        self._note("event")
        return len(self.calls)

    def elapsed_microseconds(self, start: int, end: int) -> float | Fraction:
        runs = self.calls[start : end - 1]
        assert runs == [("run", self._last)] * 10
        return 10 * self._times.get(self._last, 100.0)


def select(timer: Any, delay: int = 5000, tactics: Any = range(32)) -> tuple[int, list[Step]]:
    trace: list[Step] = []
    return Profiler().select(timer, SHAPE, delay, trace, tactics).tactic, trace


def sequence(tactic: int, delay: int) -> Iterator[tuple[str, int | None]]:
    yield from [("run", tactic)] * 3
    yield ("synchronize", None)
    if delay:
        yield ("delay", delay)
    yield ("event", None)
    yield from [("run", tactic)] * 10
    yield ("event", None)
    yield ("synchronize", None)


@pytest.mark.parametrize("delay", [5000, 1, 1_000_000, 0])
def test_the_exact_sequence_and_its_trace(delay: int) -> None:
    timer = Recorder({})
    _, trace = select(timer, delay)
    expected = [call for tactic in range(32) for call in sequence(tactic, delay)]
    assert timer.calls == expected
    assert [(s.step, s.tactic if s.step == "run" else s.microseconds) for s in trace] == expected
    assert all(s.tactic is None for s in trace if s.step != "run")
    assert all(s.microseconds is None for s in trace if s.step != "delay")


def test_the_least_time_wins(rng: random.Random) -> None:
    times = {tactic: rng.uniform(1, 1000) for tactic in range(32)}
    assert select(Recorder({**times}))[0] == min(times, key=lambda tactic: times[tactic])


def test_of_equal_times_the_lower_id_wins(rng: random.Random) -> None:
    winners = sorted(rng.sample(range(32), 3))
    assert select(Recorder(dict.fromkeys(winners, 5.0)))[0] == winners[0]
    assert select(Recorder(dict.fromkeys(winners, 5.0)), tactics=range(31, -1, -1))[0] == winners[0]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, -1.0, -1e-300])
def test_a_time_that_is_none_never_wins(bad: float) -> None:
    assert select(Recorder({0: bad, 7: 50.0, 8: bad}))[0] == 7


def test_zero_is_a_time() -> None:
    assert select(Recorder({3: 0.0, 5: -0.0, 7: 1e-9}))[0] == 3


@pytest.mark.parametrize(
    "fault", [ValueError("bad"), RuntimeError(), OSError(5, "io"), StopIteration()]
)
@pytest.mark.parametrize("call", ["run"])
def test_a_tactic_that_raises_stops_nobody(fault: Exception, call: str) -> None:
    timer = Recorder({1: 1.0, 9: 2.0}, {call: ({0, 1, 31}, fault)})
    winner, trace = select(timer)
    assert winner == 9
    assert [step.tactic for step in trace if step.tactic in {0, 1, 31}] == [0, 1, 31]


def test_what_is_no_number_is_no_time() -> None:
    timer = Recorder({0: "5", 1: None, 4: 7.0})  # type: ignore[dict-item]
    timer.elapsed_microseconds = lambda start, end: timer._times.get(timer._last, 90.0)  # type: ignore[method-assign]
    assert select(timer)[0] == 4


@pytest.mark.parametrize("call", ["run", "synchronize", "delay", "event"])
@pytest.mark.parametrize(
    "fault", [MemoryError(), DeviceError("gone"), KeyboardInterrupt(), SystemExit(1)]
)
def test_what_is_wrong_with_the_process_ends_the_tuning(call: str, fault: BaseException) -> None:
    profiler = Profiler()
    trace: list[Step] = []
    with pytest.raises(type(fault)):
        profiler.select(Recorder({}, {call: (range(9999), fault)}), SHAPE, 5000, trace)
    assert trace[-1].step == call
    assert profiler.select(Recorder({5: 1.0}), SHAPE, 5000, trace).tactic == 5  # no lock is left


@pytest.mark.parametrize("call", ["run", "synchronize", "delay", "event"])
def test_all_failing_is_a_rejection(call: str) -> None:
    timer = Recorder({}, {call: (range(9999), RuntimeError("no device"))})
    with pytest.raises(Exception, match=r"32 tactics .* RuntimeError \(no device\)"):
        select(timer)
    assert verdict(select, timer) == ("no-valid-tactic", "16,320,384")
    assert verdict(select, Recorder(dict.fromkeys(range(32), math.nan)))[0] == "no-valid-tactic"


def test_times_that_differ_in_the_last_bit_differ(rng: random.Random) -> None:
    for _ in range(20):
        more = rng.uniform(1, 1000)
        less = math.nextafter(more, 0)
        script = Script.from_json({"2": more, "9": less, "default": 1e308})
        assert select(script.timer(*SHAPE))[0] == 9


def test_one_device_measures_one_product_at_a_time() -> None:
    profiler = Profiler()
    first, second = Recorder({1: 1.0}), Recorder({2: 1.0})
    begun, proceed = threading.Event(), threading.Event()
    real = first.synchronize

    def synchronize() -> None:
        begun.set()
        assert proceed.wait(LONG)
        real()

    first.synchronize = synchronize  # type: ignore[method-assign]
    one = Call(profiler.select, first, SHAPE, 0, [])
    assert begun.wait(LONG)
    asked = threading.Event()

    def other() -> Any:
        asked.set()
        return profiler.select(second, SHAPE, 0, [])

    two = Call(other)
    assert asked.wait(LONG)
    assert not second.calls
    # Another device measures at the same moment.
    assert Profiler().select(Recorder({3: 1.0}), SHAPE, 0, []).tactic == 3
    assert not second.calls
    proceed.set()
    assert one.outcome().tactic == 1
    assert two.outcome().tactic == 2
