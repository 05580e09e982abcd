"""WARM: from start to serving."""

import errno
import os
import signal
from pathlib import Path

import pytest

from pytest_nvfp4.faults import denial, interpose
from pytest_nvfp4.implementations.messages import Rejected
from pytest_nvfp4.implementations.transports import IN_PROCESS, JSON_LINES
from pytest_nvfp4.plans import PlanKey, PlanMap
from pytest_nvfp4.suite import contract, over, requires
from pytest_nvfp4.suite.sessions import (
    MAX_TOKENS,
    NATIVE_PATH,
    NO_CLOCK,
    SHAPES,
    fastest,
    full_map,
    profile_keys,
)

N, K = SHAPES[0]


def lifecycle(answer):
    assert isinstance(answer, Rejected), f"accepted, as {answer}"
    assert answer.code == "lifecycle"


@contract("WARM-1")
@requires("own-document")
def test_loading_precedes_the_first_measurement(nvfp4):
    nvfp4.write_cache_file(full_map())
    opened = nvfp4.session()
    assert opened.warm_up(timings=NO_CLOCK).loaded == len(full_map())
    assert opened.plans() == full_map()


@contract("WARM-2")
@pytest.mark.parametrize("max_tokens", [1, 3, 300, 2049])
def test_one_pass_materialises_every_profile_of_every_shape(nvfp4, max_tokens):
    opened = nvfp4.session()
    done = opened.warm_up(max_tokens, timings=fastest(9))
    keys = profile_keys(max_tokens, SHAPES)
    assert opened.plans() == dict.fromkeys(keys, 9)
    assert (done.loaded, done.tuned) == (0, len(keys))
    for m in range(1, max_tokens + 1):
        assert opened.plan(m, N, K).tactic == 9


@contract("WARM-2")
@requires("own-document")
def test_only_missing_keys_are_tuned(nvfp4):
    there = PlanMap([(key, 20) for key in nvfp4.rng.sample(list(full_map()), 3)])
    nvfp4.write_cache_file(there)
    opened = nvfp4.session()
    done = opened.warm_up(timings=fastest(9))
    assert (done.loaded, done.tuned) == (3, len(full_map()) - 3)
    assert opened.plans() == dict.fromkeys(full_map(), 9) | dict(there)


@contract("WARM-3")
@requires("own-document")
def test_file_appears_only_at_completion(nvfp4):
    opened = nvfp4.session()
    opened.plan(1, N, K, timings=fastest(9))
    assert os.listdir(nvfp4.cache_file.parent) == []
    opened.warm_up(timings=fastest(9))
    assert os.listdir(nvfp4.cache_file.parent) == []
    assert opened.saved().saved == len(full_map())
    assert os.listdir(nvfp4.cache_file.parent) == [nvfp4.cache_file.name]
    assert nvfp4.own.kept(nvfp4.cache_file) == opened.plans()


@contract("WARM-3")
@requires("options")
@requires("own-document")
def test_file_appears_where_there_was_no_directory(nvfp4):
    opened = nvfp4.session(**{NATIVE_PATH: ""})
    path = Path(opened.stats().path)
    opened.warm_up(timings=fastest(9))
    assert not path.parent.exists()
    opened.saved()
    assert path.exists(), "a first start at the default path saves nothing"
    assert nvfp4.own.kept(path) == opened.plans()


@contract("WARM-4")
@requires("own-document")
@pytest.mark.parametrize("before", ["no file", "a file"])
@pytest.mark.parametrize("end", ["abandoned", "failed", "closed"])
def test_warm_up_that_does_not_complete_saves_nothing(nvfp4, before, end):
    old = nvfp4.write_cache_file(PlanMap({PlanKey(1, N, K): 7})) if before == "a file" else None
    opened = nvfp4.session()
    opened.plan(2, N, K, timings=fastest(9))
    if end == "failed":
        assert isinstance(opened.try_warm_up(timings=NO_CLOCK), Rejected)
        opened.close()
    else:
        opened.warm_up()
        assert end == "closed" or opened.subject.abandon(opened.name) is None
        opened.close()
    _nothing_new(nvfp4.cache_file, old)


@contract("WARM-4")
@over(JSON_LINES)
@requires("own-document")
@pytest.mark.parametrize("before", ["no file", "a file"])
@pytest.mark.parametrize("name", ["SIGTERM", "SIGKILL"])
def test_killed_warm_up_saves_nothing(nvfp4, before, name):
    old = nvfp4.write_cache_file(PlanMap({PlanKey(1, N, K): 7})) if before == "a file" else None
    doomed = nvfp4.launch()
    nvfp4.session(by=doomed).warm_up()
    os.kill(doomed.transport.pid, getattr(signal, name))
    doomed.transport.wait()
    _nothing_new(nvfp4.cache_file, old)


def _nothing_new(cache_file, old):
    assert os.listdir(cache_file.parent) == ([] if old is None else [cache_file.name])
    assert old is None or cache_file.read_bytes() == old


@contract("WARM-5")
def test_warm_up_inside_a_warm_up(nvfp4):
    opened = nvfp4.session()
    opened.warm_up()
    lifecycle(opened.try_warm_up())
    opened.saved()


@contract("WARM-5")
def test_completing_twice(nvfp4):
    opened = nvfp4.session()
    opened.warm_up()
    opened.saved()
    assert nvfp4.cache_file.exists(), "no file was published"
    saved = nvfp4.cache_file.read_bytes()
    lifecycle(opened.subject.complete(opened.name))
    assert nvfp4.cache_file.read_bytes() == saved


@contract("WARM-5")
def test_completing_without_the_maximum_token_pass(nvfp4):
    opened = nvfp4.session()
    lifecycle(opened.subject.complete(opened.name))
    opened.plan(1, N, K, timings=fastest(9))
    lifecycle(opened.subject.complete(opened.name))
    assert isinstance(opened.try_warm_up(timings=NO_CLOCK), Rejected)
    lifecycle(opened.subject.complete(opened.name))
    assert not nvfp4.cache_file.exists()


@contract("WARM-5")
def test_completing_what_was_abandoned(nvfp4):
    opened = nvfp4.session()
    opened.warm_up()
    assert opened.subject.abandon(opened.name) is None
    lifecycle(opened.subject.complete(opened.name))
    assert not nvfp4.cache_file.exists()


@contract("WARM-5")
def test_using_a_closed_session(nvfp4):
    opened = nvfp4.session()
    opened.warm_up()
    opened.close()
    lifecycle(opened.try_plan(1, N, K))
    lifecycle(opened.subject.complete(opened.name))
    lifecycle(opened.subject.close(opened.name))
    lifecycle(opened.subject.stats("no such session"))


@contract("WARM-6")
@requires("own-document")
@pytest.mark.parametrize(
    "content", [b"", b"{", b"\0" * 64, b"[]", b'{"_metadata": {}, "plans": []}']
)
def test_rejected_file_does_not_stop_warm_up(nvfp4, content):
    nvfp4.cache_file.write_bytes(content)
    opened = nvfp4.session()
    done = opened.warm_up(timings=fastest(9))
    assert (done.loaded, done.tuned) == (0, len(full_map()))
    assert len(done.rejected) == (0 if content == b"" else 1) or content == b""
    assert opened.plans() == dict.fromkeys(full_map(), 9)


def _keeps_serving(opened):
    completed = opened.complete()
    assert completed.failure, "a save that failed was not reported"
    assert completed.saved == 0
    assert opened.stats().saved == 0
    for key in full_map():
        assert opened.plan(*key).tactic == 9
    later = opened.plan(300, N, K, timings=fastest(4))
    assert later.tactic == 4 or later.source == "fallback"


@contract("WARM-7")
@over(IN_PROCESS)
@pytest.mark.parametrize("family", ["rename", "fsync"])
def test_failed_save_does_not_stop_serving(nvfp4, family):
    opened = nvfp4.session()
    opened.warm_up(timings=fastest(9))
    with interpose.failing(family, errno.ENOSPC):
        _keeps_serving(opened)
    assert os.listdir(nvfp4.cache_file.parent) == []


@contract("WARM-7")
@over(JSON_LINES)
def test_unwritable_directory_does_not_stop_serving(nvfp4):
    with denial.unwritable(nvfp4.folder / "sealed") as sealed:
        path = str(sealed.folder / "autotune_configs.json")
        opened = nvfp4.session(by=nvfp4.launch(prefix=sealed.prefix), **{NATIVE_PATH: path})
        opened.warm_up(timings=fastest(9))
        _keeps_serving(opened)
        assert os.listdir(sealed.folder) == []


@contract("WARM-8")
def test_miss_after_completion_is_lazy_and_reported_once_per_plan(nvfp4):
    opened = nvfp4.session()
    opened.plan(64, N, K, timings=fastest(1))
    opened.warm_up()
    opened.saved()
    assert opened.stats().lazy == 0, "what was tuned before completion is not lazy"
    for count, (m, n) in enumerate(((8, N), (16, N), (8, N + 16)), 1):
        assert opened.plan(m, n, K, timings=fastest(2)).lazy
        assert not opened.plan(m, n, K).lazy
        assert opened.stats().lazy == count
    assert opened.plan(MAX_TOKENS, N, K).lazy is False
