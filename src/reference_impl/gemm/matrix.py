"""A quantized matrix, and its exact values as numbers."""

from dataclasses import dataclass

import numpy as np

from .elements import (
    BLOCK,
    E4M3_LARGEST_BYTE,
    Bytes,
    Doubles,
    from_e2m1,
    from_e4m3,
    unpack,
)
from .scale_layout import swizzle, swizzled_size, unswizzle


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Nvfp4Matrix:
    """A rows × K operand in the form that a block-scaled tensor core reads.

    `values`: uint8, rows × K/2, two E2M1 codes per byte along K, low nibble first.
    `scales`: uint8, flat, one E4M3 byte per 16 values in 128×4 order (see `scale_layout`).
    `global_scale`: the factor of the numbers, a positive finite float32.

    `ValueError` where the three do not match, or a scale is negative or NaN.
    """

    values: Bytes
    scales: Bytes
    global_scale: float

    def __post_init__(self) -> None:
        if self.values.dtype != np.uint8 or self.scales.dtype != np.uint8:
            raise ValueError(
                f"Values are {self.values.dtype} and scales are {self.scales.dtype}; "
                "give both as uint8 bytes."
            )
        if self.values.ndim != 2 or self.values.size == 0 or self.k % BLOCK:
            raise ValueError(
                f"Values have shape {self.values.shape}; give rows × K/2 bytes, neither empty, "
                "with K a multiple of 16."
            )
        size = swizzled_size(self.rows, self.k // BLOCK)
        if self.scales.shape != (size,):
            raise ValueError(
                f"Scales have shape {self.scales.shape}; {self.rows} rows of K = {self.k} "
                f"need ({size},) in 128×4 order."
            )
        if not is_global_scale(self.global_scale):
            raise ValueError(
                f"The global scale is {self.global_scale!r}; give a positive finite float32."
            )
        largest = int(self.linear_scales().max())
        if largest > E4M3_LARGEST_BYTE:
            raise ValueError(
                f"A block scale is the byte 0x{largest:02x}, negative or NaN; "
                "give E4M3 bytes from 0x00 to 0x7e."
            )

    @property
    def rows(self) -> int:
        """M of an activation, N of a weight."""
        return int(self.values.shape[0])

    @property
    def k(self) -> int:
        """K in values, not in bytes."""
        return 2 * int(self.values.shape[1])

    def linear_scales(self) -> Bytes:
        """The scales row by row: rows × K/16."""
        return unswizzle(self.scales, self.rows, self.k // BLOCK)

    def widened(self, multiple: int) -> "Nvfp4Matrix":
        """The matrix with each row padded by zeros, so that K is a multiple of `multiple`.

        For hardware that supports no other K. The zeros do not change a product.
        """
        more = -self.k % multiple
        if not more:
            return self
        linear = np.pad(self.linear_scales(), ((0, 0), (0, more // BLOCK)))
        return Nvfp4Matrix(
            values=np.pad(self.values, ((0, 0), (0, more // 2))),
            scales=swizzle(linear),
            global_scale=self.global_scale,
        )

    def expanded(self) -> Doubles:
        """Each E2M1 value times the scale of its block, rows × K: the numbers that are multiplied.

        They are exact: each has at most 6 significant bits, which float16 holds as well.
        """
        scales = from_e4m3(self.linear_scales())
        return from_e2m1(unpack(self.values)) * np.repeat(scales, BLOCK, axis=1)

    def dequantized(self) -> Doubles:
        """The numbers that the matrix represents: `expanded` divided by the global scale.

        Each is the float64 nearest to the exact quotient.
        """
        return self.expanded() / np.float64(self.global_scale)


def is_global_scale(number: float) -> bool:
    """Whether a number is positive, finite and exactly a float32."""
    with np.errstate(over="ignore"):
        single = np.float32(number)
    return bool(0 < single < np.inf) and float(single) == number
