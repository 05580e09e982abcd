"""From float32 to NVFP4, in the two ways that must give the same bytes.

`composed` quantizes the whole matrix with its scales row by row and swizzles them in a second
pass. `direct` goes through the matrix one block column at a time, as a kernel's threads do, and
puts each scale where the tensor core wants it. They share the arithmetic of a block, below, and
nothing of how bytes get to their places.

The recipe, every step rounded to float32:

    global = 448 * 6 / amax(matrix)          so that the largest block's scale is the largest E4M3
    scale  = E4M3(amax(block) / 6 * global)
    value  = E2M1(x * global / scale)

Edges: an all-zero matrix has global scale 1; where the quotient overflows float32 (amax below
about 8e-36) it is the largest float32. A block whose scale rounds to zero becomes zeros. A scale
below 2^-6 is an E4M3 subnormal and used as it is. A value may saturate at ±6 where its scale was
rounded down, or was capped at 448 under a global scale given by the caller. NaN or infinity is an
error.

This is NVFP4's usual two-level recipe with IEEE divisions. A kernel that multiplies with an
approximate reciprocal instead may round a near-tie the other way.
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

    `global_scale`: a calibrated one; by default it is taken from the matrix's largest magnitude.
    `direct`: which of the two ways (`VT_FP4_DIRECT_SF`); the bytes are the same.
    `ValueError` for another dtype, an empty or non-matrix shape, K not a multiple of 16, NaN or
    infinity, or a global scale that is not a positive finite float32.
    """
    check_numbers(numbers)
    chosen = global_scale_of(numbers) if global_scale is None else global_scale
    if not is_global_scale(chosen):
        raise ValueError(f"The global scale is {chosen!r}; give a positive finite float32.")
    way = quantize_direct if direct else quantize_composed
    # A calibrated global scale may push numbers to infinity; they then saturate like any other.
    with np.errstate(over="ignore", under="ignore"):
        values, scales = way(numbers, np.float32(chosen))
    return Nvfp4Matrix(values=values, scales=scales, global_scale=chosen)


def global_scale_of(numbers: Floats) -> float:
    """448 * 6 / amax in float32; 1 for a matrix of zeros, never infinite."""
    return largest_to_global_scale(np.abs(numbers).max())


def largest_to_global_scale(amax: np.float32) -> float:
    """The global scale of a matrix whose largest magnitude is `amax`."""
    if amax == 0:
        return 1.0
    with np.errstate(over="ignore"):
        quotient = np.float32(E4M3_MAX * E2M1_MAX) / amax
    return float(min(quotient, np.finfo(np.float32).max))


def quantize_composed(numbers: Floats, global_scale: np.float32) -> tuple[Bytes, Bytes]:
    """Packed values and swizzled scales, by way of linear scales."""
    values, linear = quantize_linear(numbers, global_scale)
    return values, swizzle(linear)


def quantize_linear(numbers: Floats, global_scale: np.float32) -> tuple[Bytes, Bytes]:
    """Packed values, rows × K/2, and linear scales, rows × K/16."""
    rows, k = numbers.shape
    blocks = numbers.reshape(rows, k // BLOCK, BLOCK)
    scales = _block_scales(blocks, global_scale)
    return pack(_codes(blocks, scales, global_scale)).reshape(rows, k // 2), scales


def quantize_direct(numbers: Floats, global_scale: np.float32) -> tuple[Bytes, Bytes]:
    """Packed values and swizzled scales, each scale written to its final place at once."""
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
    """One scale per block; the blocks are the last axis."""
    return to_e4m3(np.abs(blocks).max(axis=-1) / np.float32(E2M1_MAX) * global_scale)


def _codes(blocks: Floats, scales: Bytes, global_scale: np.float32) -> Bytes:
    """One E2M1 code per number."""
    divisor = from_e4m3(scales).astype(np.float32)[..., np.newaxis]
    # Numbers under a zero scale are so small that they become zeros over 1, and keep their sign.
    divisor[divisor == 0] = 1
    return to_e2m1(blocks * global_scale / divisor)


def check_numbers(numbers: NDArray[np.generic]) -> None:
    """`ValueError` unless `quantize` may take the matrix."""
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
