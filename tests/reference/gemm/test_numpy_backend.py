"""The NumPy back end, and GEMM-2 and GEMM-3 over processes."""

import base64
import json
import os
import random
import subprocess
import sys
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from nvfp4_reference.gemm import (
    Backend,
    NumpyBackend,
    Problem,
    gemm_case,
    numpy_backend,
    quantize,
)
from nvfp4_reference.gemm.numpy_backend import NumpyTimer
from nvfp4_reference.gemm.random_operands import random_operands
from nvfp4_reference.profiling import Profiler, Timer

BACKEND: Backend[Problem] = NumpyBackend()

CASES = """
import json, sys
from nvfp4_reference.gemm import gemm_case
(m, n, k, seed), cases = json.loads(sys.argv[1])
print(json.dumps([
    gemm_case(m, n, k, tactic=tactic, seed=seed, direct_sf=direct_sf)
    for tactic, direct_sf in cases
]))
"""

EVERY_CASE = [(tactic, direct_sf) for tactic in range(32) for direct_sf in (True, False)]
EVERY_TACTIC = [case for case in EVERY_CASE if case[0] == 0 or case[1] == (case[0] % 2 == 0)]
"""Both ways to quantize for tactic 0, and one of them in turn for the others."""


def in_a_fresh_process(arguments: Any, threads: int) -> Any:
    names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", CASES, json.dumps(arguments)],
        env={**os.environ, **dict.fromkeys(names, str(threads))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_replay_is_the_launch_that_was_captured(
    rng: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    tactic, seed = rng.randrange(32), rng.randrange(99)
    print(tactic, seed)
    eager, replayed = (
        gemm_case(3, 48, 64, tactic=tactic, seed=seed, direct_sf=True, replayed=replayed)
        for replayed in (False, True)
    )
    assert replayed == eager
    monkeypatch.setattr(NumpyBackend, "capture", lambda self, launch: lambda: None)
    lost = gemm_case(3, 48, 64, tactic=tactic, seed=seed, direct_sf=True, replayed=True)
    output = np.frombuffer(base64.b64decode(lost["output"]), ml_dtypes.bfloat16)
    assert np.isnan(output.astype(np.float32)).all(), "what was there before is not a result"


@pytest.mark.parametrize(
    ("cases", "threads"),
    [
        pytest.param(EVERY_TACTIC, (1, 3), id="every tactic"),
        pytest.param(EVERY_CASE, (1, 2, 5), id="every case", marks=pytest.mark.wide),
    ],
)
def test_processes_and_threads_do_not_change_a_byte(
    rng: random.Random, cases: list[tuple[int, bool]], threads: tuple[int, ...]
) -> None:
    rows = 200 if cases is EVERY_CASE else 40
    m, n, k = rng.randint(1, rows), rng.randint(200, 200 + rows), 16 * rng.randint(20, 24)
    seed = rng.randrange(99)
    print(m, n, k, seed)
    here = {
        (tactic, direct_sf): gemm_case(m, n, k, tactic=tactic, seed=seed, direct_sf=direct_sf)
        for tactic, direct_sf in cases
    }
    for number in threads:
        assert in_a_fresh_process([(m, n, k, seed), cases], number) == list(here.values())
    assert len({case["a"]["swizzled"] for case in here.values()}) == 1
    for tactic, direct_sf in cases:
        composed = here.get((tactic, False), here[tactic, direct_sf])
        assert here[tactic, direct_sf] == composed, "direct and composed scales differ"


def test_a_case_depends_on_its_seed() -> None:
    one, other = (gemm_case(3, 32, 64, tactic=0, seed=seed, direct_sf=True) for seed in (1, 2))
    assert one["output"] != other["output"]
    assert one["a"]["scales"] != other["a"]["scales"]


def test_what_a_case_shows() -> None:
    prepared = BACKEND.prepare(3, 32, 64, 1)
    BACKEND.run_tactic(7, prepared)
    case = gemm_case(3, 32, 64, tactic=7, seed=1, direct_sf=True)

    def data(text: str) -> bytes:
        return base64.b64decode(text)

    assert data(case["output"]) == prepared.out.tobytes()
    assert data(case["a"]["packed"]) == prepared.a.values.tobytes()
    assert data(case["b"]["swizzled"]) == prepared.b.scales.tobytes()
    assert data(case["b"]["scales"]) == prepared.b.linear_scales().tobytes()
    assert case["alpha"] == prepared.alpha
    assert set(data(case["guard"])) == {0xA5}


def test_a_problem_s_output_is_nan_until_it_is_run() -> None:
    prepared = BACKEND.prepare(5, 33, 48, 1)
    assert np.isnan(BACKEND.output(prepared).astype(np.float32)).all()
    BACKEND.run_tactic(3, prepared)
    found = BACKEND.output(prepared)
    assert np.isfinite(found.astype(np.float32)).all()
    assert str(found.dtype) == "bfloat16"
    prepared.out[...] = 0
    assert found.astype(np.float32).any(), "the output is not a copy"


def test_prepared_block_scales_reach_over_e4m3() -> None:
    scales = BACKEND.prepare(64, 64, 1024, 3).a.linear_scales()
    assert scales.min() < 0x10
    assert scales.max() == 0x7E
    assert np.unique(scales).size > 64


def test_the_first_block_of_a_row_keeps_its_size(rng: random.Random) -> None:
    operands = random_operands(50, 60, 32, rng.randrange(2**32))
    for operand in operands:
        assert np.abs(operand[:, :16]).max(axis=1).min() > 0.1


@pytest.mark.parametrize("direct_sf", [True, False])
def test_both_operands_are_quantized_the_asked_way(
    direct_sf: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    def recording(*arguments: Any, **options: Any) -> Any:
        asked.append(options["direct"])
        return quantize(*arguments, **options)

    monkeypatch.setattr(numpy_backend, "quantize", recording)
    gemm_case(2, 32, 48, tactic=0, seed=0, direct_sf=direct_sf)
    assert asked == [direct_sf, direct_sf]


def test_the_weight_does_not_depend_on_m() -> None:
    small, large = BACKEND.prepare(1, 32, 48, 5), BACKEND.prepare(9, 32, 48, 5)
    assert small.b.values.tobytes() == large.b.values.tobytes()


def test_quantize_is_the_quantizer(numbers: np.random.Generator) -> None:
    matrix = numbers.standard_normal((3, 32)).astype(np.float32)
    for direct in (True, False):
        found = BACKEND.quantize(matrix, global_scale=2.0, direct=direct)
        expected = quantize(matrix, global_scale=2.0)
        assert found.values.tobytes() == expected.values.tobytes()
        assert found.scales.tobytes() == expected.scales.tobytes()


def test_the_timer_runs_and_measures() -> None:
    timer: Timer[Any] = BACKEND.timer(4, 32, 48)
    start = timer.event()
    timer.delay(5000)
    timer.run(31)
    timer.synchronize()
    assert timer.elapsed_microseconds(start, timer.event()) > 0
    assert timer.elapsed_microseconds(1_000, 3_500) == 2.5
    with pytest.raises(ValueError, match="tactic 32 does not exist"):
        timer.run(32)


def test_nothing_is_captured_on_a_cpu() -> None:
    assert BACKEND.name == "numpy"
    assert BACKEND.available()
    assert not BACKEND.capturing()
    prepared = BACKEND.prepare(4, 32, 48, 0)
    replay = BACKEND.capture(lambda: BACKEND.run_tactic(2, prepared))
    replay()
    first = BACKEND.output(prepared).tobytes()
    prepared.out[...] = 0
    replay()
    assert BACKEND.output(prepared).tobytes() == first


@pytest.mark.parametrize(
    ("m", "n", "k", "message"),
    [
        (0, 32, 64, "M is 0; give a positive integer"),
        (-1, 32, 64, "M is -1"),
        (1, 0, 64, "N is 0"),
        (1, 32, 0, "K is 0"),
        (1, 32, 24, "K is 24; give a multiple of 16"),
        (True, 32, 64, "M is True"),
        (1, 32.0, 64, "N is 32.0"),
        (1, 32, "64", "K is '64'"),
    ],
)
def test_shapes_that_nvfp4_does_not_have(m: Any, n: Any, k: Any, message: str) -> None:
    for call in (BACKEND.runner, BACKEND.timer):
        with pytest.raises(ValueError, match=message):
            call(m, n, k)
    with pytest.raises(ValueError, match=message):
        gemm_case(m, n, k, tactic=0, seed=0, direct_sf=True)


@pytest.mark.parametrize("seed", [-1, 1.0, True, None])
def test_a_seed_is_a_non_negative_integer(seed: Any) -> None:
    with pytest.raises(ValueError, match="non-negative integer"):
        random_operands(1, 1, 16, seed)


def test_the_numpy_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0
    runs: list[int] = []
    pauses: list[float] = []

    def product(tactic: int) -> None:
        nonlocal now
        runs.append(tactic)
        now += 1000 * (40 - tactic)

    monkeypatch.setattr(numpy_backend.time, "perf_counter_ns", lambda: now)
    monkeypatch.setattr(numpy_backend.time, "sleep", pauses.append)
    found = Profiler().select(NumpyTimer(product), (1, 1, 16), 5000, [])
    assert found.tactic == 31
    assert found.microseconds == {tactic: 40 - tactic for tactic in range(32)}
    assert runs == [tactic for tactic in range(32) for _ in range(13)]
    assert pauses == [0.005] * 32


def test_the_numpy_timer_measures_for_real() -> None:
    def product(tactic: int) -> None:
        if tactic % 2:
            raise ZeroDivisionError
        sum(range(100))

    found = Profiler().select(NumpyTimer(product), (1, 1, 16), 0, [])
    assert set(found.microseconds) == set(range(0, 32, 2))
    assert all(time > 0 for time in found.microseconds.values())
