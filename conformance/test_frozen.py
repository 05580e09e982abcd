"""FROZ: a map that must be complete, and that nobody changes."""

import os

import pytest

from pytest_nvfp4.faults import audit, strace
from pytest_nvfp4.faults.calls import changes_below
from pytest_nvfp4.implementations.messages import Rejected
from pytest_nvfp4.implementations.transports import IN_PROCESS, JSON_LINES
from pytest_nvfp4.plans import PlanKey, PlanMap
from pytest_nvfp4.suite import contract, over, requires
from pytest_nvfp4.suite.sessions import FROZEN, NO_CLOCK, SHAPES, full_map

N, K = SHAPES[0]


def frozen_session(nvfp4, **how):
    """Open a frozen session; ``session(**how)`` of the tools has the keywords."""
    return nvfp4.session(**{FROZEN: "1"} | how)


def serves(opened, plans):
    for key, tactic in plans.items():
        assert opened.plan(*key).tactic == tactic


@contract("FROZ-1")
@requires("native-document")
def test_complete_map_is_served_and_nothing_else_happens(nvfp4):
    nvfp4.write_cache_file(full_map())
    opened = frozen_session(nvfp4)
    opened.warm_up(timings=NO_CLOCK)
    serves(opened, full_map())
    assert opened.complete().saved == 0
    serves(opened, full_map())
    stats = opened.stats()
    assert (stats.loaded, stats.tuned, stats.rejected, stats.saved, stats.lazy) == (
        len(full_map()),
        0,
        0,
        0,
        0,
    )


@contract("FROZ-2")
@requires("scripted-timer")
@requires("native-document")
def test_one_missing_key_fails_and_measures_nothing(nvfp4):
    missing = nvfp4.rng.choice(list(full_map()))
    nvfp4.write_cache_file(PlanMap([(key, t) for key, t in full_map().items() if key != missing]))
    opened = frozen_session(nvfp4)
    answer = opened.try_warm_up(timings={"default": 1})
    assert isinstance(answer, Rejected), "a map with a hole was accepted as complete"
    assert answer.code == "frozen-miss"
    for number in missing:
        assert str(number) in answer.message, "the sentence does not name M, bucket, N and K"
    assert opened.trace() == ()
    assert opened.stats().tuned == 0


@contract("FROZ-3")
@requires("scripted-timer")
@pytest.mark.parametrize("content", [None, b"", b"{", b"[]", b"\0" * 32], ids=str)
def test_missing_or_rejected_file_fails(nvfp4, content):
    if content is not None:
        nvfp4.cache_file.write_bytes(content)
    opened = frozen_session(nvfp4)
    answer = opened.try_warm_up(timings={"default": 1})
    assert isinstance(answer, Rejected), "frozen without a usable file was accepted"
    assert opened.trace() == ()
    assert (nvfp4.cache_file.read_bytes() if nvfp4.cache_file.exists() else None) == content


@contract("FROZ-3")
@requires("flashinfer-import")
@pytest.mark.parametrize("content", [None, b"{"], ids=str)
def test_import_that_covers_every_key_is_enough(nvfp4, content):
    if content is not None:
        nvfp4.cache_file.write_bytes(content)
    opened = frozen_session(nvfp4, **nvfp4.write_import_file(full_map()))
    opened.warm_up(timings=NO_CLOCK)
    serves(opened, full_map())


@contract("FROZ-3")
@requires("flashinfer-import")
def test_import_that_does_not_cover_every_key_is_not(nvfp4):
    opened = frozen_session(
        nvfp4, **nvfp4.write_import_file(PlanMap(list(full_map().items())[:-1]))
    )
    assert isinstance(opened.try_warm_up(timings=NO_CLOCK), Rejected)


def _state(folder):
    paths = [folder, *sorted(folder.iterdir())]
    stats = [(p.name, p.stat().st_ino, p.stat().st_mtime_ns, p.stat().st_ctime_ns) for p in paths]
    return stats, [p.read_bytes() for p in paths[1:]]


def _use(opened):
    opened.warm_up(timings=NO_CLOCK)
    serves(opened, full_map())
    opened.complete()
    opened.try_plan(300, N, K)
    opened.close()


@contract("FROZ-4")
@over(IN_PROCESS)
@requires("native-document")
def test_nothing_on_disk_changes(nvfp4):
    nvfp4.write_cache_file(full_map())
    before = _state(nvfp4.cache_file.parent)
    with audit.audited() as calls:
        _use(frozen_session(nvfp4))
    assert any(call.path == str(nvfp4.cache_file) for call in calls), (
        "the audit heard nothing at all"
    )
    assert changes_below(calls, str(nvfp4.cache_file.parent)) == []
    assert _state(nvfp4.cache_file.parent) == before


@contract("FROZ-4")
@requires("native-document")
@pytest.mark.parametrize("content", ["nothing", "no JSON", "a map with a hole"])
def test_start_that_fails_changes_nothing(nvfp4, content):
    if content == "no JSON":
        nvfp4.cache_file.write_bytes(b"{")
    elif content == "a map with a hole":
        nvfp4.write_cache_file(PlanMap(list(full_map().items())[1:]))
    before = _state(nvfp4.cache_file.parent)
    opened = frozen_session(nvfp4)
    assert isinstance(opened.try_warm_up(timings=NO_CLOCK), Rejected)
    opened.close()
    assert _state(nvfp4.cache_file.parent) == before


@contract("FROZ-4")
@over(JSON_LINES)
@requires("native-document")
def test_no_system_call_changes_anything(nvfp4):
    if reason := strace.unavailable():
        pytest.skip(f"needs strace: {reason}")
    nvfp4.write_cache_file(full_map())
    before = _state(nvfp4.cache_file.parent)
    log = str(nvfp4.folder / "calls.log")
    traced = nvfp4.launch(prefix=strace.prefix(log))
    _use(frozen_session(nvfp4, by=traced))
    traced.transport.finish()
    calls = strace.read_log(log, str(nvfp4.cache_file.parent))
    assert any(call.path == str(nvfp4.cache_file) for call in calls), "the trace saw nothing at all"
    assert changes_below(calls, str(nvfp4.cache_file.parent)) == []
    assert _state(nvfp4.cache_file.parent) == before


@contract("FROZ-5")
@requires("scripted-timer")
@requires("native-document")
@requires("plan-map")
def test_frozen_stays_frozen_after_completion(nvfp4):
    nvfp4.write_cache_file(full_map())
    opened = frozen_session(nvfp4)
    opened.warm_up(timings=NO_CLOCK)
    opened.complete()
    for _ in range(2):
        answer = opened.try_plan(300, N, K, timings={"default": 1})
        assert isinstance(answer, Rejected), "a frozen session tuned"
        assert answer.code == "frozen-miss"
    many = opened.plan_many([(300, N, K)] * 2 + [(4, N, K)], {"default": 1})
    assert [getattr(p, "code", "served") for p in many.plans] == [*["frozen-miss"] * 2, "served"]
    assert opened.trace() == ()
    assert opened.stats().tuned == 0


@contract("FROZ-6")
@requires("native-document")
@pytest.mark.parametrize("what", ["deleted", "replaced", "emptied"])
def test_fate_of_the_file_after_loading_changes_nothing(nvfp4, what):
    nvfp4.write_cache_file(full_map())
    opened = frozen_session(nvfp4)
    opened.warm_up(timings=NO_CLOCK)
    if what == "deleted":
        nvfp4.cache_file.unlink()
    elif what == "replaced":
        os.replace(nvfp4.cache_file, nvfp4.cache_file.with_name("old"))
        nvfp4.write_cache_file(full_map(20))
    else:
        nvfp4.cache_file.write_bytes(b"")
    serves(opened, full_map())
    opened.complete()
    serves(opened, full_map())
    assert opened.plans() == full_map()
    assert PlanKey(300, N, K) not in opened.plans()
