"""CAPT: lookups while a graph is being captured."""

import pytest

from pytest_nvfp4 import oracle
from pytest_nvfp4.implementations.messages import Rejected
from pytest_nvfp4.suite import contract, requires
from pytest_nvfp4.suite.sessions import SHAPES, fastest

N, K = SHAPES[0]
PRODUCTS = [(1, 64, 64), (17, 48, 288), (130, 80, 160)]
"""(M, N, K) that fill their tiles and that do not; any GPU takes a K that is a multiple of 32."""


def scaled_down(key):
    """A product with the proportions of a production engine's, small enough for a test."""
    return min(key.m, 64), key.n // 32, key.k // 32 // 32 * 32


@contract("CAPT-1")
@requires("plan-map")
@requires("scripted-timer")
def test_hit_during_capture_makes_no_device_call(nvfp4):
    opened = nvfp4.session()
    opened.plan(4, N, K, timings=fastest(7))
    trace = opened.trace()
    for _ in range(3):
        hit = opened.plan(4, N, K, capturing=True)  # on a clock that would fail
        assert (hit.tactic, hit.tuned) == (7, False)
    assert opened.trace() == trace


@contract("CAPT-1")
@requires("plan-map")
@requires("device")
def test_hit_during_capture_leaves_the_device_alone(nvfp4):
    opened = nvfp4.session()
    tuned = opened.plan(4, N, K, timings=None)
    before = opened.trace(), opened.times()
    for _ in range(3):
        hit = opened.plan(4, N, K, timings=None, capturing=True)
        assert (hit.tactic, hit.tuned) == (tuned.tactic, False)
    assert (opened.trace(), opened.times()) == before


@contract("CAPT-2")
@requires("plan-map")
@requires("scripted-timer")
@pytest.mark.parametrize("ready_before", [False, True])
def test_miss_during_capture_fails_before_any_device_call(nvfp4, ready_before):
    opened = nvfp4.session()
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


def replays(subject, product, tactic, seed):
    """Hold a replayed product against the eager one, byte for byte."""
    eager = subject.gemm(*product, tactic=tactic, seed=seed)
    replayed = subject.replay(*product, tactic=tactic, seed=seed)
    about = f"tactic {tactic} for M, N, K = {product} and seed {seed}"
    assert replayed.output == eager.output, f"the replayed output differs: {about}"
    assert replayed.guard == eager.guard, f"the replay wrote behind the output: {about}"
    assert replayed == eager, f"the replay's operands differ: {about}"


@contract("CAPT-3")
@requires("gemm")
@pytest.mark.parametrize("product", PRODUCTS, ids=str)
def test_replay_of_every_tactic_gives_the_bytes_of_the_eager_call(nvfp4, product):
    for tactic in range(32):
        replays(nvfp4.subject, product, tactic, nvfp4.rng.randrange(2**31))


@contract("CAPT-3")
@requires("gemm")
def test_replay_of_every_binding_plan_gives_the_bytes_of_the_eager_call(nvfp4):
    for key, tactic in oracle.load().plans.items():
        replays(nvfp4.subject, scaled_down(key), tactic, nvfp4.rng.randrange(2**31))
