"""FRSH: what holds from one process to the next."""

import pytest

from pytest_nvfp4.implementations.transports import JSON_LINES
from pytest_nvfp4.suite import contract, over, requires
from pytest_nvfp4.suite.sessions import (
    DIRECT_SF,
    FROZEN,
    NO_CLOCK,
    full_map,
)

RUNS = 6
ARMS = [{DIRECT_SF: value} for value in "101010"]


def frozen_runs(nvfp4, arms, seed=None):
    """Run fresh processes on one frozen file: what each of them served and counted.

    With a seed, also the output of each plan's product, its scales written as the arm says.
    """
    nvfp4.write_cache_file(full_map())
    seen = []
    for variables in arms:
        process = nvfp4.launch(variables=variables)
        opened = nvfp4.session(by=process, **{FROZEN: "1"} | variables)
        opened.warm_up(timings=NO_CLOCK)
        opened.complete()
        served = [opened.plan(*key).tactic for key in full_map()]
        stats = opened.stats()
        direct = variables.get(DIRECT_SF) != "0"
        outputs = [
            process.gemm(*key, tactic=tactic, seed=seed, direct_sf=direct).output
            for key, tactic in zip(full_map(), served, strict=True)
            if seed is not None
        ]
        counts = (stats.tuned, stats.rejected, stats.saved, stats.lazy)
        seen.append((opened.plans().digest, served, counts, outputs))
    return seen


def all_alike(seen):
    served = list(full_map().values())
    outputs = seen[0][-1]
    assert seen == [(full_map().digest, served, (0, 0, 0, 0), outputs)] * len(seen)


@contract("FRSH-1")
@over(JSON_LINES)
@requires("frozen")
def test_six_fresh_processes_serve_one_map(nvfp4):
    all_alike(frozen_runs(nvfp4, [{}] * RUNS))


@contract("FRSH-1")
@over(JSON_LINES)
@requires("frozen")
@requires("gemm")
@requires("device")
def test_six_fresh_processes_compute_the_same_bytes(nvfp4):
    all_alike(frozen_runs(nvfp4, [{}] * RUNS, seed=nvfp4.rng.randrange(2**31)))


@contract("FRSH-2")
@over(JSON_LINES)
@requires("frozen")
def test_two_arms_in_alternating_order_serve_one_map(nvfp4):
    all_alike(frozen_runs(nvfp4, ARMS))


@contract("FRSH-2")
@over(JSON_LINES)
@requires("frozen")
@requires("gemm")
@requires("device")
def test_two_arms_in_alternating_order_compute_the_same_bytes(nvfp4):
    all_alike(frozen_runs(nvfp4, ARMS, seed=nvfp4.rng.randrange(2**31)))


@contract("FRSH-3")
@over(JSON_LINES)
@requires("warm-up")
@pytest.mark.parametrize("scripted", [True, False], ids=["scripted clock", "real clock"])
def test_second_process_tunes_nothing(nvfp4, scripted):
    if not scripted and "gemm" not in nvfp4.description.capabilities:
        pytest.skip("needs an operator to measure (capability gemm)")
    clock = {"default": 100, str(nvfp4.rng.randrange(32)): 10}
    first = nvfp4.session(by=nvfp4.launch())
    answer = first.subject.warm_up(first.name, 4, [(64, 64)], clock if scripted else None)
    assert getattr(answer, "tuned", answer) == 3
    first.saved()
    second = nvfp4.session(by=nvfp4.launch())
    done = second.warm_up(4, [(64, 64)], timings=NO_CLOCK)
    assert (done.loaded, done.tuned) == (3, 0)
    assert second.plans() == first.plans()
