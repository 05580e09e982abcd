"""Overlapping calls: nested tunings, warm-ups that overlap, and loads during both."""

import pytest
from nvfp4_reference.concurrency import plan_concurrently
from nvfp4_reference.errors import NestedTuningError, Rejected
from nvfp4_reference.profiling import Profiler
from nvfp4_reference.scripted_timer import ScriptedTimer

from .sessions import NK, SHAPES, BackEnd, Call, Slow, best, session


class AsksBack(BackEnd):
    """A back end whose timer asks a session for another plan while it runs."""

    def __init__(self, asked: object) -> None:
        super().__init__({})
        self._asked = asked

    def timer(self, m: int, n: int, k: int) -> ScriptedTimer:
        timer, asked = super().timer(m, n, k), self._asked

        class Nested(ScriptedTimer):
            def run(self, tactic: int) -> None:
                asked.plan(64, *NK, back_end=best(1))  # type: ignore[attr-defined]

        return Nested(timer._timings)


@pytest.mark.parametrize("environment", [{}, {"VT_FP4_PLAN_CACHE": "0"}], ids=["kept", "bypassed"])
@pytest.mark.parametrize("same", [True, False], ids=["the same session", "another session"])
def test_a_tuning_within_a_tuning_is_refused_and_waits_for_nobody(
    environment: dict[str, str], same: bool
) -> None:
    profiler = Profiler()
    one = session(environment, profiler=profiler)
    other = one if same else session(environment, profiler=profiler)
    with pytest.raises(NestedTuningError, match="look up nothing"):
        one.plan(8, *NK, back_end=AsksBack(other))
    assert one.plans() == {}
    assert one.plan(8, *NK, back_end=best(3)).tactic == 3
    assert other.plan(64, *NK, back_end=best(4)).tactic == 4


def test_an_abandoned_pass_does_not_complete_the_next_warm_up() -> None:
    found = session()
    blocking = Slow()
    first = Call(found.warm_up, 8, SHAPES, back_end=blocking)
    assert blocking.begun.wait(60)
    found.abandon()
    found.begin_warm_up()
    blocking.proceed.set()
    overtaken = first.outcome()
    assert isinstance(overtaken, Rejected)
    assert "abandoned" in str(overtaken)
    with pytest.raises(Rejected) as caught:
        found.complete()
    assert caught.value.code == "lifecycle"
    found.maximum_pass(8, SHAPES, back_end=best(1))
    found.complete()


def test_a_load_beside_requests_that_tune_nothing_goes_on() -> None:
    found = session()
    found.plan(8, *NK, back_end=best(3))
    loads: list[int] = []
    answers = plan_concurrently(found, [(8, *NK)], best(1), load=lambda: loads.append(1))
    assert (answers.tunings, answers.load, loads) == (0, None, [1])
    with pytest.raises(ValueError, match="K is 17"):
        plan_concurrently(found, [(8, 320, 17)], best(1), load=lambda: loads.append(2))
    assert loads == [1, 2]
