"""PROF on a card: the sequence, and what failures leave behind."""

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from nvfp4_reference.errors import LaunchError, Rejected
from nvfp4_reference.gemm.cupy import CupyBackend
from nvfp4_reference.gemm.cupy.cupy_backend import CupyTimer
from nvfp4_reference.profiling import Profiler, Step, Timer

BROKEN = """
import numpy as np
from nvfp4_reference.errors import DeviceError
from nvfp4_reference.gemm import NumpyBackend
from nvfp4_reference.gemm.cupy import CupyBackend
from nvfp4_reference.gemm.cupy.cupy_backend import CupyTimer
from nvfp4_reference.profiling import Profiler

card = CupyBackend()
problem = card.prepare(4, 64, 64, 0)
good = problem.product.alpha

def run(tactic):
    problem.product.alpha = 8 if tactic == 3 else good
    card.run_tactic(tactic, problem)

timer = CupyTimer(problem.device, card._made.kernels, run)
trace = []
try:
    Profiler().select(timer, (4, 64, 64), 100, trace)
except DeviceError as error:
    print(error)
print(trace[-1])
print(card.available(), "|", card.reason())
try:
    card.run_tactic(0, problem)
except DeviceError as error:
    print("again:", error)
cpu = NumpyBackend()
prepared = cpu.prepare(4, 32, 64, 0)
cpu.run_tactic(0, prepared)
print(np.isfinite(cpu.output(prepared).astype(np.float32)).all())
"""


def test_a_tactic_is_chosen_by_the_exact_sequence(card: CupyBackend) -> None:
    trace: list[Step] = []
    timer: Timer[Any] = card.timer(16, 512, 1024)
    selection = Profiler().select(timer, (16, 512, 1024), 5000, trace)
    assert sorted(selection.microseconds) == list(range(32))
    assert min(selection.microseconds.values()) > 0
    once = ["run"] * 3 + ["synchronize", "delay", "event"] + ["run"] * 10 + ["event", "synchronize"]
    assert [step.step for step in trace] == once * 32


def test_the_card_is_busy_for_the_delay(card: CupyBackend) -> None:
    timer = card.timer(1, 32, 64)
    timer.delay(20_000)
    started = timer.event()
    assert not started.done, "the delay kernel had ended before the event was queued"
    timer.synchronize()
    assert started.done


def test_a_failed_launch_is_cleared(card: CupyBackend) -> None:
    problem = card.prepare(4, 64, 256, 0)
    card.run_tactic(0, problem)
    expected = card.output(problem)
    device = problem.device
    made = card._made
    assert made is not None
    memory = problem.workspace.ptr
    with device.active(), pytest.raises(LaunchError, match=r"expanding failed \(.*\); the card"):
        status = made.kernels.expand(memory, memory, 0, 32, memory, device.stream.ptr)
        device.check(status, "expanding")
    problem.product.k = 20  # no multiple of what a copy of 16 bytes needs
    with pytest.raises(LaunchError, match=r"launching tactic 0 .*CUTLASS"):
        card.run_tactic(0, problem)
    problem.product.k = 256
    card.run_tactic(0, problem)
    assert card.output(problem).tobytes() == expected.tobytes()


def test_a_failed_tactic_does_not_win_or_stop_others(card: CupyBackend) -> None:
    problem = card.prepare(4, 64, 256, 0)
    made = card._made
    assert made is not None

    def run(tactic: int) -> None:
        problem.product.k = 20 if tactic % 2 else 256
        card.run_tactic(tactic, problem)

    timer = CupyTimer(problem.device, made.kernels, run)
    selection = Profiler().select(timer, (4, 64, 256), 100, [])
    assert sorted(selection.microseconds) == list(range(0, 32, 2))
    with pytest.raises(Rejected, match="tactic 1 raised LaunchError"):
        Profiler().select(timer, (4, 64, 256), 100, [], tactics=[1, 3])


def test_no_memory_is_no_failed_tactic(card: CupyBackend) -> None:
    with pytest.raises(MemoryError, match="needs .* GB on the card, where .* GB are free"):
        card.prepare(2**20, 2**20, 2**17, 0)
    device = card.prepare(1, 32, 64, 0).device
    with pytest.raises(MemoryError, match="the card's memory is used up") as raised:
        device.allocate(2**50)
    assert "\n" not in str(raised.value)

    def run(tactic: int) -> None:
        device.check(2, "launching")

    made = card._made
    assert made is not None
    with pytest.raises(MemoryError):
        Profiler().select(CupyTimer(device, made.kernels, run), (1, 32, 64), 0, [])
    problem = card.prepare(3, 64, 64, 0)
    card.run_tactic(31, problem)
    assert np.isfinite(card.output(problem).astype(np.float32)).all()


def test_a_broken_card_ends_the_tuning(card: CupyBackend) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BROKEN], capture_output=True, text=True, check=False
    )
    lines = done.stdout.splitlines()
    assert len(lines) == 5, done.stdout + done.stderr
    assert "broke the use of the card" in lines[0]
    assert "tactic=3" in lines[1] or "synchronize" in lines[1]
    assert lines[2] == f"False | {lines[0]}"
    assert lines[3] == f"again: {lines[0]}"
    assert lines[4] == "True"


def test_tuning_leaves_a_caller_s_operands_alone(card: CupyBackend) -> None:
    problem = card.prepare(8, 64, 128, 5)
    before = problem.a.values.tobytes(), problem.b.scales.tobytes()
    card.run_tactic(0, problem)
    output = card.output(problem).tobytes()
    Profiler().select(card.timer(8, 64, 128), (8, 64, 128), 0, [])
    assert (problem.a.values.tobytes(), problem.b.scales.tobytes()) == before
    assert card.output(problem).tobytes() == output
