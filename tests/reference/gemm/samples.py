"""Operands for the GEMM tests."""

import numpy as np
from nvfp4_reference.gemm import Nvfp4Matrix
from nvfp4_reference.gemm.scale_layout import swizzle


def wide(numbers: np.random.Generator, rows: int, k: int) -> Nvfp4Matrix:
    """Any values, under block scales from one end of E4M3 to the other: sums are inexact."""
    return Nvfp4Matrix(
        values=numbers.integers(0, 256, (rows, k // 2), np.uint8),
        scales=swizzle(numbers.integers(0x08, 0x78, (rows, k // 16), np.uint8)),
        global_scale=1.0,
    )
