"""The product of two expanded operands, summed in float32 in the order of a tactic.

The part of an output element that comes from one K tile is summed *exactly* and rounded once to
float32; the parts are added in float32, in the order of K. An expanded value is a multiple of 2^-10
and at most 2688, so a product is a multiple of 2^-20 and at most 2688^2, and a float64 with its 53
bits holds a sum of up to 1188 products exactly. The widest K tile has 256. Since nothing is
rounded, the result of such a float64 product does not depend on the BLAS library, its number of
threads, its block sizes or the CPU. So a tactic gives the same bytes everywhere.

For the same reason, one matrix product computes the same K tile of all output tiles at once. These
properties of a tactic then decide the bits of the result, as they do on hardware:

- tile K: where the K loop is rounded;
- swap-AB: B·Aᵀ is computed instead, so the first side of a tile is along N and the second along M;
- tile M and tile N: the grid of output tiles and, with the operand order, the cuts of stream-K.

So data-parallel tactics with equal tile K agree in every bit, and others need not.

Stream-K divides the work among workers. The K tiles of all output tiles form one stream, output
tile by output tile, and each worker has an equal part of it. Where a part ends within an output
tile, the K loop of that tile is cut in two; the two sums are computed apart and then added (the
fix-up). So the cuts depend on the tile shape, the operand order, and M, N and K.

Source: Osama et al., "Stream-K: Work-Centric Parallel Decomposition for Dense Matrix-Matrix
Multiplication on the GPU" (PPoPP 2023), basic Stream-K.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from ..tactics import Tactic
from .elements import Doubles, Floats

EXACT_K = 1188
"""The number of products whose sum a float64 holds exactly: 2^53 / (2688 * 2^10)^2."""

STREAM_K_WORKERS = 7
"""A constant, not the number of cores, so that a tactic gives the same result everywhere.

It is prime, so that the parts of the workers rarely end where an output tile ends.
"""


def accumulate(tactic: Tactic, a: Doubles, b: Doubles) -> Floats:
    """A·Bᵀ in float32, M × N, for a (M × K) and b (N × K) as `Nvfp4Matrix.expanded` gives them.

    Neither is changed. The result may be a transposed view. A sum of zero is +0.
    """
    if tactic.swap_ab:
        return _accumulate_tiles(tactic, b, a).T
    return _accumulate_tiles(tactic, a, b)


def _accumulate_tiles(tactic: Tactic, left: Doubles, right: Doubles) -> Floats:
    tile_rows, tile_columns, tile_k = tactic.tile
    rows = _ranges(left.shape[0], tile_rows)
    columns = _ranges(right.shape[0], tile_columns)
    k_ranges = _ranges(left.shape[1], tile_k)
    cuts = (
        stream_k_cuts(len(rows) * len(columns), len(k_ranges))
        if tactic.scheduler == "stream-k"
        else {}
    )
    # Sums start at +0, so that the result does not depend on a library's sign of zero.
    running = np.zeros((left.shape[0], right.shape[0]), np.float32)
    finished = np.zeros_like(running)
    for k_tile, k_range in enumerate(k_ranges):
        for tile in cuts.get(k_tile, ()):
            row, column = divmod(tile, len(columns))
            region = rows[row], columns[column]
            finished[region] += running[region]
            running[region] = 0
        running += (left[:, k_range] @ right[:, k_range].T).astype(np.float32)
    finished += running
    return finished


def _ranges(length: int, step: int) -> Sequence[slice]:
    """The tiles of one side; the last one may be smaller."""
    return [slice(start, min(start + step, length)) for start in range(0, length, step)]


def stream_k_cuts(
    tiles: int, k_tiles: int, workers: int = STREAM_K_WORKERS
) -> Mapping[int, Sequence[int]]:
    """The output tiles that are cut before each K tile; a K tile without cuts is left out.

    `tiles`: the number of output tiles; `k_tiles`: the number of K tiles of each.
    """
    stream = tiles * k_tiles
    found: dict[int, set[int]] = defaultdict(set)
    for worker in range(1, workers):
        tile, k_tile = divmod(worker * stream // workers, k_tiles)
        if k_tile:
            found[k_tile].add(tile)
    return {k_tile: sorted(found[k_tile]) for k_tile in sorted(found)}
