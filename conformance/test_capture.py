"""CAPT: lookups while a graph is being captured."""

import pytest

from pytest_nvfp4.implementations.interface import Rejected
from pytest_nvfp4.suite import contract, requires
from pytest_nvfp4.suite.sessions import SHAPES, fastest

N, K = SHAPES[0]


@contract("CAPT-1")
@requires("plan-map")
@requires("scripted-timer")
def test_hit_during_capture_makes_no_device_call(session):
    opened = session()
    opened.plan(4, N, K, timings=fastest(7))
    trace = opened.trace()
    for _ in range(3):
        hit = opened.plan(4, N, K, capturing=True)  # on a clock that would fail
        assert (hit.tactic, hit.tuned) == (7, False)
    assert opened.trace() == trace


@contract("CAPT-2")
@requires("plan-map")
@requires("scripted-timer")
@pytest.mark.parametrize("ready_before", [False, True])
def test_miss_during_capture_fails_before_any_device_call(session, ready_before):
    opened = session()
    if ready_before:
        opened.plan(1, N, K, timings=fastest(3))
    trace = opened.trace()
    answer = opened.try_plan(4, N, K, timings={"default": 1}, capturing=True)
    assert isinstance(answer, Rejected), "a plan was tuned inside a capture"
    assert answer.code == "capture-miss"
    assert opened.trace() == trace
    assert (4, N, K) not in opened.plans()
    assert opened.plan(4, N, K, timings=fastest(7)).tactic == 7, "the map is still usable"
    assert opened.plan(4, N, K, capturing=True).tactic == 7
