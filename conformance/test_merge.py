"""MERG: merging what a file holds with what this process tuned."""

import copy
from pathlib import Path

import pytest

from pytest_nvfp4.implementations.interface import Rejected
from pytest_nvfp4.model import documents, facts, judge_native
from pytest_nvfp4.plans import PlanMap
from pytest_nvfp4.suite import contract, requires
from pytest_nvfp4.suite.fixtures import random_plans
from pytest_nvfp4.suite.probe import near_misses
from pytest_nvfp4.suite.sessions import NATIVE_PATH, fastest, full_map


@pytest.fixture
def halves(native, rng):
    """Two documents of one environment with some keys in common, at which they disagree."""
    plans = list(random_plans(rng, 9).items())
    prior = PlanMap(plans[:6])
    current = PlanMap([(key, (tactic + 1) % 32) for key, tactic in plans[3:]])
    return native.document(prior), native.document(current)


def merge(subject, prior, current):
    merged = subject.merge(copy.deepcopy(prior), copy.deepcopy(current))
    assert not isinstance(merged, Rejected), f"the merge was rejected: {merged.message}"
    judgement = judge_native(documents.native_bytes(merged), current["_metadata"])
    assert judgement.accepted, f"the merged document is bad: {judgement.findings[0]}"
    return merged


@contract("MERG-1")
def test_prior_entries_are_kept_and_current_ones_win(subject, halves):
    prior, current = halves
    merged = merge(subject, prior, current)
    expected = documents.merged(prior, current)
    assert documents.native_plans(merged) == documents.native_plans(expected)


@contract("MERG-3")
@requires("publication")
@pytest.mark.parametrize("prior", ["foreign", "corrupt"])
def test_publishing_never_overwrites_what_does_not_merge(subject, native, halves, tmp_path, prior):
    path = tmp_path / "plans.json"
    other = native.metadata | {"gpu": native.metadata["gpu"] + " 2"}
    data = documents.native_bytes(documents.native(other, native.plans))
    path.write_bytes(data if prior == "foreign" else data[:100])
    before = path.read_bytes()
    answer = subject.write_native(str(path), halves[1])
    assert isinstance(answer, Rejected), f"a {prior} file was overwritten"
    assert answer.code == ("foreign-environment" if prior == "foreign" else "syntax")
    assert path.read_bytes() == before


@contract("MERG-1")
def test_metadata_is_the_current_ones(subject, halves):
    prior, current = halves
    assert merge(subject, prior, current)["_metadata"] == current["_metadata"]


@contract("MERG-1")
def test_result_is_sorted(subject, halves, rng):
    prior, current = halves
    rng.shuffle(prior["plans"])
    rng.shuffle(current["plans"])
    rows = [(p["m_bucket"], p["n"], p["k"]) for p in merge(subject, prior, current)["plans"]]
    assert rows == sorted(rows)


@contract("MERG-2")
def test_order_of_entries_does_not_matter(subject, halves, rng):
    prior, current = halves
    expected = merge(subject, prior, current)
    for _ in range(5):
        for document in (prior, current):
            rng.shuffle(document["plans"])
            document["plans"] = [
                dict(rng.sample(sorted(p.items()), len(p))) for p in document["plans"]
            ]
        assert merge(subject, prior, current) == expected


@contract("MERG-2")
@pytest.mark.parametrize("other", ["itself", "nothing before", "nothing new"])
def test_identities(subject, halves, native, other):
    document, _ = halves
    empty = native.document() | {"plans": []}
    prior, current = {
        "itself": (document, document),
        "nothing before": (empty, document),
        "nothing new": (document, empty),
    }[other]
    merged = merge(subject, prior, current)
    assert documents.native_plans(merged) == documents.native_plans(document)


@contract("MERG-3")
@pytest.mark.parametrize("empty", ["neither", "prior", "current"])
@pytest.mark.parametrize("field", facts.NATIVE_METADATA)
def test_documents_of_two_environments_do_not_merge(subject, native, halves, field, empty):
    ours, theirs = (documents.native_plans(half) for half in halves)
    own = dict(native.metadata)
    if field != "format":
        own[field] = 11 if isinstance(own[field], int) else "NVIDIA GB10 rev.a"
    current = documents.native(own, {} if empty == "current" else ours)
    for other in near_misses(own[field]):
        prior = documents.native(own | {field: other}, {} if empty == "prior" else theirs)
        _do_not_merge(subject, prior, current, field)


def _do_not_merge(subject, prior, current, field):
    answer = subject.merge(prior, current)
    assert isinstance(answer, Rejected), "documents of two environments were merged"
    codes = (
        ("unknown-format", "foreign-environment") if field == "format" else ("foreign-environment",)
    )
    assert answer.code in codes
    assert answer.member == f"_metadata.{field}"


@contract("MERG-1")
@requires("publication")
def test_save_merges_with_the_file(subject, halves, tmp_path):
    prior, current = halves
    path = tmp_path / "autotune_configs.json"
    path.write_bytes(documents.native_bytes(prior))
    expected = documents.native_plans(documents.merged(prior, current))
    assert subject.write_native(str(path), current) == len(expected)
    judgement = judge_native(path.read_bytes(), current["_metadata"])
    assert judgement.plans == expected, "the file is not the merge of both"


def write(path, metadata, plans):
    document = documents.native(metadata, plans)
    path.write_bytes(documents.native_bytes(document))
    return path.read_bytes()


@contract("MERG-4")
@requires("warm-up")
@pytest.mark.parametrize("field", ["gpu", "architecture", "tactic_descriptor_digest", "build_id"])
@pytest.mark.parametrize("place", ["given path", "default path"])
def test_foreign_entries_are_never_laundered(session, native, tmp_path, cache_file, field, place):
    other = dict(native.metadata)
    other[field] = other[field] + (1 if isinstance(other[field], int) else "x")
    foreign = PlanMap({(1, 4096, 4096): 30, **full_map(20)})
    variables = {} if place == "given path" else {NATIVE_PATH: ""}
    path = Path(session(**variables).stats().path)
    path.parent.mkdir(parents=True, exist_ok=True)
    before = write(path, other, foreign)
    opened = session(**variables)
    opened.warm_up(timings=fastest(9))
    opened.complete()
    assert path.read_bytes() == before, "a well-formed foreign file was overwritten"
    again = session(**variables)
    again.warm_up(timings=fastest(8))
    assert again.plans() == dict.fromkeys(full_map(), 8)


@contract("MERG-5")
@requires("warm-up")
def test_what_others_added_in_between_stays(session, native, cache_file):
    added = (1, 4096, 4096)
    write(cache_file, native.metadata, PlanMap({(1, 16, 16): 7}))
    opened = session()
    opened.warm_up(timings=fastest(9))
    write(cache_file, native.metadata, PlanMap({added: 31, **dict.fromkeys(full_map(), 2)}))
    opened.saved()
    plans = judge_native(cache_file.read_bytes(), native.metadata).plans
    assert plans.get(added) == 31, "an entry that another process added was lost"
    assert {key: plans.get(key) for key in full_map()} == dict.fromkeys(full_map(), 9)


@contract("MERG-5")
@requires("warm-up")
@pytest.mark.parametrize(
    "now", [b"{", b"\0" * 100, b"[" * 100_000, b"\xff", b"1" * 5000], ids=lambda b: ascii(b[:4])
)
def test_file_that_became_unreadable_loses_nothing(session, native, cache_file, now):
    write(cache_file, native.metadata, full_map())
    opened = session()
    opened.warm_up()
    cache_file.write_bytes(now)
    completed = opened.complete()
    assert completed.failure, "an unreadable file at a given path was replaced"
    assert completed.saved == 0
    assert cache_file.read_bytes() == now
    assert opened.plans() == full_map(), "the map in memory is out of service"


@contract("MERG-5")
@requires("warm-up")
def test_file_that_was_deleted_in_between_is_written_anew(session, native, cache_file):
    write(cache_file, native.metadata, PlanMap({(1, 16, 16): 7}))
    opened = session()
    opened.warm_up(timings=fastest(9))
    cache_file.unlink()
    opened.saved()
    assert judge_native(cache_file.read_bytes(), native.metadata).plans == opened.plans()
