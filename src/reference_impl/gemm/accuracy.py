"""GEMM-1: how far an output may be from the product of the dequantized operands."""

import numpy as np

from .accumulation import EXACT_K
from .elements import Doubles
from .matrix import Nvfp4Matrix
from .product import Output, OutputType

TOLERANCES: dict[OutputType, float] = {"fp32": 1e-5, "bf16": 2.0**-8, "fp16": 2.0**-10}
"""Largest relative Frobenius error by output type; fp32 is the output before it is rounded."""


def dequantized_product(a: Nvfp4Matrix, b: Nvfp4Matrix) -> Doubles:
    """A·Bᵀ of the numbers that the operands stand for, M × N, in float64.

    Summed over a stretch of K at a time that is exact (see `accumulation`), so that the
    yardstick is as independent of threads and libraries as what it measures.
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
    # Not np.linalg.norm: it would ask BLAS, whose sum may depend on its number of threads.
    return float(np.sqrt(np.square(matrix).sum()))
