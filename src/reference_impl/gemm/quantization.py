"""Quantization from float32 to NVFP4, in two ways that must give the same bytes.

`composed` quantizes the whole matrix, with the scales row by row, and swizzles the scales in a
second pass. `direct` processes one column of blocks at a time, as the threads of a kernel do, and
writes each scale to the place where the tensor core reads it. The two share the arithmetic of a
block, but not the code that places bytes.

The formulas; each step is rounded to float32:

    global = 448 * 6 / amax(matrix)          so that the largest block's scale is the largest E4M3
    scale  = E4M3(amax(block) / 6 * global)
    value  = E2M1(x * global / scale)

Special cases: a matrix of zeros has the global scale 1. Where the quotient overflows float32 (amax
below about 8e-36), the global scale is the largest float32. A block whose scale rounds to zero
becomes zeros. A scale below 2^-6 is a subnormal E4M3 number and is used. A value saturates at ±6
where its scale was rounded down, or was limited to 448 under a global scale of the caller. NaN or
infinity is an error.

These are the usual two levels of scales of NVFP4, with IEEE divisions. A kernel that multiplies by
an approximate reciprocal may round a value near a tie differently.
"""

import numpy as np
from numpy.typing import NDArray

from .elements import BLOCK, E2M1_MAX, E4M3_MAX, Bytes, Floats, from_e4m3, pack, to_e2m1, to_e4m3
from .matrix import Nvfp4Matrix, is_global_scale
from .scale_layout import swizzle, swizzled_offset, swizzled_size


def quantize(
    numbers: Floats, *, global_scale: float | None = None, direct: bool = True
) -> Nvfp4Matrix:
    """Quantize a float32 rows × K matrix along K.

    `global_scale`: a calibrated scale; by default it follows from the largest magnitude.
    `direct`: which of the two ways to use (`VT_FP4_DIRECT_SF`); the bytes are the same.
    `ValueError` for another dtype, an empty or non-matrix shape, K not a multiple of 16, NaN or
    infinity, or a global scale that is not a positive finite float32.
    """
    check_numbers(numbers)
    chosen = global_scale_of(numbers) if global_scale is None else global_scale
    if not is_global_scale(chosen):
        raise ValueError(f"The global scale is {chosen!r}; give a positive finite float32.")
    way = quantize_direct if direct else quantize_composed
    # A calibrated global scale may make numbers infinite; these saturate like others.
    with np.errstate(over="ignore", under="ignore"):
        values, scales = way(numbers, np.float32(chosen))
    return Nvfp4Matrix(values=values, scales=scales, global_scale=chosen)


def global_scale_of(numbers: Floats) -> float:
    """448 * 6 / amax in float32; 1 for a matrix of zeros, and never infinite."""
    return largest_to_global_scale(np.abs(numbers).max())


def largest_to_global_scale(amax: np.float32) -> float:
    """The global scale of a matrix whose largest magnitude is `amax`."""
    if amax == 0:
        return 1.0
    with np.errstate(over="ignore"):
        quotient = np.float32(E4M3_MAX * E2M1_MAX) / amax
    return float(min(quotient, np.finfo(np.float32).max))


def quantize_composed(numbers: Floats, global_scale: np.float32) -> tuple[Bytes, Bytes]:
    """Packed values and swizzled scales, from linear scales."""
    values, linear = quantize_linear(numbers, global_scale)
    return values, swizzle(linear)


def quantize_linear(numbers: Floats, global_scale: np.float32) -> tuple[Bytes, Bytes]:
    """Packed values, rows × K/2, and linear scales, rows × K/16."""
    rows, k = numbers.shape
    blocks = numbers.reshape(rows, k // BLOCK, BLOCK)
    scales = _block_scales(blocks, global_scale)
    return pack(_codes(blocks, scales, global_scale)).reshape(rows, k // 2), scales


def quantize_direct(numbers: Floats, global_scale: np.float32) -> tuple[Bytes, Bytes]:
    """Packed values and swizzled scales, each written directly to its final place."""
    rows, k = numbers.shape
    columns = k // BLOCK
    values = np.empty((rows, k // 2), np.uint8)
    scales = np.zeros(swizzled_size(rows, columns), np.uint8)
    every_row = np.arange(rows)
    for column in range(columns):
        block = numbers[:, BLOCK * column : BLOCK * (column + 1)]
        block_scales = _block_scales(block, global_scale)
        scales[swizzled_offset(every_row, column, columns)] = block_scales
        packed = pack(_codes(block, block_scales, global_scale))
        values[:, BLOCK // 2 * column : BLOCK // 2 * (column + 1)] = packed
    return values, scales


def _block_scales(blocks: Floats, global_scale: np.float32) -> Bytes:
    """One scale per block; a block is the last axis."""
    return to_e4m3(np.abs(blocks).max(axis=-1) / np.float32(E2M1_MAX) * global_scale)


def _codes(blocks: Floats, scales: Bytes, global_scale: np.float32) -> Bytes:
    """One E2M1 code per number."""
    divisor = from_e4m3(scales).astype(np.float32)[..., np.newaxis]
    # Numbers with a zero scale are so small that, divided by 1, they become zeros with their sign.
    divisor[divisor == 0] = 1
    return to_e2m1(blocks * global_scale / divisor)


def check_numbers(numbers: NDArray[np.generic]) -> None:
    """`ValueError` unless the matrix can be quantized."""
    if numbers.dtype != np.float32:
        raise ValueError(f"The matrix to quantize is {numbers.dtype}; give float32.")
    if numbers.ndim != 2 or numbers.size == 0 or numbers.shape[1] % BLOCK:
        raise ValueError(
            f"The matrix to quantize has shape {numbers.shape}; give rows × K, neither empty, "
            "with K a multiple of 16."
        )
    if not np.isfinite(numbers).all():
        row, column = np.argwhere(~np.isfinite(numbers))[0]
        raise ValueError(
            f"The matrix to quantize holds {numbers[row, column]} at row {row}, column {column}; "
            "NVFP4 has neither NaN nor infinity, so give finite numbers."
        )
