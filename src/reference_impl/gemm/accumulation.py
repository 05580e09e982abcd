"""The product of two expanded operands, summed in float32 in the order that a tactic prescribes.

A K tile's part of an output element is summed *exactly* and then rounded once to float32; the
parts are added in float32, in K order. An expanded value is a multiple of 2^-10 and at most 2688,
so a product is a multiple of 2^-20 and at most 2688^2; a sum of up to 1188 of them fits the 53
bits of a float64 whole. The widest K tile has 256. With nothing to round, the result of such a
float64 product cannot depend on the BLAS library, its number of threads, its block sizes or the
CPU: this is why one tactic gives the same bytes everywhere.

For the same reason, one matrix product may stand for the same K tile of all output tiles at once.
What remains of a tactic is what decides bits on hardware too:

- tile K: where the K loop is rounded;
- swap-AB: B·Aᵀ is computed instead, so a tile's first side lies along N and its second along M;
- tile M and tile N: the grid of output tiles, and with the order of operands, what stream-K cuts.

Thus data-parallel tactics with equal tile K agree to the last bit, and others need not.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from ..tactics import Tactic
from .elements import Doubles, Floats

EXACT_K = 1188
"""Products of two expanded values whose sum a float64 surely holds: 2^53 / (2688 * 2^10)^2."""

STREAM_K_WORKERS = 7
"""A constant and not the machine's number of cores, for one tactic gives one result everywhere.

A prime, so that stretches rarely end where an output tile does.
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
    # Sums start from +0, so that no library's choice between +0 and -0 shows.
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
    """For each K tile before which a cut falls: the output tiles that are cut there."""
    stream = tiles * k_tiles
    found: dict[int, set[int]] = defaultdict(set)
    for worker in range(1, workers):
        tile, k_tile = divmod(worker * stream // workers, k_tiles)
        if k_tile:
            found[k_tile].add(tile)
    return {k_tile: sorted(found[k_tile]) for k_tile in sorted(found)}
