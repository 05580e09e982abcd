"""One GEMM as the GEMM contracts check it: random operands, one tactic, and all bytes."""

import base64
from collections.abc import Callable
from typing import Protocol, TypedDict

import numpy as np

from .accumulation import EXACT_K
from .elements import Bytes, Doubles
from .matrix import Nvfp4Matrix
from .numpy_backend import NumpyBackend
from .product import OUTPUT_DTYPES, Output, OutputType, default_alpha, problem
from .protocol import GUARD_BYTES, GUARD_FILL, Backend, Prepared, ProblemT
from .random_operands import random_operands

TOLERANCES: dict[OutputType, float] = {"fp32": 1e-5, "bf16": 2.0**-8, "fp16": 2.0**-10}
"""Largest relative Frobenius error by output type; fp32 is the output before it is rounded."""


class OperandCase(TypedDict):
    """A quantized operand in base64: E2M1 pairs, and the scales in both layouts."""

    rows: int
    packed: str
    scales: str
    swizzled: str
    global_scale: float


class GemmCase(TypedDict):
    """A product with its operands; `guard` is the memory after the output, read after the run."""

    a: OperandCase
    b: OperandCase
    alpha: float
    output: str
    output_dtype: str
    guard: str


class GuardedBackend(Backend[ProblemT], Protocol[ProblemT]):
    """A back end with `GUARD_BYTES` after each output, which no kernel may write."""

    def poison(self, problem: ProblemT) -> None:
        """Set every element of the output to NaN."""

    def guard(self, problem: ProblemT) -> Bytes:
        """The memory after the output, once all launched work has ended."""
        ...


def gemm_case(
    m: int, n: int, k: int, *, tactic: int, seed: int, direct_sf: bool, replayed: bool = False
) -> GemmCase:
    """Quantize random operands and multiply them to bfloat16, in a buffer with a guard.

    Before the run the output is NaN and the guard has a fixed byte, so that an element that is not
    written and a write after row M can be detected. With `replayed`, the product is the replay of
    a captured graph. `ValueError` for an invalid shape, tactic or seed.
    """
    numbers_a, numbers_b = random_operands(m, n, k, seed)
    back_end = NumpyBackend()
    a = back_end.quantize(numbers_a, direct=direct_sf)
    b = back_end.quantize(numbers_b, direct=direct_sf)
    alpha = default_alpha(a, b)
    dtype = OUTPUT_DTYPES["bf16"]
    size = m * n * dtype.itemsize
    memory = np.full(size + GUARD_BYTES, GUARD_FILL, np.uint8)
    out = memory[:size].view(dtype).reshape(m, n)
    prepared = problem(a, b, alpha, out)
    _launch(back_end, tactic, prepared, lambda made: made.out.fill(np.nan), replayed=replayed)
    return _case(prepared, memory[:size], memory[size:])


def card_case(
    card: GuardedBackend[ProblemT],
    m: int,
    n: int,
    k: int,
    *,
    tactic: int,
    seed: int,
    direct_sf: bool,
    replayed: bool = False,
) -> GemmCase:
    """The same case on a card."""
    prepared = card.prepare(m, n, k, seed, direct=direct_sf)
    _launch(card, tactic, prepared, card.poison, replayed=replayed)
    return _case(prepared, card.output(prepared), card.guard(prepared))


def _launch(
    back_end: Backend[ProblemT],
    tactic: int,
    prepared: ProblemT,
    poison: Callable[[ProblemT], None],
    *,
    replayed: bool,
) -> None:
    """Run the tactic once on an output of NaN, directly or as the replay of a captured graph."""

    def run() -> None:
        back_end.run_tactic(tactic, prepared)

    started = back_end.capture(run) if replayed else run
    poison(prepared)
    started()


def _case(prepared: Prepared, output: Output, guard: Bytes) -> GemmCase:
    return GemmCase(
        a=_operand_case(prepared.a),
        b=_operand_case(prepared.b),
        alpha=float(prepared.alpha),
        output=_text(output),
        output_dtype="bf16",
        guard=_text(guard),
    )


def _operand_case(matrix: Nvfp4Matrix) -> OperandCase:
    """An operand as base64."""
    return OperandCase(
        rows=matrix.rows,
        packed=_text(matrix.values),
        scales=_text(matrix.linear_scales()),
        swizzled=_text(matrix.scales),
        global_scale=float(matrix.global_scale),
    )


def _text(data: Output) -> str:
    """Bytes in base64."""
    return base64.b64encode(data.tobytes()).decode("ascii")


def dequantized_product(a: Nvfp4Matrix, b: Nvfp4Matrix) -> Doubles:
    """A·Bᵀ of the numbers that the operands stand for, M × N, in float64.

    Each part of `EXACT_K` products is summed exactly (see `accumulation`), so that the result does
    not depend on threads and libraries either.
    """
    left, right = a.expanded(), b.expanded()
    total = np.zeros((a.rows, b.rows))
    for start in range(0, a.k, EXACT_K):
        part = slice(start, start + EXACT_K)
        total += left[:, part] @ right[:, part].T
    return total / float(a.global_scale) / float(b.global_scale)


def relative_error(output: Output, expected: Doubles) -> float:
    """Frobenius norm of the difference over that of `expected`; NaN if any element is NaN.

    Where `expected` is all zero: 0 for an output of zeros, else infinity.
    """
    difference = output.astype(np.float64) - expected
    norm = _norm(expected)
    if norm == 0:
        return _norm(difference) and np.inf
    return _norm(difference) / norm


def _norm(matrix: Doubles) -> float:
    # Not `np.linalg.norm`, which uses BLAS: its sum may depend on the number of threads.
    return float(np.sqrt(np.square(matrix).sum()))
