"""TACT: the tactic ABI, that is, what the 32 ids mean."""

import copy
import dataclasses

import pytest

from pytest_nvfp4.implementations.messages import Rejected
from pytest_nvfp4.plans import TACTICS
from pytest_nvfp4.suite import contract, requires

OUTSIDE = [32, 33, 255, 256, 2**31 - 1, -1, -7, -(2**31)]


@contract("TACT-1")
def test_descriptors_are_the_upstream_ones_in_order(nvfp4):
    assert nvfp4.subject.describe().tactics == TACTICS
    assert nvfp4.description.tactics == TACTICS


@contract("TACT-1")
def test_digest_is_that_of_the_descriptors(nvfp4):
    assert nvfp4.subject.tactic_digest(TACTICS) == nvfp4.description.tactic_digest
    if nvfp4.description.native_metadata:
        written = nvfp4.description.native_metadata["tactic_descriptor_digest"]
        assert written == nvfp4.description.tactic_digest, "documents carry another digest"
    assert (
        nvfp4.launch(variables={"PYTHONHASHSEED": "7"}).tactic_digest(TACTICS)
        == nvfp4.description.tactic_digest
    )


@contract("TACT-1")
def test_any_edit_changes_the_digest(nvfp4):
    digests = [nvfp4.subject.tactic_digest(TACTICS)]
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
            digests.append(nvfp4.subject.tactic_digest(edited))
    assert len(set(digests)) == len(digests), "two different descriptor lists share a digest"


@contract("TACT-1")
def test_any_reorder_changes_the_digest(nvfp4):
    digests = {nvfp4.subject.tactic_digest(TACTICS)}
    orders = {tuple(range(32))}
    for first in range(31):
        order = list(range(32))
        order[first], order[first + 1] = order[first + 1], order[first]
        orders.add(tuple(order))
    orders.add(tuple(nvfp4.rng.sample(range(32), 32)))
    digests |= {nvfp4.subject.tactic_digest([TACTICS[i] for i in order]) for order in orders}
    assert len(digests) == len(orders)
    assert nvfp4.subject.tactic_digest(TACTICS[:-1]) not in digests, (
        "a missing descriptor goes unnoticed"
    )
    assert nvfp4.subject.tactic_digest([*TACTICS, TACTICS[0]]) not in digests, (
        "a 33rd goes unnoticed"
    )


@contract("TACT-2")
@requires("native-document")
@pytest.mark.parametrize("tactic", OUTSIDE)
def test_native_tactic_outside_the_range_never_resolves(nvfp4, tactic):
    document = nvfp4.native.document()
    index = nvfp4.rng.randrange(len(document["plans"]))
    document["plans"][index]["tactic_id"] = tactic
    nvfp4.native.rejects(document, "unknown-tactic", f"plans[{index}].tactic_id")


@contract("TACT-2")
@requires("flashinfer-import")
@pytest.mark.parametrize("tactic", OUTSIDE)
def test_imported_tactic_outside_the_range_never_resolves(nvfp4, tactic):
    document = nvfp4.flashinfer.document()
    key = nvfp4.rng.choice([name for name in document if name != "_metadata"])
    document[key][1] = tactic
    nvfp4.flashinfer.rejects(document, "unknown-tactic", key)


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
def test_merged_tactic_outside_the_range_never_resolves(nvfp4):
    for spoiled, member in outside_in(nvfp4.native.document(), nvfp4.rng):
        _is_refused(nvfp4.subject.merge(spoiled, nvfp4.native.document()), member)
        _is_refused(nvfp4.subject.merge(nvfp4.native.document(), spoiled), member)


@contract("TACT-2")
@requires("publication")
@requires("native-document")
def test_published_tactic_outside_the_range_never_resolves(nvfp4):
    path = nvfp4.folder / "published.json"
    for spoiled, member in outside_in(nvfp4.native.document(), nvfp4.rng):
        _is_refused(nvfp4.subject.write_native(str(path), spoiled), member)
    assert not path.exists()
