"""Stream-K: where the work of an output tile is cut between two workers.

Lay the K tiles of all output tiles end to end, output tile by output tile, and give each worker
one equal stretch of that stream. A stretch's end falls inside some output tile: that tile has its
K loop in two parts, summed apart and added up afterwards (the fix-up). So which sums are cut
depends on the tile shape, on the operand order, and on M, N and K.

Source: Osama et al., "Stream-K: Work-Centric Parallel Decomposition for Dense Matrix-Matrix
Multiplication on the GPU" (PPoPP 2023), basic Stream-K.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

WORKERS = 7
"""A constant and not the machine's number of cores, for one tactic gives one result everywhere.

A prime, so that stretches rarely end where an output tile does.
"""


def cuts(tiles: int, k_tiles: int, workers: int = WORKERS) -> Mapping[int, Sequence[int]]:
    """For each K tile before which a cut falls: the output tiles that are cut there."""
    stream = tiles * k_tiles
    found: dict[int, set[int]] = defaultdict(set)
    for worker in range(1, workers):
        tile, k_tile = divmod(worker * stream // workers, k_tiles)
        if k_tile:
            found[k_tile].add(tile)
    return {k_tile: sorted(found[k_tile]) for k_tile in sorted(found)}
