"""PROF: how a tactic is measured, and which one is chosen."""

import time

import pytest

from pytest_nvfp4.implementations.messages import Rejected, Step
from pytest_nvfp4.model import judge_native
from pytest_nvfp4.suite import contract, requires
from pytest_nvfp4.suite.sessions import DELAY, NO_CLOCK, SHAPES, fastest

N, K = SHAPES[0]
GUARD = b"\xa5"  # what an adapter fills the memory behind the output with
INVALID = ("raise", "nan", "inf", "-inf", -1, -1e-9)


def measurement(tactic, delay):
    """The steps by which one tactic is measured."""
    pause = [Step("delay", None, delay)] if delay else []
    run = Step("run", tactic)
    return [
        *[run] * 3,
        Step("synchronize"),
        *pause,
        Step("event"),
        *[run] * 10,
        Step("event"),
        Step("synchronize"),
    ]


def measured(opened):
    """The steps of the last tuning, less runs of what is no tactic, such as a first preparation."""
    return [s for s in opened.trace() if s.step != "run" or s.tactic in range(32)]


def tuned_for_real(opened, delay):
    """Tune on the real clock: the plan, and the mean time of each tactic.

    What the record says took at least as long as it says, or it did not happen.
    """
    start = time.perf_counter()
    plan = opened.plan(4, N, K, timings=None)
    lasted = (time.perf_counter() - start) * 1e6
    times = opened.times()
    recorded = sum(10 * mean + delay for mean in times.values())
    assert times, "no tactic has a time"
    assert measured(opened) == [s for t in range(32) for s in measurement(t, delay)]
    assert lasted >= recorded, f"{recorded:.0f} µs of work are recorded, done in {lasted:.0f} µs"
    return plan, times


@contract("PROF-1")
def test_exact_sequence_for_every_tactic(nvfp4):
    opened = nvfp4.session()
    opened.plan(4, N, K, timings=fastest(1))
    assert measured(opened) == [s for t in range(32) for s in measurement(t, 5000)]


@contract("PROF-1")
def test_nothing_but_tactics_is_run(nvfp4):
    opened = nvfp4.session()
    opened.plan(4, N, K, timings=fastest(1))
    assert {step.tactic for step in opened.trace() if step.step == "run"} == set(range(32))


@contract("PROF-1")
@requires("device")
def test_exact_sequence_is_what_a_device_did(nvfp4):
    _, times = tuned_for_real(nvfp4.session(), 5000)
    assert set(times) <= set(range(32))


@contract("PROF-2")
def test_least_time_wins(nvfp4):
    opened = nvfp4.session()
    for power in range(8):
        times = {str(tactic): nvfp4.rng.uniform(1, 1000) for tactic in range(32)}
        best = min(times, key=times.get)
        assert opened.plan(2**power, N, K, timings=times).tactic == int(best)


@contract("PROF-2")
def test_equal_times_go_to_the_lower_id(nvfp4):
    opened = nvfp4.session()
    for power in range(8):
        tied = sorted(nvfp4.rng.sample(range(32), 3))
        times = {"default": 50} | {str(tactic): 7.25 for tactic in tied}
        assert opened.plan(2**power, N, K, timings=times).tactic == tied[0]
    assert opened.plan(512, N, K, timings={"default": 3}).tactic == 0


@contract("PROF-2")
def test_least_difference_counts(nvfp4):
    times = {"default": 10, "30": 9.999999999}
    assert nvfp4.session().plan(1, N, K, timings=times).tactic == 30


@contract("PROF-2")
@requires("device")
def test_least_time_on_a_device_wins(nvfp4):
    opened = nvfp4.session(**{DELAY: "0"})
    for m in (1, 2, 4, 8):
        plan = opened.plan(m, N, K, timings=None)
        times = opened.times()
        assert plan.tactic == min(times, key=lambda tactic: (times[tactic], tactic))


@contract("PROF-3")
@pytest.mark.parametrize("value", INVALID, ids=str)
def test_invalid_time_never_wins_and_stops_nobody(nvfp4, value):
    good, *bad = nvfp4.rng.sample(range(32), 8)
    opened = nvfp4.session()
    times = {"default": 100, str(good): 99} | {str(tactic): value for tactic in bad}
    assert opened.plan(4, N, K, timings=times).tactic == good
    tried = {step.tactic for step in opened.trace() if step.step == "run"}
    assert tried >= set(range(32)), "not every tactic was tried"


@contract("PROF-3")
@pytest.mark.parametrize("value", INVALID, ids=str)
def test_single_valid_tactic_wins(nvfp4, value):
    only = nvfp4.rng.randrange(32)
    times = {"default": value, str(only): 1e9}
    assert nvfp4.session().plan(4, N, K, timings=times).tactic == only


@contract("PROF-4")
@pytest.mark.parametrize("value", INVALID, ids=str)
def test_no_valid_tactic_is_an_error_and_nothing_is_kept(nvfp4, value):
    opened = nvfp4.session()
    answer = opened.try_plan(4, N, K, timings={"default": value})
    assert isinstance(answer, Rejected), f"tactic {answer.tactic} was chosen without a valid time"
    assert answer.code == "no-valid-tactic"
    assert opened.plans() == {}
    assert opened.stats().tuned == 0


@contract("PROF-4")
@requires("warm-up")
def test_nothing_is_saved_where_no_tactic_is_valid(nvfp4):
    opened = nvfp4.session()
    assert isinstance(opened.try_warm_up(timings=NO_CLOCK), Rejected)
    opened.subject.complete(opened.name)
    assert not nvfp4.cache_file.exists()


@contract("PROF-5")
@pytest.mark.parametrize("delay", [0, 1, 1000, 1_000_000])
def test_configured_delay_replaces_the_default(nvfp4, delay):
    opened = nvfp4.session(**{DELAY: str(delay)})
    opened.plan(4, N, K, timings=fastest(1))
    assert measured(opened) == [s for t in range(32) for s in measurement(t, delay)]


@contract("PROF-5")
@requires("device")
@pytest.mark.parametrize("delay", [0, 20_000])
def test_configured_delay_is_kept_by_a_device(nvfp4, delay):
    plan, times = tuned_for_real(nvfp4.session(**{DELAY: str(delay)}), delay)
    assert plan.tactic in times


@contract("PROF-5")
@requires("warm-up")
@requires("native-document")
@pytest.mark.parametrize("delay", [0, 1000])
def test_configured_delay_is_part_of_the_environment(nvfp4, delay):
    opened = nvfp4.session(**{DELAY: str(delay)})
    opened.warm_up()
    opened.saved()
    environment = dict(nvfp4.description.native_metadata) | {"delay_microseconds": delay}
    assert judge_native(nvfp4.cache_file.read_bytes(), environment).accepted
    other = nvfp4.session()
    answer = other.warm_up()
    assert answer.loaded == 0, "plans that were tuned under another delay were loaded"
    assert [(r.code, r.member) for r in answer.rejected] == [
        ("foreign-environment", "_metadata.delay_microseconds")
    ]


@contract("PROF-6")
@requires("gemm")
def test_running_every_tactic_changes_neither_operands_nor_rows_beyond_m(nvfp4):
    m, seed = nvfp4.rng.randrange(1, 20), nvfp4.rng.randrange(2**31)
    products = [nvfp4.subject.gemm(m, 64, 64, tactic=tactic, seed=seed) for tactic in range(32)]
    assert {(p.a, p.b) for p in products} == {(products[0].a, products[0].b)}, "operands changed"
    assert {p.a.rows for p in products} == {m}
    for product in products:
        assert product.guard == GUARD * len(product.guard) != b"", "memory beyond row M was written"


@contract("PROF-6")
@requires("gemm")
@requires("device")
@pytest.mark.parametrize("m", [1, 17, 130])
def test_no_tile_of_a_device_reaches_beyond_m(nvfp4, m):
    seed = nvfp4.rng.randrange(2**31)
    products = [nvfp4.subject.gemm(m, 96, 128, tactic=tactic, seed=seed) for tactic in range(32)]
    first = products[0]
    for tactic, product in enumerate(products):
        assert (product.a, product.b) == (first.a, first.b), f"tactic {tactic} changed operands"
        assert product.guard == GUARD * len(product.guard) != b"", f"tactic {tactic} wrote beyond M"
