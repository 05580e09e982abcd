"""Products: tolerance (GEMM-1), all of the output and nothing else, and invalid arguments."""

import random
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from nvfp4_reference.gemm import (
    TOLERANCES,
    OutputType,
    default_alpha,
    dequantized_product,
    problem,
    quantize,
    relative_error,
    run,
)
from nvfp4_reference.gemm.product import OUTPUT_DTYPES, empty_output, run_problem
from nvfp4_reference.gemm.random_operands import random_operands

from .samples import wide

OUTPUTS: list[OutputType] = ["fp32", "bf16", "fp16"]
EVERY_TACTIC = range(32)


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("tactic", EVERY_TACTIC)
def test_every_tactic_is_within_tolerance(
    tactic: int, output: OutputType, rng: random.Random
) -> None:
    m, n, k = rng.randint(1, 200), rng.randint(32, 300), 16 * rng.randint(1, 70)
    seed = rng.randrange(2**32)
    print(m, n, k, seed)
    a, b = (quantize(operand) for operand in random_operands(m, n, k, seed))
    found = run(tactic, a, b, default_alpha(a, b), output)
    assert found.shape == (m, n)
    assert found.dtype == OUTPUT_DTYPES[output]
    assert relative_error(found, dequantized_product(a, b)) <= TOLERANCES[output]


def test_the_tolerance_notices_one_block_that_is_left_out(numbers: np.random.Generator) -> None:
    operands = numbers.standard_normal((2, 64, 1024)).astype(np.float32)
    a, b = quantize(operands[0]), quantize(operands[1])
    without = operands[0].copy()
    without[:, 512:528] = 0
    found = run(0, quantize(without), b, default_alpha(a, b))
    assert relative_error(found, dequantized_product(a, b)) > TOLERANCES["bf16"]


@pytest.mark.parametrize("output", OUTPUTS)
def test_every_element_is_written_and_nothing_else(
    output: OutputType, rng: random.Random, numbers: np.random.Generator
) -> None:
    m, n, k, guard = rng.randint(1, 150), rng.randint(1, 300), 16 * rng.randint(1, 30), 5
    print(m, n, k)
    a, b = wide(numbers, m, k), wide(numbers, n, k)
    for tactic in EVERY_TACTIC:
        expected = run(tactic, a, b, 1e-6, output)
        assert np.isfinite(expected.astype(np.float64)).all()
        for poison in (np.nan, 77.0):
            memory = np.full((m + 2 * guard, n + 2 * guard), poison, OUTPUT_DTYPES[output])
            before = memory.copy()
            window = slice(guard, guard + m), slice(guard, guard + n)
            run_problem(tactic, problem(a, b, 1e-6, memory[window]))
            assert memory[window].tobytes() == expected.tobytes()
            memory[window] = before[window]
            assert memory.tobytes() == before.tobytes(), "written beyond the declared rows"


def test_running_again_or_in_another_order_changes_nothing(numbers: np.random.Generator) -> None:
    a, b = wide(numbers, 70, 640), wide(numbers, 300, 640)
    before = [part.tobytes() for part in (a.values, a.scales, b.values, b.scales)]
    prepared = problem(a, b, 1.0, empty_output(70, 300, "fp32"))
    first = {}
    for tactic in EVERY_TACTIC:
        run_problem(tactic, prepared)
        first[tactic] = prepared.out.tobytes()
    for tactic in reversed(EVERY_TACTIC):
        run_problem(tactic, prepared)
        assert prepared.out.tobytes() == first[tactic]
    assert [part.tobytes() for part in (a.values, a.scales, b.values, b.scales)] == before


def test_alpha_multiplies_the_sum_before_it_is_rounded(numbers: np.random.Generator) -> None:
    a, b = wide(numbers, 9, 160), wide(numbers, 11, 160)
    sums = run(5, a, b, 1.0, "fp32")
    scaled = run(5, a, b, -0.3, "fp32")
    assert (scaled == sums * np.float32(-0.3)).all()
    assert (run(5, a, b, -0.3, "bf16") == scaled.astype(ml_dtypes.bfloat16)).all()
    assert not run(5, a, b, 0.0).astype(np.float32).any()


def test_what_float16_cannot_hold_becomes_infinity() -> None:
    a = quantize(np.full((1, 16), 2688.0, np.float32))
    found = run(0, a, a, 1.0, "fp16")
    assert found.tolist() == [[np.inf]]


@pytest.mark.parametrize("tactic", [-1, 32, True, 1.0, "1", None])
def test_an_unknown_tactic_is_an_error(tactic: Any, numbers: np.random.Generator) -> None:
    a = wide(numbers, 2, 16)
    with pytest.raises(ValueError, match="does not exist; tactic ids are the integers 0 to 31"):
        run(tactic, a, a, 1.0)


@pytest.mark.parametrize("alpha", [np.nan, np.inf, -np.inf, 1e39])
def test_alpha_is_finite(alpha: float, numbers: np.random.Generator) -> None:
    a = wide(numbers, 2, 16)
    with pytest.raises(ValueError, match=r"Alpha is .*finite in float32"):
        run(0, a, a, alpha)


def test_operands_of_different_k_are_an_error(numbers: np.random.Generator) -> None:
    with pytest.raises(ValueError, match="K = 16 and K = 32"):
        run(0, wide(numbers, 2, 16), wide(numbers, 2, 32), 1.0)


def test_an_unfit_output_is_an_error(numbers: np.random.Generator) -> None:
    a, b = wide(numbers, 2, 16), wide(numbers, 3, 16)
    unknown: Any = "fp8"
    with pytest.raises(ValueError, match="one of bf16, fp16, fp32"):
        run(0, a, b, 1.0, unknown)
    with pytest.raises(ValueError, match=r"\(3, 2\); give \(2, 3\)"):
        problem(a, b, 1.0, np.zeros((3, 2), np.float16))
    with pytest.raises(ValueError, match="is float64; give bfloat16"):
        problem(a, b, 1.0, np.zeros((2, 3)))
    read_only = np.zeros((2, 3), np.float32)
    read_only.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        problem(a, b, 1.0, read_only)


def test_the_error_measure() -> None:
    expected = np.array([[3.0, 4.0]])
    assert relative_error(np.array([[3.0, 4.5]], np.float32), expected) == 0.1
    assert np.isnan(relative_error(np.array([[3.0, np.nan]], np.float32), expected))
    zeros = np.zeros((1, 2), np.float32)
    assert relative_error(zeros, np.zeros((1, 2))) == 0
    assert relative_error(zeros + 1, np.zeros((1, 2))) == np.inf
