"""The parts of FlashInfer's adapter that need no FlashInfer."""

import logging
import math
import os
import sys
import threading
import types

import pytest
from nvfp4_adapters import flashinfer_install, flashinfer_operation
from nvfp4_adapters.concurrent_requests import ConcurrentRequests
from nvfp4_adapters.errors import (
    BlockedRequestError,
    ImplementationError,
    MissingImplementationError,
    Rejected,
)
from nvfp4_adapters.flashinfer_files import TunerLog
from nvfp4_adapters.scripted_device import ScriptedDevice, _Event
from nvfp4_adapters.session_process import SessionProcess

from pytest_nvfp4.model.documents import plan_key

# --- Finding FlashInfer


@pytest.fixture
def modules(monkeypatch):
    """``modules(torch=…, flashinfer=…)``: what can be imported; None means that it is absent."""
    monkeypatch.setenv("FLASHINFER_LOGGING_LEVEL", "error")

    def place(**found):
        for name, module in found.items():
            monkeypatch.setitem(sys.modules, name, module)

    return place


def test_torch_that_is_missing(modules):
    modules(torch=None)
    with pytest.raises(MissingImplementationError, match="torch") as caught:
        flashinfer_install.load()
    assert "make flashinfer" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("version", ["0.6.12", "0.6.14", "1.0"])
def test_flashinfer_of_another_version(modules, version):
    package = types.ModuleType("flashinfer")
    package.__version__ = version
    modules(torch=types.ModuleType("torch"), flashinfer=package)
    with pytest.raises(MissingImplementationError) as caught:
        flashinfer_install.load()
    assert f"FlashInfer {version} is installed, but this adapter knows" in str(caught.value)


# --- Keys


def test_key_is_the_one_that_flashinfer_writes():
    for key in ((1, 16, 16), (512, 5120, 6144), (2048, 34816, 5120)):
        assert flashinfer_operation.key_text(key) == plan_key(*key)


def test_only_entries_that_a_request_can_reach_are_products():
    good = plan_key(512, 5120, 6144)
    names = ["_generation", "some_op", good + " ", good.replace("384", "385"), good.lower(), good]
    assert list(flashinfer_operation.shapes_in(names)) == [(512, 5120, 6144)]


@pytest.mark.parametrize("content", [b"", b"[1]", b"\xff", b"[" * 100_000, b'{"_metadata": {}}'])
def test_file_that_holds_nothing_to_ask_for(tmp_path, content):
    path = tmp_path / "file.json"
    path.write_bytes(content)
    assert flashinfer_operation.keys_in(str(path)) == []
    assert flashinfer_operation.keys_in(str(tmp_path / "absent")) == []


# --- FlashInfer's log


@pytest.fixture
def log():
    logger = logging.Logger("flashinfer")
    log = TunerLog(logger)
    log.write = logger.warning
    return log


def test_counts_that_it_logs(log):
    assert log.count("Saved") is None
    log.write("[Autotuner]: Loaded 64 configs from /a/file")
    log.write("[Autotuner]: Saved 7 configs to /a/file (3 new, 4 from previous config)")
    log.write("[AutoTuner]: No tuned config covers fp4_gemm input_shapes=…; falling back")
    assert (log.count("Loaded"), log.count("Saved"), log.misses) == (64, 7, 1)
    log.clear()
    assert (log.count("Loaded"), log.misses) == (None, 0)


def test_field_that_it_names_as_different(log):
    assert log.mismatch is None
    log.write(
        "[Autotuner]: Cache file /gpu: saved=1 vs current=2/x was created in a different "
        "environment (cudnn_version: saved=None vs current=9, gpu: saved=a vs current=b). Ignoring"
    )
    assert log.mismatch[0] == "_metadata.cudnn_version"


# --- The clock


def test_time_is_that_of_the_runs_between_two_events():
    device = ScriptedDevice()
    start, end = _Event(device), _Event(device)
    with device.scripted({"default": 100, "3": "nan", "5": 7.25}):
        device.run(3)
        start.record()
        device.run(5)
        device.run(6)
        end.record()
        device.run(3)
    assert start.elapsed_time(end) == math.fsum((0.00725, 0.1))


def test_script_that_raises_and_no_script():
    device = ScriptedDevice()
    with device.scripted({"default": "raise"}), pytest.raises(Exception, match="tactic 2 raises"):
        device.run(2)
    with pytest.raises(RuntimeError, match="no device to measure on"):
        device.run(2)


def test_preparation_takes_no_time_and_is_noted():
    device = ScriptedDevice()
    device.begin()
    device.run(-1)
    device.delay(5)
    assert device.steps == [
        {"step": "run", "tactic": -1},
        {"step": "delay", "microseconds": 5},
    ]


# --- Concurrent requests


def test_tuning_runs_on_once_the_ready_ones_are_answered():
    order = []

    def ask(index):
        if index == 0:
            concurrent.on_tuning()
        order.append(index)
        return index

    concurrent = ConcurrentRequests(ask, 3, [1, 2], None)
    assert concurrent.run() == [0, 1, 2]
    assert order[-1] == 0


def test_ready_one_that_waits_for_the_tuning_is_reported(monkeypatch):
    monkeypatch.setattr("nvfp4_adapters.concurrent_requests.PATIENCE_SECONDS", 0.05)
    done = threading.Event()

    def ask(index):
        if index == 0:
            concurrent.on_tuning()
            done.set()
        else:
            done.wait(60)

    concurrent = ConcurrentRequests(ask, 2, [1], None)
    with pytest.raises(BlockedRequestError, match="waited for the tuning"):
        concurrent.run()


def test_error_of_a_request_is_raised():
    def ask(index):
        raise KeyError(index)

    with pytest.raises(KeyError):
        ConcurrentRequests(ask, 1, [], None).run()


# --- A process for each session


class Worker:
    def __init__(self, path):
        self.path = path

    def add(self, a, b):
        return a + b

    def reject(self):
        raise Rejected("syntax", "here", "no.")

    def break_down(self):
        raise IndexError("out of range")

    def leave(self):
        os._exit(3)

    def open_something(self):
        """Begin what saves at its end, as FlashInfer's context does."""

        def saving():
            try:
                yield
            finally:
                self.path.write_text("saved")

        self.running = saving()
        next(self.running)


def test_what_a_forked_object_does_comes_back(tmp_path):
    process = SessionProcess(Worker, tmp_path / "file")
    assert process.call("add", 2, 3) == 5
    with pytest.raises(Rejected) as caught:
        process.call("reject")
    assert (caught.value.code, caught.value.member, str(caught.value)) == ("syntax", "here", "no.")
    with pytest.raises(ImplementationError, match="IndexError: out of range"):
        process.call("break_down")
    with pytest.raises(ImplementationError, match="ended during leave"):
        process.call("leave")
    process.end()


def test_ending_a_forked_object_runs_nothing_of_it(tmp_path):
    path = tmp_path / "file"
    process = SessionProcess(Worker, path)
    process.call("open_something")
    process.end()
    assert not path.exists()
