"""MERG: merging what a file holds with what this process tuned."""

import copy
import json
from pathlib import Path

import pytest

from pytest_nvfp4.implementations.messages import Rejected
from pytest_nvfp4.model import documents, facts
from pytest_nvfp4.plans import PlanMap
from pytest_nvfp4.suite import contract, requires
from pytest_nvfp4.suite.fixtures import random_plans
from pytest_nvfp4.suite.probe import near_misses
from pytest_nvfp4.suite.sessions import NATIVE_PATH, fastest, full_map


@pytest.fixture
def halves(rng):
    """The plans of two documents with some keys in common, at which they disagree."""
    plans = list(random_plans(rng, 9).items())
    prior = PlanMap(plans[:6])
    return prior, PlanMap([(key, (tactic + 1) % 32) for key, tactic in plans[3:]])


@pytest.fixture
def merge(subject, own):
    """``merge(prior, current)``: what becomes of two documents that must merge."""

    def ask(prior, current):
        merged = subject.merge(copy.deepcopy(prior), copy.deepcopy(current))
        assert not isinstance(merged, Rejected), f"the merge was rejected: {merged.message}"
        judgement = own.dialect.judge_kept(own.text(merged), own.metadata)
        assert judgement.accepted, f"the merged document is bad: {judgement.findings[0]}"
        return merged, judgement.plans

    return ask


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
def test_prior_entries_are_kept_and_current_ones_win(own, merge, halves):
    prior, current = halves
    _, plans = merge(own.document(prior), own.document(current))
    assert plans == dict(prior) | dict(current)


@contract("MERG-3")
@requires("publication")
@pytest.mark.parametrize("prior", ["foreign", "corrupt"])
def test_publishing_never_overwrites_what_does_not_merge(subject, own, halves, tmp_path, prior):
    path = tmp_path / "plans.json"
    other = own.document()
    other["_metadata"]["gpu"] += " 2"
    path.write_bytes(own.text(other) if prior == "foreign" else own.text(other)[:100])
    before = path.read_bytes()
    answer = subject.write_native(str(path), own.document(halves[1]))
    if not isinstance(answer, Rejected):
        gpu = json.loads(path.read_bytes())["_metadata"]["gpu"]
        pytest.fail(f"a {prior} file got our plans; its metadata say now that the gpu is {gpu!r}")
    assert answer.code == ("foreign-environment" if prior == "foreign" else "syntax")
    assert path.read_bytes() == before


@contract("MERG-1")
def test_metadata_is_the_current_ones(own, merge, halves):
    merged, _ = merge(*map(own.document, halves))
    assert merged["_metadata"] == own.metadata


@contract("MERG-1")
@requires("keeps-native")
def test_result_is_sorted(own, merge, halves, rng):
    merged, _ = merge(*(shuffled(own.document(half), rng) for half in halves))
    rows = [(plan["m_bucket"], plan["n"], plan["k"]) for plan in merged["plans"]]
    assert rows == sorted(rows)


@contract("MERG-2")
def test_order_of_entries_does_not_matter(own, merge, halves, rng):
    documents = [own.document(half) for half in halves]
    expected = merge(*documents)
    for _ in range(5):
        assert merge(*(shuffled(document, rng) for document in documents)) == expected


@contract("MERG-2")
@pytest.mark.parametrize("other", ["itself", "nothing before", "nothing new"])
def test_identities(own, merge, halves, other):
    document, empty = own.document(halves[0]), own.document(PlanMap(()))
    prior, current = {
        "itself": (document, document),
        "nothing before": (empty, document),
        "nothing new": (document, empty),
    }[other]
    assert merge(prior, current)[1] == halves[0]


@contract("MERG-3")
@requires("keeps-native")
@pytest.mark.parametrize("empty", ["neither", "prior", "current"])
@pytest.mark.parametrize("field", facts.NATIVE_METADATA)
def test_documents_of_two_environments_do_not_merge(subject, native, halves, field, empty):
    ours, theirs = halves
    own = dict(native.metadata)
    if field != "format":
        own[field] = 11 if isinstance(own[field], int) else "NVIDIA GB10 rev.a"
    current = documents.native(own, {} if empty == "current" else ours)
    for other in near_misses(own[field]):
        prior = documents.native(own | {field: other}, {} if empty == "prior" else theirs)
        _do_not_merge(subject, prior, current, field)


@contract("MERG-3")
@requires("keeps-flashinfer")
@pytest.mark.parametrize("field", facts.FLASHINFER_METADATA)
def test_flashinfer_documents_of_two_environments_do_not_merge(subject, own, halves, field):
    prior, current = map(own.document, halves)
    prior["_metadata"][field] += " 2"
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
def test_save_merges_with_the_file(subject, own, halves, tmp_path):
    prior, current = halves
    path = tmp_path / "autotune_configs.json"
    path.write_bytes(own.text(own.document(prior)))
    expected = dict(prior) | dict(current)
    assert subject.write_native(str(path), own.document(current)) == len(expected)
    assert own.kept(path) == expected, "the file is not the merge of both"


@pytest.fixture
def write(own):
    """``write(path, plans, other metadata fields)`` gives the bytes of the file."""

    def put(path, plans, **fields):
        document = own.document(PlanMap(plans))
        document["_metadata"] |= fields
        path.write_bytes(own.text(document))
        return path.read_bytes()

    return put


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
def test_foreign_entries_are_never_laundered(session, own, write, cache_file, field, place):
    value = own.metadata[field]
    foreign = {(1, 4096, 4096): 30, **full_map(20)}
    variables = {} if place == "given path" else {NATIVE_PATH: ""}
    path = cache_file if place == "given path" else Path(session(**variables).stats().path)
    path.parent.mkdir(parents=True, exist_ok=True)
    before = write(path, foreign, **{field: value + (1 if isinstance(value, int) else "x")})
    opened = session(**variables)
    opened.warm_up(timings=fastest(9))
    opened.complete()
    assert path.read_bytes() == before, "a well-formed foreign file was overwritten"
    again = session(**variables)
    again.warm_up(timings=fastest(8))
    assert again.plans() == dict.fromkeys(full_map(), 8)


@contract("MERG-4")
@requires("warm-up")
@requires("keeps-flashinfer")
def test_entries_without_an_environment_are_never_laundered(session, own, cache_file):
    stray = own.document(PlanMap({(1, 4096, 4096): 30}))
    del stray["_metadata"]
    cache_file.write_bytes(own.text(stray))
    opened = session()
    opened.warm_up(timings=fastest(9))
    opened.complete()
    judgement = own.dialect.judge_kept(cache_file.read_bytes(), own.metadata)
    assert (1, 4096, 4096) not in judgement.plans, "an entry of nowhere got our environment"


@contract("MERG-5")
@requires("warm-up")
@requires("own-document")
def test_what_others_added_in_between_stays(session, own, write, cache_file):
    added = (1, 4096, 4096)
    write(cache_file, {(1, 16, 16): 7})
    opened = session()
    opened.warm_up(timings=fastest(9))
    write(cache_file, {added: 31, **dict.fromkeys(full_map(), 2)})
    opened.saved()
    plans = own.kept(cache_file)
    assert plans.get(added) == 31, "an entry that another process added was lost"
    assert {key: plans.get(key) for key in full_map()} == dict.fromkeys(full_map(), 9)


@contract("MERG-5")
@requires("warm-up")
@requires("own-document")
@pytest.mark.parametrize(
    "now", [b"{", b"\0" * 100, b"[" * 100_000, b"\xff", b"1" * 5000], ids=lambda b: ascii(b[:4])
)
def test_file_that_became_unreadable_loses_nothing(session, write, cache_file, now):
    write(cache_file, list(full_map().items())[:3])
    opened = session()
    opened.warm_up()
    ready = opened.plans()
    cache_file.write_bytes(now)
    completed = opened.complete()
    assert completed.failure, "an unreadable file at a given path was replaced"
    assert completed.saved == 0
    assert cache_file.read_bytes() == now
    assert opened.plans() == ready, "the map in memory is out of service"


@contract("MERG-5")
@requires("warm-up")
@requires("own-document")
def test_file_that_was_deleted_in_between_is_written_anew(session, own, write, cache_file):
    write(cache_file, {(1, 16, 16): 7})
    opened = session()
    opened.warm_up(timings=fastest(9))
    cache_file.unlink()
    opened.saved()
    assert own.kept(cache_file) == opened.plans()
