"""The exact NVFP4 product, computed in float64 from the quantized operands alone.

A number is an E2M1 value times the E4M3 scale of its block of 16, divided by the global scale. This
module imports numpy, so it is imported only where products are judged.
"""

from types import MappingProxyType
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

TOLERANCES: Final = MappingProxyType({"f32": 1e-5, "bf16": 2.0**-8, "f16": 2.0**-10})
"""The largest relative Frobenius error, by output type."""


class Operand(Protocol):
    """A quantized matrix: E2M1 pairs (rows × K/2, low nibble first) and linear E4M3 scales."""

    @property
    def rows(self) -> int: ...
    @property
    def packed(self) -> bytes: ...
    @property
    def scales(self) -> bytes: ...
    @property
    def global_scale(self) -> float: ...


class Product(Protocol):
    """One GEMM: both operands, alpha, and the output bytes of a type in `TOLERANCES`."""

    @property
    def a(self) -> Operand: ...
    @property
    def b(self) -> Operand: ...
    @property
    def alpha(self) -> float: ...
    @property
    def output(self) -> bytes: ...
    @property
    def output_dtype(self) -> str: ...


_E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
Matrix = NDArray[np.float64]


def _e4m3() -> Matrix:
    """The 256 values of E4M3: sign, four exponent bits with bias 7, three bits of mantissa."""
    codes = np.arange(256)
    sign = np.where(codes & 0x80, -1.0, 1.0)
    exponent, mantissa = (codes >> 3) & 15, (codes & 7) / 8
    values = np.where(exponent == 0, mantissa * 2.0**-6, (1 + mantissa) * 2.0 ** (exponent - 7.0))
    values[(codes & 0x7F) == 0x7F] = np.nan
    return sign * values


def dequantized(operand: Operand, k: int) -> Matrix:
    """The operand's numbers as float64, rows × K; `k` in elements, a multiple of 16."""
    packed = np.frombuffer(operand.packed, np.uint8).reshape(operand.rows, k // 2)
    nibbles = np.stack([packed & 15, packed >> 4], axis=-1).reshape(operand.rows, k)
    scales = _e4m3()[np.frombuffer(operand.scales, np.uint8).reshape(operand.rows, k // 16)]
    values: Matrix = _E2M1[nibbles] * np.repeat(scales, 16, axis=1) / operand.global_scale
    return values


def relative_error(product: Product, m: int, n: int, k: int) -> float:
    """The relative Frobenius error of an output, M × N, against the product of its operands.

    `m`, `n` and `k` are in elements. Infinity where the output holds a NaN.
    """
    a, b = dequantized(product.a, k), dequantized(product.b, k)
    # alpha undoes the global scales in the product; the numbers above are already without them.
    undone = product.alpha * product.a.global_scale * product.b.global_scale
    exact = (a @ b.T) * undone
    output = _output(product).reshape(m, n)
    error = np.linalg.norm(output - exact) / np.linalg.norm(exact)
    return float("inf") if np.isnan(error) else float(error)


def swizzle(operand: Operand) -> bytes:
    """The operand's scales in the 128×4 layout, padded with zeros to whole tiles."""
    columns = len(operand.scales) // operand.rows
    rows_up, columns_up = -(-operand.rows // 128) * 128, -(-columns // 4) * 4
    padded = np.zeros((rows_up, columns_up), np.uint8)
    padded[: operand.rows, :columns] = np.frombuffer(operand.scales, np.uint8).reshape(-1, columns)
    # (row tile, row // 32, row % 32, column tile, column % 4) → (row tile, column tile, 32, 4, 4)
    tiles = padded.reshape(rows_up // 128, 4, 32, columns_up // 4, 4)
    return tiles.transpose(0, 3, 2, 1, 4).tobytes()


def _output(product: Product) -> Matrix:
    if product.output_dtype == "bf16":
        halves: NDArray[Any] = np.frombuffer(product.output, np.uint16).astype(np.uint32) << 16
        return halves.view(np.float32).astype(np.float64)
    dtype = np.float16 if product.output_dtype == "f16" else np.float32
    return np.frombuffer(product.output, dtype).astype(np.float64)
