"""LOOK: where the plan of a request comes from."""

import pytest

from pytest_nvfp4.model import documents
from pytest_nvfp4.plans import PlanKey, PlanMap
from pytest_nvfp4.suite import contract, requires
from pytest_nvfp4.suite.sessions import SHAPES, fastest, full_map

N, K = SHAPES[0]


@contract("LOOK-1")
@requires("warm-up")
@requires("native-document")
@requires("flashinfer-import")
def test_sources_in_their_order(nvfp4):
    live, both, native, nowhere = (PlanKey(m, N, K) for m in (1, 2, 4, 8))
    kept = PlanMap({live: 11, both: 12, native: 13})
    document = documents.native(nvfp4.description.native_metadata, kept)
    nvfp4.cache_file.write_bytes(documents.native_bytes(document))
    variables = nvfp4.write_import_file(PlanMap({live: 21, both: 22}))
    opened = nvfp4.session(**variables)
    assert opened.plan(*live, timings=fastest(1)).tactic == 1
    opened.warm_up(max_tokens=4, shapes=[(N, K)])
    served = {key: opened.plan(*key) for key in (live, both, native)}
    assert {key: (p.tactic, p.source) for key, p in served.items()} == {
        live: (1, "live"),
        both: (22, "import"),
        native: (13, "native"),
    }
    tuned = opened.plan(*nowhere, timings=fastest(4))
    assert (tuned.tactic, tuned.source) == (4, "tuned")


@contract("LOOK-2")
@requires("scripted-timer")
def test_hit_measures_nothing(nvfp4):
    opened = nvfp4.session()
    tactic = nvfp4.rng.randrange(32)
    opened.plan(4, N, K, timings=fastest(tactic))
    trace, stats = opened.trace(), opened.stats()
    for _ in range(3):
        hit = opened.plan(4, N, K)  # on a clock that would fail
        assert (hit.tactic, hit.tuned) == (tactic, False)
    assert opened.trace() == trace
    assert opened.stats() == stats


@contract("LOOK-3")
@requires("warm-up")
@requires("own-document")
def test_later_load_never_replaces_a_live_result(nvfp4):
    nvfp4.write_cache_file(full_map(20))
    opened = nvfp4.session()
    assert opened.plan(2, N, K, timings=fastest(3)).tactic == 3
    opened.warm_up()
    assert opened.plan(2, N, K).tactic == 3
    assert opened.plans()[PlanKey(2, N, K)] == 3


@contract("LOOK-3")
@requires("own-document")
@requires("session")
def test_file_that_is_read_by_name_never_replaces_a_live_result(nvfp4):
    opened, key = nvfp4.session(), PlanKey(2, N, K)
    opened.plan(*key, timings=fastest(3))
    nvfp4.own.read(nvfp4.own.write(nvfp4.own.document(PlanMap({key: 20}))), session=opened.name)
    assert opened.plan(*key).tactic == 3
    assert opened.plans() == {key: 3}


@contract("LOOK-4")
def test_miss_tunes_once_and_serves_the_same_request(nvfp4):
    opened = nvfp4.session()
    tactic = nvfp4.rng.randrange(1, 32)
    first = opened.plan(3, N, K, timings=fastest(tactic))
    assert (first.tactic, first.source, first.tuned) == (tactic, "tuned", True)
    again = opened.plan(4, N, K)  # the same bucket
    assert (again.tactic, again.source, again.tuned) == (tactic, "live", False)
    assert opened.stats().tuned == 1
    assert opened.plans() == {(4, N, K): tactic}


@contract("LOOK-4")
@requires("warm-up")
def test_miss_after_completion_is_tuned_too(nvfp4):
    opened = nvfp4.session()
    opened.warm_up(max_tokens=4)
    opened.saved()
    tactic = nvfp4.rng.randrange(1, 32)
    missed = opened.plan(300, N, K, timings=fastest(tactic))
    assert missed.source != "fallback", f"tactic {missed.tactic} serves without being measured"
    assert (missed.tactic, missed.tuned) == (tactic, True)
    assert opened.plan(300, N, K).tactic == tactic


@contract("LOOK-5")
@pytest.mark.parametrize("other", [(5, N, K), (1, N, K), (4, N + 16, K), (4, N, K + 16), (4, K, N)])
def test_any_other_identity_misses(nvfp4, other):
    opened = nvfp4.session()
    opened.plan(4, N, K, timings=fastest(7))
    missed = opened.plan(*other, timings=fastest(9))
    assert (missed.tactic, missed.tuned) == (9, True)
    assert opened.plan(4, N, K).tactic == 7


@contract("LOOK-6")
@requires("warm-up")
def test_m_beyond_the_tuned_range_is_counted_and_reported_once(nvfp4):
    opened = nvfp4.session()
    opened.warm_up(max_tokens=4)
    opened.saved()
    assert opened.stats().lazy == 0
    beyond = opened.plan(300, N, K, timings=fastest(6))
    assert beyond.lazy
    for _ in range(3):
        assert not opened.plan(300, N, K).lazy
    assert opened.stats().lazy == 1
    opened.plan(5, N, K, timings=fastest(6))
    assert opened.stats().lazy == 2


@contract("LOOK-7")
@requires("warm-up")
@requires("fresh-process")
def test_sharing_is_the_same_in_memory_and_after_a_fresh_process(nvfp4):
    requests = [
        (nvfp4.rng.randrange(1, 700), N + 16 * nvfp4.rng.randrange(2), K) for _ in range(40)
    ]
    opened = nvfp4.session()
    tactics = [opened.plan(*r, timings=fastest(i % 32)).tactic for i, r in enumerate(requests)]
    opened.warm_up(max_tokens=1)
    opened.saved()
    kept = opened.plans()
    fresh = nvfp4.session(by=nvfp4.launch())
    fresh.warm_up(max_tokens=1)
    assert [fresh.plan(*request).tactic for request in requests] == tactics
    assert fresh.plans() == kept
