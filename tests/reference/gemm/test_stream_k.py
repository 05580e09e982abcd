"""Where stream-K cuts."""

import random

import pytest
from nvfp4_reference.gemm.accumulation import STREAM_K_WORKERS, stream_k_cuts


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
