"""The two element formats: E2M1 (4 bits, the values) and E4M3 (8 bits, the block scales).

Conversions are those of `ml_dtypes`: to nearest, ties to even. Numbers beyond the largest value are
clipped here, since the conversion to E4M3 would give NaN.
Source: OCP Microscaling Formats (E2M1) and OCP 8-bit Floating Point (E4M3) specifications.
"""

from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

Bytes: TypeAlias = NDArray[np.uint8]
Floats: TypeAlias = NDArray[np.float32]
Doubles: TypeAlias = NDArray[np.float64]

BLOCK = 16
"""Values along K that share one scale."""

E2M1_MAX = 6.0
E4M3_MAX = 448.0
E4M3_LARGEST_BYTE = 0x7E


def to_e2m1(numbers: Floats) -> Bytes:
    """The 4-bit code of each number, one per byte; numbers beyond ±6 saturate.

    A number that rounds to zero keeps its sign (code 0 or 8). The numbers must not be NaN.
    """
    return np.clip(numbers, -E2M1_MAX, E2M1_MAX).astype(ml_dtypes.float4_e2m1fn).view(np.uint8)


def from_e2m1(codes: Bytes) -> Doubles:
    """The exact value of each 4-bit code, one per byte."""
    return _typed(codes, ml_dtypes.float4_e2m1fn).astype(np.float64)


def to_e4m3(numbers: Floats) -> Bytes:
    """The byte of each number; numbers beyond 448 saturate, subnormals (below 2^-6) are kept.

    The numbers must be neither negative nor NaN.
    """
    return np.minimum(numbers, E4M3_MAX).astype(ml_dtypes.float8_e4m3fn).view(np.uint8)


def from_e4m3(scales: Bytes) -> Doubles:
    """The exact value of each byte; NaN for 0x7F and 0xFF."""
    return _typed(scales, ml_dtypes.float8_e4m3fn).astype(np.float64)


def pack(codes: Bytes) -> Bytes:
    """Two 4-bit codes per byte along the last axis, the earlier one in the low nibble."""
    return codes[..., 0::2] | (codes[..., 1::2] << np.uint8(4))


def unpack(packed: Bytes) -> Bytes:
    """The inverse of `pack`: the last axis is twice as long."""
    codes = np.empty((*packed.shape[:-1], 2 * packed.shape[-1]), np.uint8)
    codes[..., 0::2] = packed & np.uint8(0x0F)
    codes[..., 1::2] = packed >> np.uint8(4)
    return codes


def _typed(stored: Bytes, dtype: type) -> NDArray[Any]:
    return np.ascontiguousarray(stored).view(dtype)
