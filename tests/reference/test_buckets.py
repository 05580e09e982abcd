"""The hybrid M buckets."""

import random

import pytest
from nvfp4_reference import buckets
from nvfp4_reference.buckets import HYBRID_BUCKETS, bucket, profile_buckets, profiles


@pytest.mark.parametrize(
    ("m", "expected"),
    [
        *((-5, 1), (0, 1), (1, 1), (3, 4), (129, 256), (256, 256), (257, 512), (513, 768)),
        *((2001, 2048), (2048, 2048), (2049, 2560), (4096, 4096), (4097, 8192), (8193, 16384)),
    ],
)
def test_the_map_at_its_edges(m: int, expected: int) -> None:
    assert bucket(m) == expected


def test_the_map_is_the_smallest_bucket_that_is_large_enough(rng: random.Random) -> None:
    ordered = sorted(HYBRID_BUCKETS)
    samples = [*range(1, 4200), *(rng.randrange(1, 2**30) for _ in range(1000))]
    for m in samples:
        assert bucket(m) == next(b for b in ordered if b >= m)
        assert bucket(bucket(m)) == bucket(m)


@pytest.mark.parametrize(
    ("maximum", "count", "tail"),
    [
        (1, 1, [1]),
        (3, 3, [1, 2, 3]),
        (300, 10, [256, 300]),
        (2048, 16, [1792, 2048]),
        (3000, 18, [2560, 3000]),
        (4096, 20, [3584, 4096]),
        (8192, 21, [4096, 8192]),
        (2**31 + 5, 40, [2**31, 2**31 + 5]),
    ],
)
def test_the_profile_list(maximum: int, count: int, tail: list[int]) -> None:
    found = profiles(maximum)
    assert len(found) == count
    assert found[-len(tail) :] == tail
    assert found == sorted(set(found))


@pytest.mark.parametrize("maximum", [1, 2, 3, 100, 300, 2047, 3000, 5000])
def test_every_m_up_to_the_maximum_finds_its_plan(maximum: int) -> None:
    kept = profile_buckets(maximum)
    assert len(kept) == len(profiles(maximum))
    assert {bucket(m) for m in range(maximum + 1)} == set(kept)


def test_a_maximum_without_rows_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        buckets.profiles(0)


@pytest.mark.parametrize("largest", [1, 256, 4096])
def test_the_table_is_the_function(largest: int) -> None:
    assert buckets.bucket_table(largest) == tuple(map(bucket, range(largest + 1)))
