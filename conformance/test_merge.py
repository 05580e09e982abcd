"""MERG: merging what a file holds with what this process tuned."""

import copy
import json
from pathlib import Path

import pytest

from pytest_nvfp4.implementations.messages import Rejected
from pytest_nvfp4.model import documents, facts
from pytest_nvfp4.plans import PlanMap
from pytest_nvfp4.suite import contract, requires
from pytest_nvfp4.suite.probe import near_misses
from pytest_nvfp4.suite.sessions import NATIVE_PATH, fastest, full_map
from pytest_nvfp4.suite.tools import random_plans


def halves(nvfp4):
    """Random plans for two documents with some keys in common, at which they disagree."""
    plans = list(random_plans(nvfp4.rng, 9).items())
    prior = PlanMap(plans[:6])
    return prior, PlanMap([(key, (tactic + 1) % 32) for key, tactic in plans[3:]])


def merge(nvfp4, prior, current):
    """Merge two documents, which must succeed: the merged document and its plans."""
    merged = nvfp4.subject.merge(copy.deepcopy(prior), copy.deepcopy(current))
    assert not isinstance(merged, Rejected), f"the merge was rejected: {merged.message}"
    own = nvfp4.own
    judgement = own.dialect.judge_kept(own.text(merged), own.metadata)
    assert judgement.accepted, f"the merged document is bad: {judgement.findings[0]}"
    return merged, judgement.plans


def shuffled(document, rng):
    """The same document, with its members and its entries in another order."""
    document = copy.deepcopy(document)
    rng.shuffle(document.get("plans", []))
    for owner in (document, *document.get("plans", [])):
        members = rng.sample(sorted(owner.items()), len(owner))
        owner.clear()
        owner.update(members)
    return document


@contract("MERG-1")
def test_prior_entries_are_kept_and_current_ones_win(nvfp4):
    prior, current = halves(nvfp4)
    _, plans = merge(nvfp4, nvfp4.own.document(prior), nvfp4.own.document(current))
    assert plans == dict(prior) | dict(current)


@contract("MERG-3")
@requires("publication")
@pytest.mark.parametrize("prior", ["foreign", "corrupt"])
def test_publishing_never_overwrites_what_does_not_merge(nvfp4, prior):
    path = nvfp4.folder / "plans.json"
    other = nvfp4.own.document()
    other["_metadata"]["gpu"] += " 2"
    path.write_bytes(nvfp4.own.text(other) if prior == "foreign" else nvfp4.own.text(other)[:100])
    before = path.read_bytes()
    answer = nvfp4.subject.write_native(str(path), nvfp4.own.document(halves(nvfp4)[1]))
    if not isinstance(answer, Rejected):
        gpu = json.loads(path.read_bytes())["_metadata"]["gpu"]
        pytest.fail(f"a {prior} file got our plans; its metadata say now that the gpu is {gpu!r}")
    assert answer.code == ("foreign-environment" if prior == "foreign" else "syntax")
    assert path.read_bytes() == before


@contract("MERG-1")
def test_metadata_is_the_current_ones(nvfp4):
    merged, _ = merge(nvfp4, *map(nvfp4.own.document, halves(nvfp4)))
    assert merged["_metadata"] == nvfp4.own.metadata


@contract("MERG-1")
@requires("keeps-native")
def test_result_is_sorted(nvfp4):
    documents = [nvfp4.own.document(half) for half in halves(nvfp4)]
    merged, _ = merge(nvfp4, *(shuffled(document, nvfp4.rng) for document in documents))
    rows = [(plan["m_bucket"], plan["n"], plan["k"]) for plan in merged["plans"]]
    assert rows == sorted(rows)


@contract("MERG-2")
def test_order_of_entries_does_not_matter(nvfp4):
    documents = [nvfp4.own.document(half) for half in halves(nvfp4)]
    expected = merge(nvfp4, *documents)
    for _ in range(5):
        assert merge(nvfp4, *(shuffled(document, nvfp4.rng) for document in documents)) == expected


@contract("MERG-2")
@pytest.mark.parametrize("other", ["itself", "nothing before", "nothing new"])
def test_identities(nvfp4, other):
    plans, _ = halves(nvfp4)
    document, empty = nvfp4.own.document(plans), nvfp4.own.document(PlanMap(()))
    prior, current = {
        "itself": (document, document),
        "nothing before": (empty, document),
        "nothing new": (document, empty),
    }[other]
    assert merge(nvfp4, prior, current)[1] == plans


@contract("MERG-3")
@requires("keeps-native")
@pytest.mark.parametrize("empty", ["neither", "prior", "current"])
@pytest.mark.parametrize("field", facts.NATIVE_METADATA)
def test_documents_of_two_environments_do_not_merge(nvfp4, field, empty):
    ours, theirs = halves(nvfp4)
    own = dict(nvfp4.native.metadata)
    if field != "format":
        own[field] = 11 if isinstance(own[field], int) else "NVIDIA GB10 rev.a"
    current = documents.native(own, {} if empty == "current" else ours)
    for other in near_misses(own[field]):
        prior = documents.native(own | {field: other}, {} if empty == "prior" else theirs)
        _do_not_merge(nvfp4.subject, prior, current, field)


@contract("MERG-3")
@requires("keeps-flashinfer")
@pytest.mark.parametrize("field", facts.FLASHINFER_METADATA)
def test_flashinfer_documents_of_two_environments_do_not_merge(nvfp4, field):
    prior, current = map(nvfp4.own.document, halves(nvfp4))
    prior["_metadata"][field] += " 2"
    _do_not_merge(nvfp4.subject, prior, current, field)


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
def test_save_merges_with_the_file(nvfp4):
    prior, current = halves(nvfp4)
    path = nvfp4.folder / "autotune_configs.json"
    path.write_bytes(nvfp4.own.text(nvfp4.own.document(prior)))
    expected = dict(prior) | dict(current)
    assert nvfp4.subject.write_native(str(path), nvfp4.own.document(current)) == len(expected)
    assert nvfp4.own.kept(path) == expected, "the file is not the merge of both"


def write(nvfp4, path, plans, **fields):
    """Write a document with these metadata fields in place of the subject's; return its bytes."""
    document = nvfp4.own.document(PlanMap(plans))
    document["_metadata"] |= fields
    path.write_bytes(nvfp4.own.text(document))
    return path.read_bytes()


NATIVE_FIELDS = ("architecture", "tactic_descriptor_digest", "build_id")


@contract("MERG-4")
@requires("warm-up")
@requires("own-document")
@pytest.mark.parametrize(
    "field",
    ["gpu", *(pytest.param(name, marks=requires("keeps-native")) for name in NATIVE_FIELDS)],
)
@pytest.mark.parametrize(
    "place", ["given path", pytest.param("default path", marks=requires("options"))]
)
def test_foreign_entries_are_never_laundered(nvfp4, field, place):
    value = nvfp4.own.metadata[field]
    foreign = {(1, 4096, 4096): 30, **full_map(20)}
    variables = {} if place == "given path" else {NATIVE_PATH: ""}
    path = nvfp4.cache_file
    if place == "default path":
        path = Path(nvfp4.session(**variables).stats().path)
    path.parent.mkdir(parents=True, exist_ok=True)
    before = write(nvfp4, path, foreign, **{field: value + (1 if isinstance(value, int) else "x")})
    opened = nvfp4.session(**variables)
    opened.warm_up(timings=fastest(9))
    opened.complete()
    assert path.read_bytes() == before, "a well-formed foreign file was overwritten"
    again = nvfp4.session(**variables)
    again.warm_up(timings=fastest(8))
    assert again.plans() == dict.fromkeys(full_map(), 8)


@contract("MERG-4")
@requires("warm-up")
@requires("keeps-flashinfer")
def test_entries_without_an_environment_are_never_laundered(nvfp4):
    stray = nvfp4.own.document(PlanMap({(1, 4096, 4096): 30}))
    del stray["_metadata"]
    nvfp4.cache_file.write_bytes(nvfp4.own.text(stray))
    opened = nvfp4.session()
    opened.warm_up(timings=fastest(9))
    opened.complete()
    judgement = nvfp4.own.dialect.judge_kept(nvfp4.cache_file.read_bytes(), nvfp4.own.metadata)
    assert (1, 4096, 4096) not in judgement.plans, "an entry of nowhere got our environment"


@contract("MERG-5")
@requires("warm-up")
@requires("own-document")
def test_what_others_added_in_between_stays(nvfp4):
    added = (1, 4096, 4096)
    write(nvfp4, nvfp4.cache_file, {(1, 16, 16): 7})
    opened = nvfp4.session()
    opened.warm_up(timings=fastest(9))
    write(nvfp4, nvfp4.cache_file, {added: 31, **dict.fromkeys(full_map(), 2)})
    opened.saved()
    plans = nvfp4.own.kept(nvfp4.cache_file)
    assert plans.get(added) == 31, "an entry that another process added was lost"
    assert {key: plans.get(key) for key in full_map()} == dict.fromkeys(full_map(), 9)


@contract("MERG-5")
@requires("warm-up")
@requires("own-document")
@pytest.mark.parametrize(
    "now", [b"{", b"\0" * 100, b"[" * 100_000, b"\xff", b"1" * 5000], ids=lambda b: ascii(b[:4])
)
def test_file_that_became_unreadable_loses_nothing(nvfp4, now):
    write(nvfp4, nvfp4.cache_file, list(full_map().items())[:3])
    opened = nvfp4.session()
    opened.warm_up()
    ready = opened.plans()
    nvfp4.cache_file.write_bytes(now)
    completed = opened.complete()
    assert completed.failure, "an unreadable file at a given path was replaced"
    assert completed.saved == 0
    assert nvfp4.cache_file.read_bytes() == now
    assert opened.plans() == ready, "the map in memory is out of service"


@contract("MERG-5")
@requires("warm-up")
@requires("own-document")
def test_file_that_was_deleted_in_between_is_written_anew(nvfp4):
    write(nvfp4, nvfp4.cache_file, {(1, 16, 16): 7})
    opened = nvfp4.session()
    opened.warm_up(timings=fastest(9))
    nvfp4.cache_file.unlink()
    opened.saved()
    assert nvfp4.own.kept(nvfp4.cache_file) == opened.plans()
