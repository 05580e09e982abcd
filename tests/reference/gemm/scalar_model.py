"""NVFP4 quantization once more, number by number, to check the vectorized one.

Rounding works on exact fractions and a list of all values; nothing is shared with the reference.
"""

from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

E2M1 = [Fraction(numerator, 2) for numerator in (0, 1, 2, 3, 4, 6, 8, 12)]


def e4m3_value(byte: int) -> Fraction:
    """A non-negative finite E4M3 byte: 4 exponent bits with bias 7, 3 fraction bits."""
    exponent, fraction = byte >> 3, byte & 7
    if exponent == 0:
        return Fraction(fraction, 8) / 2**6
    return (1 + Fraction(fraction, 8)) * Fraction(2) ** (exponent - 7)


E4M3 = [e4m3_value(byte) for byte in range(0x7F)]


def nearest(number: Fraction, values: list[Fraction]) -> int:
    """Index of the nearest of ascending values; a tie goes to the even index (the even code)."""
    above = min(bisect_left(values, number), len(values) - 1)
    neighbours = (max(above - 1, 0), above)
    return min(neighbours, key=lambda code: (abs(values[code] - number), code & 1))


@dataclass(frozen=True)
class Quantized:
    global_scale: float
    codes: list[list[int]]
    scales: list[list[int]]


def quantize(matrix: NDArray[np.float32], global_scale: float | None = None) -> Quantized:
    f32 = np.float32
    if global_scale is None:
        amax = max(abs(x) for x in matrix.flat)
        with np.errstate(over="ignore"):
            global_scale = float(f32(2688) / amax) if amax else 1.0
        global_scale = min(global_scale, float(np.finfo(f32).max))
    multiplier = f32(global_scale)
    codes: list[list[int]] = []
    scales: list[list[int]] = []
    for row in matrix:
        codes.append([])
        scales.append([])
        for start in range(0, len(row), 16):
            block = row[start : start + 16]
            with np.errstate(over="ignore", under="ignore"):
                wanted = max(abs(x) for x in block) / f32(6) * multiplier
            scale = nearest(Fraction(float(min(wanted, f32(448)))), E4M3)
            scales[-1].append(scale)
            codes[-1].extend(code(x, scale, multiplier) for x in block)
    return Quantized(global_scale, codes, scales)


def code(x: np.float32, scale: int, multiplier: np.float32) -> int:
    sign = 8 if np.signbit(x) else 0
    if scale == 0:
        return sign
    with np.errstate(over="ignore", under="ignore"):
        quotient = abs(x) * multiplier / np.float32(float(E4M3[scale]))
    return sign | nearest(Fraction(float(min(quotient, np.float32(6)))), E2M1)
