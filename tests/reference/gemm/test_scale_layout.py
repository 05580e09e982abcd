"""The 128×4 order of block scales."""

import numpy as np
import pytest
from nvfp4_reference.gemm import scale_layout

SHAPES = [(1, 1), (1, 4), (128, 4), (128, 5), (129, 4), (31, 3), (300, 9), (512, 68)]


@pytest.mark.parametrize(("rows", "columns"), SHAPES)
def test_there_and_back(rows: int, columns: int, numbers: np.random.Generator) -> None:
    linear = numbers.integers(0, 256, (rows, columns), np.uint8)
    before = linear.copy()
    swizzled = scale_layout.swizzle(linear)
    assert swizzled.shape == (scale_layout.swizzled_size(rows, columns),)
    assert (scale_layout.unswizzle(swizzled, rows, columns) == linear).all()
    assert (linear == before).all()


@pytest.mark.parametrize(("rows", "columns"), SHAPES)
def test_every_scale_lies_where_the_formula_says(rows: int, columns: int) -> None:
    linear = (np.arange(rows * columns) % 251 + 1).astype(np.uint8).reshape(rows, columns)
    swizzled = scale_layout.swizzle(linear)
    padded = np.zeros_like(swizzled)
    padded_columns = (columns + 3) // 4 * 4
    for row in range(rows):
        for col in range(columns):
            offset = ((row // 128) * (padded_columns // 4) + col // 4) * 512
            offset += (row % 32) * 16 + ((row % 128) // 32) * 4 + col % 4
            assert scale_layout.swizzled_offset(row, col, columns) == offset
            assert padded[offset] == 0, "two scales in one place"
            padded[offset] = linear[row, col]
    assert (swizzled == padded).all(), "a scale elsewhere, or padding that is not zero"


def test_rows_32_apart_are_neighbours_in_an_atom() -> None:
    rows = np.repeat(np.arange(128, dtype=np.uint8)[:, np.newaxis], 4, axis=1)
    assert scale_layout.swizzle(rows)[:20:4].tolist() == [0, 32, 64, 96, 1]


@pytest.mark.parametrize(
    ("rows", "columns", "size"), [(1, 1, 512), (128, 4, 512), (129, 4, 1024), (129, 5, 2048)]
)
def test_the_size_includes_padding(rows: int, columns: int, size: int) -> None:
    assert scale_layout.swizzled_size(rows, columns) == size
