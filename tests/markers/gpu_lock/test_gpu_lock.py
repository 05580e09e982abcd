"""What markers ask for, which locks that means, and the record of a hold."""

import os
import time
from pathlib import Path

import pytest

from pytest_nvfp4.markers.gpu_lock import idle
from pytest_nvfp4.markers.gpu_lock.devices import Card
from pytest_nvfp4.markers.gpu_lock.hold_summary import Hold
from pytest_nvfp4.markers.gpu_lock.holding import HOLDS_VARIABLE, Lock, merge, plan_locks, take
from pytest_nvfp4.markers.gpu_lock.idle import Load
from pytest_nvfp4.markers.gpu_lock.lock_file import LockError, LockTimeoutError
from pytest_nvfp4.markers.gpu_lock.request import LockRequest, read_request
from pytest_nvfp4.markers.requests import RequestError

CARDS = (Card("GPU-a", "H200"), Card("GPU-b", "H200", ("MIG-5",)))


def options(**given):
    return ((), given)


def plan(**given):
    request = LockRequest(**given)
    environment = {"HOME": "/home/me"}
    return plan_locks(request, environment, Path("/project"), lambda: CARDS)


# --- Requests


def test_closest_marker_wins_option_by_option():
    marks = [options(timeout=5), options(timeout=9, path="/a"), options(path="/b", scope="session")]
    assert read_request(marks, LockRequest(require_idle=True)) == LockRequest(
        path="/a", timeout=5, scope="session", require_idle=True
    )


def test_bare_marker_is_the_defaults():
    assert read_request([options()], LockRequest(path="/x")) == LockRequest(path="/x")


@pytest.mark.parametrize(
    ("marks", "sentence"),
    [
        ([(("/tmp/x",), {})], "gpu_lock takes named options only; write path='/tmp/x' if "),
        ([options(pth="x")], "gpu_lock has no option 'pth'; it has path, timeout, "),
        ([options(path="")], "gpu_lock(path='') is not possible; use a path, such as '/tmp/gpu'"),
        ([options(path=3)], "gpu_lock(path=3) is not possible"),
        ([options(path="a\0b")], "is not possible; use a path"),
        ([options(timeout=-1)], "gpu_lock(timeout=-1) is not possible; use a number of seconds "),
        ([options(timeout=0)], "gpu_lock(timeout=0)"),
        ([options(timeout=True)], "gpu_lock(timeout=True)"),
        ([options(timeout="5")], "gpu_lock(timeout='5')"),
        ([options(timeout=float("nan"))], "gpu_lock(timeout=nan)"),
        ([options(timeout=float("inf"))], "gpu_lock(timeout=inf)"),
        ([options(devices="all")], "gpu_lock(devices='all') is not possible; use 'visible', or"),
        ([options(scope="module")], "gpu_lock(scope='module') is not possible; use 'function' or"),
        ([options(scope=None)], "gpu_lock(scope=None)"),
        ([options(require_idle=1)], "gpu_lock(require_idle=1) is not possible; use True or False"),
        ([options(), options(scope=[])], "gpu_lock(scope=[])"),
    ],
)
def test_mistakes_are_one_sentence(marks, sentence):
    with pytest.raises(RequestError) as caught:
        read_request(marks, LockRequest())
    text = str(caught.value)
    assert sentence in text
    assert "\n" not in text


# --- Plans


def test_whole_machine_is_its_path():
    assert plan() == (Lock(Path("/tmp/gpu")),)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("~/gpu.lock", "/home/me/gpu.lock"),
        ("$HOME/gpu.lock", "/home/me/gpu.lock"),
        ("${HOME}/gpu.lock", "/home/me/gpu.lock"),
        ("locks/gpu", "/project/locks/gpu"),
        ("../gpu", "/gpu"),
        ("/a//b/./c", "/a/b/c"),
    ],
)
def test_paths(path, expected):
    assert plan(path=path) == (Lock(Path(expected)),)


def test_home_has_to_be_there():
    with pytest.raises(RequestError, match="needs HOME, which is not set"):
        plan_locks(LockRequest(path="~/gpu"), {}, Path("/"), lambda: ())


def test_devices_share_the_machine():
    assert plan(devices=(1, 0)) == (
        Lock(Path("/tmp/gpu"), exclusive=False),
        Lock(Path("/tmp/gpu.GPU-a")),
        Lock(Path("/tmp/gpu.GPU-b")),
    )


def test_instances_share_their_card():
    assert plan(devices=("MIG-5",)) == (
        Lock(Path("/tmp/gpu"), exclusive=False),
        Lock(Path("/tmp/gpu.GPU-b"), exclusive=False),
        Lock(Path("/tmp/gpu.GPU-b.MIG-5")),
    )


def test_unknown_device_is_a_mistake_in_the_marker():
    with pytest.raises(RequestError, match=r"gpu_lock\(devices=\(2,\)\): there is no device 2"):
        plan(devices=(2,))


def test_merged_locks_are_as_exclusive_as_anybody_needs_them():
    both = merge([*plan(devices=("MIG-5",)), *plan(devices=(1,)), *plan()])
    assert both == (
        Lock(Path("/tmp/gpu")),
        Lock(Path("/tmp/gpu.GPU-b")),
        Lock(Path("/tmp/gpu.GPU-b.MIG-5")),
    )


# --- Holds


def hold_of(paths, number=1, timeout=None, environment=None, notice=print):
    return take(
        [Lock(path) for path in paths],
        timeout=timeout,
        number=number,
        environment=environment or {},
        notice=notice,
    )


def test_record_travels_in_properties():
    hold = Hold(id="1", path="/a", acquired="t", waited="0.1", adopted_from="", owner="me")
    properties = [("mine", 1), *hold.properties()]
    assert Hold.from_properties(properties) == hold
    assert Hold.from_properties(properties[:-1]) is None
    assert Hold.from_properties([]) is None


def test_holds_differ_and_say_when(path, free):
    first = hold_of([path], 1)
    assert not free(path)
    assert first.record.released == ""
    assert first.release() == ""
    assert free(path)
    second = hold_of([path], 2)
    second.release()
    assert first.record.id != second.record.id
    times = [t for one in (first, second) for t in (one.record.acquired, one.record.released)]
    assert times == sorted(times)
    assert all(time.endswith("+00:00") for time in times)
    assert f"pid {os.getpid()} of " in first.record.owner


def test_all_or_nothing(tmp_path, hold, free):
    one, two = tmp_path / "1", tmp_path / "2"
    hold(two)
    with pytest.raises(LockTimeoutError):
        hold_of([one, two], timeout=0.01)
    assert free(one)


def test_hold_within_our_own_hold_is_adopted_and_says_so(path, free):
    outer = hold_of([path], 1)
    inner = hold_of([path], 2, environment={HOLDS_VARIABLE: outer.environment()})
    assert inner.record.id == outer.record.id
    assert f"pid {os.getpid()} " in inner.record.adopted_from
    assert inner.release() == ""
    assert not free(path)
    outer.release()
    assert free(path)


def test_variable_that_does_not_fit_the_kernel_is_not_believed(path):
    outer = hold_of([path], 1)
    forged = outer.environment().replace(f"={os.getpid()}", "=1")
    inner = hold_of([path], 2, environment={HOLDS_VARIABLE: forged})
    assert inner.record.id.startswith(f"{os.getpid()}-")
    inner.release()
    outer.release()


def test_adopted_hold_that_ended_is_told(path):
    outer = hold_of([path], 1)
    inner = hold_of([path], 2)
    outer.release()
    assert "ended while the test ran; keep it until pytest ends" in inner.release()


def test_our_own_shared_hold_is_no_exclusive_one(path):
    shared = take([Lock(path, False)], timeout=None, number=1, environment={}, notice=print)
    with pytest.raises(LockError, match="but shared; hold it exclusively"):
        hold_of([path], 2)
    shared.release()


def test_waiting_is_counted(path, hold, monkeypatch):
    monkeypatch.setattr("pytest_nvfp4.markers.gpu_lock.lock_file.FIRST_NOTICE", 0.0)
    holder = hold(path)
    start = time.monotonic()
    told = []
    held = hold_of([path], notice=lambda text: (told.append(text), holder.release()))
    assert told
    assert 0 < float(held.record.waited) <= time.monotonic() - start
    held.release()


# --- Idle cards

OWN = frozenset({10})


def load(*pids, used=0):
    return Load(frozenset(pids), used)


@pytest.mark.parametrize(
    ("before", "part"),
    [
        (load(), ""),
        (load(10, used=2**33), ""),
        (load(10, 2**22 + 1), f"GPU-a is not idle: pid {2**22 + 1} (ended) uses it"),
    ],
)
def test_idle_before(before, part):
    told = idle.busy_before({"GPU-a": before}, OWN)
    assert part in told
    assert bool(told) == bool(part)


@pytest.mark.parametrize(
    ("before", "after", "part"),
    [
        (load(), load(), ""),
        (load(), load(used=idle.TOLERANCE), ""),
        (load(), load(used=idle.TOLERANCE + 2**20), "65 MiB of memory on GPU-a were not returned"),
        (load(), load(10, used=2**33), ""),
        (load(), load(2**22 + 1), f"the test left pid {2**22 + 1} (ended) on GPU-a"),
        (load(used=2**33), load(), ""),
    ],
)
def test_idle_after(before, after, part):
    told = idle.busy_after({"GPU-a": before}, {"GPU-a": after}, OWN)
    assert part in told
    assert bool(told) == bool(part)
