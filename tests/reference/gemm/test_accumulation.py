"""The order of a tactic's sums, against a model that follows the stream step by step."""

import random
from collections import defaultdict

import numpy as np
import pytest
from numpy.typing import NDArray
from nvfp4_reference.gemm.accumulation import STREAM_K_WORKERS, accumulate, stream_k_cuts
from nvfp4_reference.tactics import TACTICS, Tactic

from .samples import wide

UNIT = 2.0**-10


def model(tactic: Tactic, a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float32]:
    """Tile by tile and worker by worker, with integers for what is exact."""
    left, right = (b, a) if tactic.swap_ab else (a, b)
    left_units, right_units = (np.rint(side / UNIT).astype(np.int64) for side in (left, right))
    tile_m, tile_n, tile_k = tactic.tile
    result = np.zeros((len(left), len(right)), np.float32)
    k_starts = range(0, left.shape[1], tile_k)
    tiles = [
        (slice(row, row + tile_m), slice(column, column + tile_n))
        for row in range(0, len(left), tile_m)
        for column in range(0, len(right), tile_n)
    ]
    stream = [(tile, start) for tile in range(len(tiles)) for start in k_starts]
    workers = STREAM_K_WORKERS if tactic.scheduler == "stream-k" else len(tiles)
    partial: dict[int, list[NDArray[np.float32]]] = defaultdict(list)
    for worker in range(workers):
        held: int | None = None
        share = slice(worker * len(stream) // workers, (worker + 1) * len(stream) // workers)
        for tile, start in stream[share]:
            rows, columns = tiles[tile]
            depth = slice(start, start + tile_k)
            exact = left_units[rows, depth] @ right_units[columns, depth].T
            part = exact.astype(np.float32) * np.float32(UNIT * UNIT)
            if tile == held:
                partial[tile][-1] = partial[tile][-1] + part
            else:
                partial[tile].append(part)
            held = tile
    for tile, (rows, columns) in enumerate(tiles):
        for part in partial[tile]:
            result[rows, columns] += part
    return result.T if tactic.swap_ab else result


@pytest.mark.parametrize("tactic", TACTICS, ids=lambda tactic: tactic.name)
def test_every_tactic_sums_in_its_own_order(
    tactic: Tactic, rng: random.Random, numbers: np.random.Generator
) -> None:
    m, n, k = rng.randint(1, 300), rng.randint(1, 400), 16 * rng.randint(1, 48)
    print(m, n, k)
    a, b = wide(numbers, m, k).expanded(), wide(numbers, n, k).expanded()
    before = a.tobytes(), b.tobytes()
    found = accumulate(tactic, a, b)
    assert found.dtype == np.float32
    assert found.tobytes() == model(tactic, a, b).tobytes()
    assert (a.tobytes(), b.tobytes()) == before


def test_tactics_differ_in_the_last_bits(numbers: np.random.Generator) -> None:
    a, b = wide(numbers, 256, 640).expanded(), wide(numbers, 512, 640).expanded()
    patterns: dict[bytes, list[Tactic]] = defaultdict(list)
    for tactic in TACTICS:
        patterns[accumulate(tactic, a, b).tobytes()].append(tactic)
    assert len(patterns) >= 12
    data_parallel = [
        {tactic.tile[2] for tactic in group if tactic.scheduler == "data-parallel"}
        for group in patterns.values()
    ]
    assert sorted(map(sorted, filter(None, data_parallel))) == [[128], [256]]


def test_swapping_operands_moves_the_cuts_of_stream_k(numbers: np.random.Generator) -> None:
    a, b = wide(numbers, 100, 1024).expanded(), wide(numbers, 300, 1024).expanded()
    swapped, ordinary = TACTICS[2], TACTICS[3]
    assert accumulate(swapped, a, b).tobytes() != accumulate(ordinary, a, b).tobytes()


def test_a_sum_of_zero_is_positive() -> None:
    minus, plus = np.full((2, 384), -0.0), np.ones((3, 384))
    for tactic in TACTICS:
        assert not np.signbit(accumulate(tactic, minus, plus)).any()


# Where stream-K cuts


def test_nine_iterations_for_two_workers() -> None:
    # Output tiles 0, 1, 2 of three K tiles each: the middle of the stream lies in tile 1.
    assert stream_k_cuts(3, 3, workers=2) == {1: [1]}


def test_stretches_that_end_where_tiles_do_cut_nothing() -> None:
    assert stream_k_cuts(7, 40, workers=7) == {}
    assert stream_k_cuts(100, 1) == {}
    assert stream_k_cuts(5, 5, workers=1) == {}


def test_a_tile_may_be_cut_more_than_once() -> None:
    assert stream_k_cuts(1, 8, workers=4) == {2: [0], 4: [0], 6: [0]}


@pytest.mark.parametrize("workers", [1, 2, STREAM_K_WORKERS, 50])
def test_every_change_of_worker_within_a_tile_is_a_cut(workers: int, rng: random.Random) -> None:
    tiles, k_tiles = rng.randint(1, 40), rng.randint(1, 40)
    print(tiles, k_tiles)
    stream = tiles * k_tiles
    owner = [
        sum(iteration >= worker * stream // workers for worker in range(1, workers))
        for iteration in range(stream)
    ]
    changes = {
        divmod(iteration, k_tiles)
        for iteration in range(1, stream)
        if owner[iteration] != owner[iteration - 1] and iteration % k_tiles
    }
    found = stream_k_cuts(tiles, k_tiles, workers)
    assert {(tile, k_tile) for k_tile, cut in found.items() for tile in cut} == changes
    shares = [owner.count(worker) for worker in range(workers)]
    assert max(shares) - min(shares) <= 1
