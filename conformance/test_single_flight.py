"""FLIT: one tuning for many requests that come at once."""

import pytest

from pytest_nvfp4.implementations.messages import Planned, Rejected
from pytest_nvfp4.plans import PlanKey, PlanMap
from pytest_nvfp4.suite import contract, requires
from pytest_nvfp4.suite.sessions import NO_CLOCK, SHAPES, fastest

N, K = SHAPES[0]


def tactics(answer):
    return [p.tactic if isinstance(p, Planned) else p.code for p in answer.plans]


@contract("FLIT-1")
@pytest.mark.parametrize("threads", [2, 16])
def test_many_threads_one_missing_key(nvfp4, threads):
    opened = nvfp4.session()
    tactic = nvfp4.rng.randrange(32)
    answer = opened.plan_many(
        [(nvfp4.rng.choice((3, 4)), N, K) for _ in range(threads)], fastest(tactic)
    )
    assert answer.tunings == 1
    assert tactics(answer) == [tactic] * threads
    assert [p.tuned for p in answer.plans].count(True) == 1
    assert opened.stats().tuned == 1


@contract("FLIT-2")
def test_ready_hits_are_served_while_a_tuning_is_under_way(nvfp4):
    opened = nvfp4.session()
    opened.plan(4, N, K, timings=fastest(5))
    # The clock of the missing ones stands still until the ready ones have been answered.
    answer = opened.plan_many([(8, N, K), (4, N, K), (16, N, K), (4, N, K)], fastest(9))
    assert tactics(answer) == [9, 5, 9, 5]
    assert answer.tunings == 2


@contract("FLIT-2")
def test_different_keys_are_tuned_each_once(nvfp4):
    keys = [PlanKey(2**power, N, K) for power in range(8)]
    requests = keys * 2
    nvfp4.rng.shuffle(requests)
    opened = nvfp4.session()
    answer = opened.plan_many(requests, fastest(3))
    assert answer.tunings == len(keys)
    assert tactics(answer) == [3] * len(requests)


@contract("FLIT-3")
def test_failed_tuning_fails_every_waiter_and_leaves_nothing(nvfp4):
    opened = nvfp4.session()
    answer = opened.plan_many([(4, N, K)] * 8, NO_CLOCK)
    assert tactics(answer) == ["no-valid-tactic"] * 8
    assert answer.tunings == 1, "the waiters of a failed tuning tuned again"
    assert opened.plans() == {}
    assert opened.stats().tuned == 0
    assert opened.plan(4, N, K, timings=fastest(2)).tuned, "the next request tunes again"


@contract("FLIT-4")
@requires("own-document")
def test_loading_over_a_running_tuning_is_a_lifecycle_error(nvfp4):
    other = PlanKey(1, N, K)
    path = nvfp4.own.write(nvfp4.own.document(PlanMap({PlanKey(4, N, K): 30, other: 31})))
    opened = nvfp4.session()
    answer = opened.plan_many([(4, N, K)] * 2, fastest(2), load=path)
    assert isinstance(answer.load, Rejected), "the document was installed over a running tuning"
    assert answer.load.code == "lifecycle"
    assert tactics(answer) == [2, 2]
    assert other not in opened.plans(), "a part of the document was installed"


@contract("FLIT-4")
@requires("own-document")
def test_loading_beside_a_running_tuning_is_fine(nvfp4):
    other = PlanKey(1, N, K)
    path = nvfp4.own.write(nvfp4.own.document(PlanMap({other: 31})))
    opened = nvfp4.session()
    answer = opened.plan_many([(4, N, K)] * 2, fastest(2), load=path)
    assert answer.load is None, f"the load was refused: {answer.load.message}"
    assert opened.plans() == {other: 31, (4, N, K): 2}


@contract("FLIT-5")
def test_snapshot_is_sorted_and_holds_ready_plans_only(nvfp4):
    opened = nvfp4.session()
    keys = [
        PlanKey(2 ** nvfp4.rng.randrange(9), N + 16 * nvfp4.rng.randrange(3), K) for _ in range(12)
    ]
    for key in keys:
        opened.plan(*key, timings=fastest(nvfp4.rng.randrange(32)))
    opened.try_plan(512, N, K, timings=NO_CLOCK)
    _, rows = nvfp4.subject.transport.call("plans", {"session": opened.name})
    assert [(r["m"], r["n"], r["k"]) for r in rows] == sorted(set(keys))
