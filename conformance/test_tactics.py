"""TACT: the tactic ABI, that is, what the 32 ids mean."""

import copy
import dataclasses

import pytest

from pytest_nvfp4.implementations.messages import Rejected
from pytest_nvfp4.plans import TACTICS
from pytest_nvfp4.suite import contract, requires

OUTSIDE = [32, 33, 255, 256, 2**31 - 1, -1, -7, -(2**31)]


@contract("TACT-1")
def test_descriptors_are_the_upstream_ones_in_order(subject, description):
    assert subject.describe().tactics == TACTICS
    assert description.tactics == TACTICS


@contract("TACT-1")
def test_digest_is_that_of_the_descriptors(subject, launch, description):
    assert subject.tactic_digest(TACTICS) == description.tactic_digest
    if description.native_metadata:
        written = description.native_metadata["tactic_descriptor_digest"]
        assert written == description.tactic_digest, "documents carry another digest"
    assert (
        launch(variables={"PYTHONHASHSEED": "7"}).tactic_digest(TACTICS)
        == description.tactic_digest
    )


@contract("TACT-1")
def test_any_edit_changes_the_digest(subject):
    digests = [subject.tactic_digest(TACTICS)]
    for index, tactic in enumerate(TACTICS):
        other = "stream-k" if tactic.scheduler == "data-parallel" else "data-parallel"
        edits = [
            {"id": tactic.id + 32},
            {"swap_ab": not tactic.swap_ab},
            {"scheduler": other},
            *({"tile": tuple(v + (i == at) for i, v in enumerate(tactic.tile))} for at in range(3)),
            *({"cluster": tuple(1 + (i == at) for i in range(3))} for at in range(3)),
        ]
        for edit in edits:
            edited = list(TACTICS)
            edited[index] = dataclasses.replace(tactic, **edit)
            digests.append(subject.tactic_digest(edited))
    assert len(set(digests)) == len(digests), "two different descriptor lists share a digest"


@contract("TACT-1")
def test_any_reorder_changes_the_digest(subject, rng):
    digests = {subject.tactic_digest(TACTICS)}
    orders = {tuple(range(32))}
    for first in range(31):
        order = list(range(32))
        order[first], order[first + 1] = order[first + 1], order[first]
        orders.add(tuple(order))
    orders.add(tuple(rng.sample(range(32), 32)))
    digests |= {subject.tactic_digest([TACTICS[i] for i in order]) for order in orders}
    assert len(digests) == len(orders)
    assert subject.tactic_digest(TACTICS[:-1]) not in digests, "a missing descriptor goes unnoticed"
    assert subject.tactic_digest([*TACTICS, TACTICS[0]]) not in digests, "a 33rd goes unnoticed"


@contract("TACT-2")
@requires("native-document")
@pytest.mark.parametrize("tactic", OUTSIDE)
def test_native_tactic_outside_the_range_never_resolves(native, rng, tactic):
    document = native.document()
    index = rng.randrange(len(document["plans"]))
    document["plans"][index]["tactic_id"] = tactic
    native.rejects(document, "unknown-tactic", f"plans[{index}].tactic_id")


@contract("TACT-2")
@requires("flashinfer-import")
@pytest.mark.parametrize("tactic", OUTSIDE)
def test_imported_tactic_outside_the_range_never_resolves(flashinfer, rng, tactic):
    document = flashinfer.document()
    key = rng.choice([name for name in document if name != "_metadata"])
    document[key][1] = tactic
    flashinfer.rejects(document, "unknown-tactic", key)


def outside_in(document, rng):
    """The document with each tactic in turn that does not exist, and where it stands."""
    for tactic in OUTSIDE:
        index = rng.randrange(len(document["plans"]))
        spoiled = copy.deepcopy(document)
        spoiled["plans"][index]["tactic_id"] = tactic
        yield spoiled, f"plans[{index}].tactic_id"


def _is_refused(answer, member):
    assert isinstance(answer, Rejected), "a tactic that does not exist was passed on"
    assert (answer.code, answer.member) == ("unknown-tactic", member)


@contract("TACT-2")
@requires("merge")
@requires("native-document")
def test_merged_tactic_outside_the_range_never_resolves(subject, native, rng):
    for spoiled, member in outside_in(native.document(), rng):
        _is_refused(subject.merge(spoiled, native.document()), member)
        _is_refused(subject.merge(native.document(), spoiled), member)


@contract("TACT-2")
@requires("publication")
@requires("native-document")
def test_published_tactic_outside_the_range_never_resolves(subject, native, rng, tmp_path):
    path = tmp_path / "published.json"
    for spoiled, member in outside_in(native.document(), rng):
        _is_refused(subject.write_native(str(path), spoiled), member)
    assert not path.exists()
