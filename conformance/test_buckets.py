"""BUCK: the hybrid buckets of M."""

import pytest

from pytest_nvfp4.model import hybrid_bucket, profile_list
from pytest_nvfp4.suite import contract

BOUNDARIES = [*profile_list(4096), *(2**power for power in range(13, 31))]
MAXIMA = [
    1,
    2,
    3,
    255,
    256,
    257,
    300,
    511,
    512,
    513,
    2047,
    2048,
    2049,
    3000,
    4096,
    4097,
    5000,
    8192,
    65_537,
    200_000,
    2**30,
]


@contract("BUCK-1")
def test_map_is_exact_around_every_boundary(nvfp4):
    around = sorted({m for b in BOUNDARIES for m in (b - 1, b, b + 1)})
    assert {m: nvfp4.subject.bucket(m) for m in around} == {m: hybrid_bucket(m) for m in around}


@contract("BUCK-1")
def test_map_is_exact_at_random_values(nvfp4):
    values = [nvfp4.rng.randrange(1, 2 ** nvfp4.rng.randrange(1, 31)) for _ in range(500)]
    assert {m: nvfp4.subject.bucket(m) for m in values} == {m: hybrid_bucket(m) for m in values}


@contract("BUCK-1")
def test_map_is_monotone_idempotent_and_never_below(nvfp4):
    start = nvfp4.rng.randrange(1, 4000)
    values = list(range(start, start + 600))
    buckets = [nvfp4.subject.bucket(m) for m in values]
    assert buckets == sorted(buckets)
    assert all(bucket >= m for m, bucket in zip(values, buckets, strict=True))
    assert [nvfp4.subject.bucket(bucket) for bucket in set(buckets)] == list(set(buckets))


@contract("BUCK-1")
@pytest.mark.parametrize("m", [0, -1, -(2**31)])
def test_zero_and_below_map_to_one(nvfp4, m):
    assert nvfp4.subject.bucket(m) == 1


@contract("BUCK-2")
@pytest.mark.parametrize("maximum", MAXIMA)
def test_profile_list_of_a_maximum(nvfp4, maximum):
    assert nvfp4.subject.profiles(maximum) == profile_list(maximum)


@contract("BUCK-2")
def test_profile_list_of_random_maxima(nvfp4):
    for maximum in [nvfp4.rng.randrange(1, 2 ** nvfp4.rng.randrange(1, 31)) for _ in range(100)]:
        profiles = nvfp4.subject.profiles(maximum)
        assert profiles == profile_list(maximum)
        assert profiles[-1] == maximum


@contract("BUCK-3")
def test_every_m_finds_what_tuning_published(nvfp4):
    for maximum in (1, 24, 300, 2001, 3000, 4097, nvfp4.rng.randrange(1, 9000)):
        published = {nvfp4.subject.bucket(profile) for profile in nvfp4.subject.profiles(maximum)}
        looked_up = {nvfp4.subject.bucket(m) for m in range(1, maximum + 1)}
        assert looked_up <= published, f"with a tuned maximum of {maximum}"
