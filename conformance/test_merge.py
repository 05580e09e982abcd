"""MERG: merging what a file holds with what this process tuned."""

import copy

import pytest

from pytest_nvfp4.implementations.interface import Rejected
from pytest_nvfp4.model import documents, facts, judge_native
from pytest_nvfp4.plans import PlanMap
from pytest_nvfp4.suite import contract
from pytest_nvfp4.suite.fixtures import random_plans


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
@pytest.mark.parametrize("field", facts.NATIVE_METADATA)
def test_documents_of_two_environments_do_not_merge(subject, native, halves, field):
    prior, current = halves
    other = dict(native.metadata)
    other[field] = other[field] + (1 if isinstance(other[field], int) else "x")
    foreign = documents.native(other, documents.native_plans(prior))
    answer = subject.merge(foreign, current)
    assert isinstance(answer, Rejected), "documents of two environments were merged"
    codes = (
        ("unknown-format", "foreign-environment") if field == "format" else ("foreign-environment",)
    )
    assert answer.code in codes
    assert answer.member == f"_metadata.{field}"
