"""benchmarks/flashinfer_second_opinion.py as far as a machine without a card can run it."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
SCRIPT = ROOT / "benchmarks" / "flashinfer_second_opinion.py"

ON_A_CPU = """
import sys
import flashinfer_second_opinion as benchmark
from nvfp4_adapters import flashinfer_install
from nvfp4_adapters.scripted_device import ScriptedDevice
from nvfp4_reference.gemm import NumpyBackend
from nvfp4_reference.profiling import Profiler

SHAPE = (4, 48, 64)
fastest, raising, seed = map(int, sys.argv[1:])
back_end, device = NumpyBackend(), ScriptedDevice()
problem = back_end.prepare(*SHAPE, seed)
outputs = {}


class Timer:
    '''NumPy multiplies, and the clock is scripted: both sides see the same one.'''

    def run(self, tactic):
        device.run(tactic)
        back_end.run_tactic(tactic, problem)
        outputs[tactic] = back_end.output(problem).tobytes()

    synchronize, delay, event = device.synchronize, device.delay, device.event

    def elapsed_microseconds(self, start, end):
        return 1000 * device.between(start, end)


flashinfer = flashinfer_install.load()
device.install(flashinfer)
script = {str(tactic): 10.0 + tactic for tactic in range(32)}
script |= {str(fastest): 5.0, str(raising): "raise"}
with device.scripted(script):
    assert benchmark.flashinfer_choice(flashinfer, Timer(), SHAPE) == fastest
    theirs, device.steps = device.steps, []
    assert outputs.keys() == set(range(32)) - {raising}
    for tactic, output in outputs.items():
        back_end.run_tactic(tactic, problem)
        assert back_end.output(problem).tobytes() == output
    Profiler().select(Timer(), SHAPE, benchmark.DELAY, [])
    ours, device.steps = device.steps, []
    assert theirs == ours, "the two measure otherwise"
    found = benchmark.compare(flashinfer, Timer(), SHAPE, 2)
assert (found.theirs, found.ours, found.shape) == (fastest, fastest, SHAPE), found
assert len(found.means) == 4 and min(found.means, key=found.means.get) == fastest, found
assert found.regret(fastest) == 0
with device.scripted({"default": "raise"}):
    try:
        benchmark.flashinfer_choice(flashinfer, Timer(), SHAPE)
    except RuntimeError as error:
        assert "none had a time" in str(error)
    else:
        raise SystemExit("a fallback was taken for a choice")
print("both chose", found.ours)
"""

WHOLE = """
import contextlib, sys, types
import flashinfer_second_opinion as benchmark
import nvfp4_reference.gemm.cupy
import tvm_ffi
from nvfp4_adapters import flashinfer_install
from nvfp4_adapters.scripted_device import ScriptedDevice

how, *arguments = sys.argv[1:]
device = ScriptedDevice()
device.timings = {"default": 2.0, "9": 1.0}
current = []


class Stream:
    cuda_stream = 4096


@contextlib.contextmanager
def made_current(what):
    current.append(what)
    yield
    current.remove(what)


class Card:
    '''The CuPy back end: what it queues takes scripted time, and a delay the time it is asked for.'''

    def __init__(self, progress=None):
        pass

    def reason(self):
        return "there is no card." if how == "no card" else None

    def timer(self, m, n, k):
        return self

    def run(self, tactic):
        assert current[:2] == [Stream.cuda_stream, "CuPy's"], "nobody made one stream current"
        device.run(tactic)

    def delay(self, microseconds):
        device.delay(microseconds)
        device._durations.append(microseconds / 1000)

    def elapsed_microseconds(self, start, end):
        return 1000 * device.between(start, end)

    synchronize, event = device.synchronize, device.event


flashinfer = flashinfer_install.load()
device.install(flashinfer)
if how == "flashinfer":
    flashinfer.tuner_module.delay_kernel = Card().delay
cuda = flashinfer.torch.cuda
cuda.Stream = Stream
cuda.stream = lambda stream: made_current(getattr(stream, "cuda_stream", "FlashInfer's, again"))
cuda.get_device_name = lambda: "a card that is not there"
sys.modules["cupy"] = types.SimpleNamespace(
    cuda=types.SimpleNamespace(ExternalStream=lambda pointer: made_current("CuPy's"))
)
tvm_ffi.use_torch_stream = lambda context: context
nvfp4_reference.gemm.cupy.CupyBackend = Card
sys.exit(benchmark.main(arguments))
"""


@pytest.fixture
def benchmark(monkeypatch):
    monkeypatch.syspath_prepend(SCRIPT.parent)
    import flashinfer_second_opinion

    return flashinfer_second_opinion


def test_regret_is_over_the_fastest_of_all_that_was_measured_again(benchmark):
    one = benchmark.Choices((1, 2, 3), theirs=4, ours=5, means={4: 11.0, 5: 12.0, 6: 10.0})
    assert one.regret(4) == pytest.approx(0.1)
    assert one.regret(5) == pytest.approx(0.2)
    assert one.regret(6) == 0


def test_table_counts_each_weight_and_all(benchmark):
    found = [
        benchmark.Choices((1, 5120, 6144), 4, 4, {4: 10.0, 5: 11.0}),
        benchmark.Choices((2, 5120, 6144), 5, 4, {4: 10.0, 5: 11.0}),
        benchmark.Choices((2048, 34816, 17408), 5, 6, {4: 1000.0, 5: 1030.0, 6: 1250.0}),
    ]
    lines = benchmark.table(found)
    assert max(map(len, lines)) <= 80
    assert lines[2].split() == ["5120", "6144", "2", "1", "5.00%", "10.00%", "0.00%", "0.00%"]
    assert lines[3].split() == ["34816", "17408", "1", "0", "3.00%", "3.00%", "25.00%", "25.00%"]
    assert lines[4].split() == ["all", "3", "1", "3.00%", "10.00%", "0.00%", "25.00%"]
    assert lines[6] == "FlashInfer's worst: M=2 N=5120 K=6144, tactic 5 (11.0 µs; 4 took 10.0)"
    assert "reference's worst: M=2048 N=34816 K=17408, tactic 6 (1250.0 µs;" in lines[7]


def test_without_flashinfer_nothing_is_measured_and_it_says_so():
    done = subprocess.run(
        [sys.executable, str(SCRIPT)], capture_output=True, text=True, check=False, timeout=120
    )
    if "FlashInfer cannot be imported" not in done.stderr:
        pytest.skip("FlashInfer is installed in this environment itself")
    assert done.returncode == 2
    assert done.stderr.startswith("not measured: ")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("installed", ["0.6.13"], indirect=True)
def test_flashinfer_s_real_tuner_measures_the_same_calls_and_chooses_the_same(installed, tmp_path):
    fastest, raising = random.sample(range(32), 2)
    arguments = [str(fastest), str(raising), str(random.randrange(2**32))]
    print("fastest, raising and the operands' seed:", *arguments)
    done = run(installed, tmp_path, ON_A_CPU, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == f"both chose {fastest}"


@pytest.mark.parametrize("installed", ["0.6.13"], indirect=True)
@pytest.mark.parametrize("delay", ["flashinfer", "ours"])
def test_the_whole_benchmark_without_its_card(installed, tmp_path, delay):
    done = run(installed, tmp_path, WHOLE, delay, "1", "2", "--rounds=1", f"--delay={delay}")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert f"delay kernel in FlashInfer's tuner: {delay} (5.00 ms)." in lines
    every = next(line for line in lines if line.startswith("all"))
    assert every.split() == ["all", "8", "8", "0.00%", "0.00%", "0.00%", "0.00%"]


@pytest.mark.parametrize("installed", ["0.6.13"], indirect=True)
@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("no card", "there is no card."),
        ("another stream", "FlashInfer's delay of 5000 µs held up the card 0.000 ms"),
    ],
)
def test_what_cannot_be_measured_is_not(installed, tmp_path, how, why):
    done = run(installed, tmp_path, WHOLE, how, "1")
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stdout == ""
    assert done.stderr.splitlines()[-1] == f"not measured: {why}"


def run(installed, folder, script, *arguments):
    _, home = installed
    paths = os.pathsep.join(filter(None, (str(SCRIPT.parent), os.environ.get("PYTHONPATH"))))
    return subprocess.run(
        [str(home / "bin" / "python"), "-c", script, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
