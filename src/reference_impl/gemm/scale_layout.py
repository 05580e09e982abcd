"""The order of block scales in memory: row by row (linear), or the 128×4 order of tensor cores.

A block-scaled tensor core reads the scales of 128 rows and 4 blocks (64 values) of K as one atom of
512 bytes. Within an atom, rows that are 32 apart are adjacent. Rows are padded to 128 and columns
to 4 with zero bytes. The atoms are ordered along K first.

    offset(row, column) = ((row // 128) * (padded_columns // 4) + column // 4) * 512
                          + (row % 32) * 16 + ((row % 128) // 32) * 4 + column % 4

Source: cuBLAS documentation, "1D Block Scaling Factors Layout"; FlashInfer's layout_128x4.
"""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from .elements import Bytes

ATOM_ROWS = 128
ATOM_COLUMNS = 4
ATOM_BYTES = ATOM_ROWS * ATOM_COLUMNS

_Row = TypeVar("_Row", int, NDArray[np.intp])


def swizzled_size(rows: int, columns: int) -> int:
    """The bytes of rows × columns scales in the swizzled form, with padding."""
    row_atoms, column_atoms = _atoms(rows, columns)
    return row_atoms * column_atoms * ATOM_BYTES


def swizzled_offset(row: _Row, column: int, columns: int) -> _Row:
    """The offset of the scale of `row` (or of each row) and `column`; `columns` is unpadded."""
    column_atoms = -(-columns // ATOM_COLUMNS)
    atom = row // ATOM_ROWS * column_atoms + column // ATOM_COLUMNS
    within = row % 32 * 16 + row % ATOM_ROWS // 32 * 4 + column % ATOM_COLUMNS
    return atom * ATOM_BYTES + within


def swizzle(linear: Bytes) -> Bytes:
    """Rows × columns scales as one flat array in 128×4 order.

    It pads, splits and transposes axes, and does not use the formula, so that the two check each
    other.
    """
    rows, columns = linear.shape
    row_atoms, column_atoms = _atoms(rows, columns)
    padded = np.zeros((row_atoms * ATOM_ROWS, column_atoms * ATOM_COLUMNS), np.uint8)
    padded[:rows, :columns] = linear
    split = padded.reshape(row_atoms, 4, 32, column_atoms, ATOM_COLUMNS)
    return split.transpose(0, 3, 2, 1, 4).reshape(-1)


def unswizzle(swizzled: Bytes, rows: int, columns: int) -> Bytes:
    """The inverse of `swizzle`: rows × columns without padding."""
    row_atoms, column_atoms = _atoms(rows, columns)
    split = swizzled.reshape(row_atoms, column_atoms, 32, 4, ATOM_COLUMNS)
    padded = split.transpose(0, 3, 2, 1, 4)
    return padded.reshape(row_atoms * ATOM_ROWS, -1)[:rows, :columns].copy()


def _atoms(rows: int, columns: int) -> tuple[int, int]:
    return -(-rows // ATOM_ROWS), -(-columns // ATOM_COLUMNS)
