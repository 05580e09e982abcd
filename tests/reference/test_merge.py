"""Merging two documents."""

import random
from dataclasses import fields

import pytest
from nvfp4_reference import Document, NativeMetadata, merged

from .documents import GB10, edited, random_document, verdict


def test_prior_plans_are_kept_and_current_ones_win(rng: random.Random) -> None:
    prior, current = random_document(rng, 20), random_document(rng, 20)
    shared = {key: (tactic + 1) % 32 for key, tactic in list(prior.plans.items())[:7]}
    current = Document(GB10, {**current.plans, **shared})
    found = merged(prior, current)
    assert found.plans == {**prior.plans, **current.plans}
    assert list(found.plans) == sorted(found.plans)
    assert found.metadata == GB10


def test_identities(rng: random.Random) -> None:
    document = random_document(rng, 30)
    nothing = Document(GB10, {})
    for pair in ((document, document), (document, nothing), (nothing, document)):
        assert merged(*pair) == document
    assert merged(nothing, nothing) == nothing


def test_order_does_not_matter(rng: random.Random) -> None:
    prior, current = random_document(rng, 30), random_document(rng, 30)
    shuffled = list(prior.plans.items())
    rng.shuffle(shuffled)
    again = merged(Document(GB10, dict(shuffled)), current)
    assert again.render() == merged(prior, current).render()


@pytest.mark.parametrize("name", [field.name for field in fields(NativeMetadata)])
def test_two_environments_do_not_merge(rng: random.Random, name: str) -> None:
    prior, current = random_document(rng), Document(edited(name), {})
    assert verdict(merged, prior, current) == ("foreign-environment", f"_metadata.{name}")
