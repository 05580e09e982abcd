"""DIAG: what a session says about itself."""

import re

import pytest

from pytest_nvfp4.implementations.transports import IN_PROCESS, JSON_LINES
from pytest_nvfp4.model import documents, facts
from pytest_nvfp4.plans import PlanMap
from pytest_nvfp4.suite import contract, over, requires
from pytest_nvfp4.suite.sessions import (
    DELAY,
    FROZEN,
    IMPORT_PATH,
    NO_CLOCK,
    SHAPES,
    fastest,
    full_map,
)

N, K = SHAPES[0]


def counts(opened):
    stats = opened.stats()
    return stats.loaded, stats.tuned, stats.rejected, stats.saved, stats.lazy


@contract("DIAG-1")
@requires("warm-up")
@requires("native-document")
def test_counts_are_right_at_every_step(nvfp4):
    there = PlanMap(list(full_map().items())[:2])
    nvfp4.write_cache_file(there)
    opened, total = nvfp4.session(), len(full_map())
    assert counts(opened) == (0, 0, 0, 0, 0)
    opened.warm_up(timings=fastest(9))
    assert counts(opened) == (2, total - 2, 0, 0, 0)
    opened.saved()
    assert counts(opened) == (2, total - 2, 0, total, 0)
    opened.plan(300, N, K, timings=fastest(9))
    assert counts(opened) == (2, total - 1, 0, total, 1)
    assert opened.plans() == dict.fromkeys(full_map(), 9) | dict(there) | {(512, N, K): 9}


@contract("DIAG-1")
@requires("warm-up")
@requires("native-document")
def test_saved_counts_what_the_file_holds(nvfp4):
    opened = nvfp4.session()
    opened.warm_up(timings=fastest(9))
    others = PlanMap({(1, 4096, 4096): 31})
    document = documents.native(nvfp4.description.native_metadata, others)
    nvfp4.cache_file.write_bytes(documents.native_bytes(document))
    total = len(full_map()) + len(others)
    assert opened.saved().saved == opened.stats().saved == total


@contract("DIAG-1")
@requires("warm-up")
@requires("native-document")
def test_path_and_mode_are_right(nvfp4):
    nvfp4.write_cache_file(full_map())
    assert nvfp4.session().stats().path == str(nvfp4.cache_file)
    modes = {
        "read-write": nvfp4.session().stats().mode,
        "frozen": nvfp4.session(**{FROZEN: "1"}).stats().mode,
        "process-local": nvfp4.session(VT_FP4_PERSISTENT_CACHE="0").stats().mode,
        "bypass": nvfp4.session(VT_FP4_PLAN_CACHE="0").stats().mode,
    }
    assert modes == {mode: mode for mode in modes}


@contract("DIAG-2")
def test_fingerprint_is_16_hex_digits_of_the_environment_alone(nvfp4):
    opened = nvfp4.session()
    fingerprint = opened.fingerprint()
    assert re.fullmatch("[0-9a-f]{16}", fingerprint)
    opened.plan(4, N, K, timings=fastest(3))
    assert opened.fingerprint() == fingerprint
    for variables in (
        {"HOME": str(nvfp4.folder / "other")},
        {FROZEN: "1"},
        {"VT_FP4_DIRECT_SF": "0"},
        {"VT_FP4_AUTOTUNE_CACHE_PATH": str(nvfp4.folder / "x.json")},
        {DELAY: "5000"},
    ):
        assert nvfp4.session(**variables).fingerprint() == fingerprint, variables


@contract("DIAG-2")
def test_fingerprint_is_the_same_in_every_process(nvfp4):
    fingerprint = nvfp4.session().fingerprint()
    for seed in ("0", "1"):
        other = nvfp4.launch(variables={"PYTHONHASHSEED": seed})
        assert nvfp4.session(by=other).fingerprint() == fingerprint


@contract("DIAG-2")
def test_fingerprint_changes_with_the_environment(nvfp4):
    prints = [nvfp4.session(**{DELAY: str(delay)}).fingerprint() for delay in (0, 1, 1000, 5000)]
    assert len(set(prints)) == len(prints)


@contract("DIAG-3")
@requires("warm-up")
@requires("native-document")
@pytest.mark.parametrize("field", facts.NATIVE_METADATA)
def test_rejected_file_is_reported_with_code_and_member(nvfp4, field):
    document = documents.native(nvfp4.description.native_metadata, full_map())
    document["_metadata"][field] = None
    nvfp4.cache_file.write_bytes(documents.native_bytes(document))
    done = nvfp4.session().warm_up()
    assert [(r.code, r.member) for r in done.rejected] == [("wrong-type", f"_metadata.{field}")]


@contract("DIAG-3")
@requires("warm-up")
@requires("flashinfer-import")
@pytest.mark.parametrize("field", facts.FLASHINFER_METADATA)
def test_rejected_import_is_reported_with_code_and_member(nvfp4, field):
    metadata = dict(nvfp4.description.import_metadata) | {field: "another"}
    path = nvfp4.folder / "imported.json"
    path.write_bytes(documents.flashinfer_bytes(metadata, full_map()))
    done = nvfp4.session(**{IMPORT_PATH: str(path)}).warm_up()
    reported = [(r.code, r.member) for r in done.rejected]
    assert reported == [("foreign-environment", f"_metadata.{field}")]


def assert_discreet(text, *secrets):
    for secret in secrets:
        assert secret not in text, f"a request logged {secret!r}"


@contract("DIAG-4")
@over(IN_PROCESS)
@requires("warm-up")
def test_requests_log_no_path_and_no_variable(nvfp4):
    opened = nvfp4.session(UNRELATED="hunter2-7f3a")
    opened.warm_up()
    opened.saved()
    with nvfp4.captured() as output:
        for m in range(1, 5):
            opened.plan(m, N, K)
            opened.plan(m * 500, N, K, timings=fastest(1))
    assert_discreet(output.text, str(nvfp4.cache_file.parent), "hunter2-7f3a")


@contract("DIAG-4")
@over(JSON_LINES)
@requires("warm-up")
def test_requests_of_a_process_write_no_path_and_no_variable(nvfp4):
    talking = nvfp4.launch()
    opened = nvfp4.session(by=talking, UNRELATED="hunter2-7f3a")
    opened.warm_up(timings=fastest(0))
    opened.saved()
    before = len(talking.transport.errors())
    for m in range(1, 5):
        opened.plan(m, N, K)
        opened.plan(m * 500, N, K, timings=fastest(1))
    assert opened.try_plan(1, N, K, timings=NO_CLOCK)
    assert_discreet(
        talking.transport.errors()[before:], str(nvfp4.cache_file.parent), "hunter2-7f3a"
    )
