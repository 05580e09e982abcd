"""FlashInfer's runner as a back end: where it can run, and the arguments of its calls."""

import contextlib
import importlib.metadata
import importlib.util
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from nvfp4_reference import Rejected, back_ends, resolve
from nvfp4_reference.adapter import Adapter
from nvfp4_reference.errors import BuildError, DeviceError, LaunchError, UnavailableError
from nvfp4_reference.gemm import NumpyBackend, gemm_case
from nvfp4_reference.gemm.flashinfer import FlashInferBackend, installation
from nvfp4_reference.profiling import Profiler

from .torch_stand_in import OutOfMemoryError, Runner, Torch

FLASHINFER = {back_ends.BACK_END: "flashinfer"}
SHAPE = (17, 130, 352)
"""N is no multiple of 8, and neither the rows nor the columns of the scales fill their atoms."""
SOURCES = ("fp4_gemm_cutlass_sm120.cu", "fp4_gemm_cutlass_sm120.jinja")
HEADERS = ("fp4_gemm_cutlass_template_sm120.h", "fp4_gemm_template_sm120.h")


class Machine:
    """A machine with torch, a card, FlashInfer and its build tools; tests remove parts."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.torch = Torch()
        self.runner = Runner(self.torch)
        self.version: str | None = "0.6.13"
        self.follows_torch = False
        self.package = folder / "flashinfer"
        self.monkeypatch = monkeypatch
        self.specs = {"flashinfer": SimpleNamespace(submodule_search_locations=[str(self.package)])}
        data = self.package / "data"
        cutlass = data / "cutlass" / "include" / "cutlass" / "version.h"
        files = [data / "csrc" / name for name in SOURCES]
        files += [data / "include" / "flashinfer" / "gemm" / name for name in HEADERS]
        for file in (*files, cutlass):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("// source\n")
        cutlass.write_text(
            "#define CUTLASS_MAJOR 4\n#define CUTLASS_MINOR 5\n#define CUTLASS_PATCH 0\n"
        )
        for name in ("nvcc", "ninja"):
            (folder / name).write_text("")
            (folder / name).chmod(0o755)
        monkeypatch.setenv("PATH", str(folder))
        monkeypatch.setenv("NVFP4_REFERENCE_NVCC", str(folder / "nvcc"))
        monkeypatch.setattr(importlib.util, "find_spec", self.specs.get)
        monkeypatch.setattr(importlib.metadata, "version", self._version)
        module = SimpleNamespace(cutlass_fp4_gemm_runner=lambda: self.runner)
        self.modules: dict[str, Any] = {
            "torch": self.torch,
            "tvm_ffi": SimpleNamespace(use_torch_stream=self.on_torch_s_stream),
            "flashinfer": SimpleNamespace(),
            "flashinfer.tllm_utils": SimpleNamespace(
                get_trtllm_utils_module=lambda: None, delay_kernel=self.delay
            ),
            "flashinfer.gemm": SimpleNamespace(),
            "flashinfer.gemm.gemm_base": SimpleNamespace(
                get_cutlass_fp4_gemm_module=lambda major, minor: module
            ),
            "flashinfer.autotuner": SimpleNamespace(_collect_metadata=self.collected),
        }
        self.modules["flashinfer"].tllm_utils = self.modules["flashinfer.tllm_utils"]
        for name, found in self.modules.items():
            monkeypatch.setitem(sys.modules, name, found)

    @contextlib.contextmanager
    def on_torch_s_stream(self) -> Iterator[None]:
        self.follows_torch = True
        yield
        self.follows_torch = False

    def delay(self, microseconds: int) -> None:
        assert self.follows_torch, "it would sleep on the default stream"
        self.torch.cuda.calls.append(f"delay {microseconds}")

    def collected(self) -> dict[str, str]:
        return {
            "flashinfer_version": "0.6.13",
            "cuda_version": "13.0",
            "cublas_version": "13.1.0",
            "cudnn_version": "91900",
            "cudnn_frontend_version": "1.26.0",
            "gpu": "NVIDIA GB10",
        }

    def _version(self, name: str) -> str:
        if name == "flashinfer-python" and self.version:
            return self.version
        raise importlib.metadata.PackageNotFoundError(name)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


# Where it can run


def without_torch(machine: Machine) -> None:
    machine.monkeypatch.setitem(sys.modules, "torch", None)


def without_card(machine: Machine) -> None:
    machine.torch.cuda.capability = (0, 0)


def on_hopper(machine: Machine) -> None:
    machine.torch.cuda.capability = (9, 0)


def on_b200(machine: Machine) -> None:
    machine.torch.cuda.capability = (10, 0)


def without_flashinfer(machine: Machine) -> None:
    machine.version = None
    machine.specs.clear()


def with_another_flashinfer(machine: Machine) -> None:
    machine.version = "0.7.4"


def without_nvcc(machine: Machine) -> None:
    machine.monkeypatch.setenv("NVFP4_REFERENCE_NVCC", "/nowhere/nvcc")


def without_ninja(machine: Machine) -> None:
    machine.monkeypatch.setenv("PATH", "/nowhere")


REASONS = [
    (without_torch, "torch, which owns FlashInfer's memory, cannot be imported"),
    (without_card, "torch finds no card"),
    (on_hopper, "compute capability 9.0, and FlashInfer's runner has the 32 tactics on 12.0"),
    (on_b200, "compute capability 10.0"),
    (without_flashinfer, "no FlashInfer is installed"),
    (with_another_flashinfer, "FlashInfer 0.7.4 is installed, and the tactics are those of 0.6.13"),
    (without_nvcc, "'/nowhere/nvcc', which is not a program"),
    (without_ninja, "there is no ninja"),
]


@pytest.mark.parametrize(("take_away", "expected"), REASONS)
def test_why_it_cannot_run(
    machine: Machine, take_away: Callable[[Machine], None], expected: str
) -> None:
    assert FlashInferBackend().reason() is None
    take_away(machine)
    back_end = FlashInferBackend()
    reason = back_end.reason()
    assert reason is not None
    assert expected in reason
    assert reason.endswith(".")
    assert "\n" not in reason
    assert not back_end.available()
    with pytest.raises(UnavailableError, match="."):
        back_end.prepare(*SHAPE, 0)


@pytest.mark.parametrize("capability", [(12, 0), (12, 1)])
def test_it_runs_where_the_tactics_are_the_table_s(
    machine: Machine, capability: tuple[int, int]
) -> None:
    machine.torch.cuda.capability = capability
    assert FlashInferBackend().available()


def test_a_built_module_needs_no_compiler(machine: Machine) -> None:
    without_nvcc(machine)
    without_ninja(machine)
    machine.specs["flashinfer_jit_cache"] = SimpleNamespace()
    assert FlashInferBackend().available()


@pytest.mark.parametrize("take_away", [without_torch, on_hopper, without_flashinfer])
def test_one_that_cannot_run_is_a_rejection_and_not_another(
    machine: Machine, take_away: Callable[[Machine], None]
) -> None:
    take_away(machine)
    adapter = Adapter(FLASHINFER)
    for call in (
        lambda: resolve({**FLASHINFER, "HOME": "/home/me"}),
        adapter.describe,
        lambda: adapter.open({"HOME": "/home/me"}),
    ):
        with pytest.raises(Rejected, match="the back end flashinfer cannot run here: ") as raised:
            call()
        assert (raised.value.code, raised.value.member) == ("configuration", back_ends.BACK_END)


def test_a_runner_with_other_tactics_is_refused(machine: Machine) -> None:
    machine.runner = Runner(machine.torch, tactics=20)
    with pytest.raises(UnavailableError, match="has 20 tactics here, and the table has 32"):
        FlashInferBackend().prepare(*SHAPE, 0)


def test_a_build_that_fails_shows_flashinfer_s_words_in_its_notes(machine: Machine) -> None:
    def failing(major: int, minor: int) -> None:
        raise RuntimeError("Ninja build failed.\nfp4_gemm.cu(7): error: a planted mistake")

    machine.modules["flashinfer.gemm.gemm_base"].get_cutlass_fp4_gemm_module = failing
    with pytest.raises(BuildError, match=r"make its runner \(Ninja build failed.\)") as raised:
        FlashInferBackend().prepare(*SHAPE, 0)
    assert "a planted mistake" in raised.value.__notes__[0]


# What it is called with


@pytest.mark.parametrize("tactic", [0, 1, 30, 31])
def test_the_runner_is_given_the_reference_s_operands(
    machine: Machine, rng: random.Random, tactic: int
) -> None:
    seed = rng.randrange(2**32)
    asked = {"tactic": tactic, "seed": seed, "direct_sf": bool(tactic % 2)}
    found = Adapter(FLASHINFER).gemm(*SHAPE, **asked)
    assert found == gemm_case(*SHAPE, **asked)  # type: ignore[arg-type]


def test_a_k_that_the_runner_does_not_take_is_padded(machine: Machine) -> None:
    asked = {"tactic": 5, "seed": 3, "direct_sf": True}
    shape = (7, 48, 272)
    assert Adapter(FLASHINFER).gemm(*shape, **asked) == gemm_case(*shape, **asked)  # type: ignore[arg-type]
    assert FlashInferBackend().prepare(*shape, 3).inputs[0].cpu().numpy().shape == (7, 144)


def test_an_output_is_nan_until_something_writes_it(machine: Machine) -> None:
    back_end = FlashInferBackend()
    problem = back_end.prepare(*SHAPE, 1)
    assert np.isnan(back_end.output(problem).astype(np.float32)).all()
    assert (back_end.guard(problem) == 0xA5).all()


def test_operands_that_it_cannot_take(machine: Machine) -> None:
    back_end = FlashInferBackend()
    with pytest.raises(ValueError, match="M is 0"):
        back_end.runner(0, 32, 64)
    with pytest.raises(ValueError, match="tactic -1 does not exist"):
        back_end.run_tactic(-1, back_end.prepare(1, 32, 64, 0))


def test_a_tuning_calls_what_the_profiler_asks_for(machine: Machine) -> None:
    timer = FlashInferBackend().timer(4, 32, 64)
    machine.torch.cuda.calls.clear()
    selection = Profiler().select(timer, (4, 32, 64), 5000, [], tactics=[3, 7])
    expected: list[Any] = []
    for tactic in (3, 7):
        expected += [tactic] * 3 + ["synchronize", "delay 5000", "event"]
        expected += [tactic] * 10 + ["event", "synchronize"]
    assert machine.torch.cuda.calls == expected
    assert selection.microseconds == {3: 1.1, 7: 1.1}  # ten runs and the event, a call each


def test_a_weight_is_quantized_once_for_all_m(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, int]] = []
    name = "nvfp4_reference.gemm.flashinfer.flashinfer_backend.random_weight"

    def counted(n: int, k: int, seed: int) -> Any:
        seen.append((n, k))
        return np.ones((n, k), np.float32)

    monkeypatch.setattr(name, counted)
    back_end = FlashInferBackend()
    for m, n in ((1, 32), (2, 32), (2, 40), (1, 32)):
        back_end.runner(m, n, 64)(5)
    assert seen == [(32, 64), (40, 64), (32, 64)]


def test_a_graph_is_recorded_and_replayed(machine: Machine) -> None:
    back_end = FlashInferBackend()
    assert not back_end.capturing()
    problem = back_end.prepare(*SHAPE, 5)
    seen = []

    def launch() -> None:
        back_end.run_tactic(9, problem)
        seen.append(back_end.capturing())

    replay = back_end.capture(launch)
    assert seen == [True]
    assert not back_end.capturing()
    assert np.isnan(back_end.output(problem).astype(np.float32)).all(), "it ran while recorded"
    replay()
    numpy = NumpyBackend()
    expected = numpy.prepare(*SHAPE, 5)
    numpy.run_tactic(9, expected)
    assert back_end.output(problem).tobytes() == numpy.output(expected).tobytes()


def test_a_caller_s_capture_is_seen_before_anything_was_prepared(machine: Machine) -> None:
    back_end = FlashInferBackend()
    cuda = machine.torch.cuda
    assert not back_end.capturing()
    cuda.recorded = []
    assert back_end.capturing()
    cuda.initialized = False
    assert not back_end.capturing(), "an unused card was queried"
    machine.monkeypatch.delitem(sys.modules, "torch")
    assert not back_end.capturing()
    assert "torch" not in sys.modules


def test_a_capture_that_fails_is_over(machine: Machine) -> None:
    back_end = FlashInferBackend()
    problem = back_end.prepare(*SHAPE, 5)

    def failing() -> None:
        raise KeyError("the caller's own")

    with pytest.raises(KeyError):
        back_end.capture(failing)
    assert not back_end.capturing()
    back_end.run_tactic(0, problem)
    assert not np.isnan(back_end.output(problem).astype(np.float32)).any()


def test_a_tactic_that_fails_stops_no_other(machine: Machine) -> None:
    back_end = FlashInferBackend()
    problem = back_end.prepare(*SHAPE, 0)
    machine.runner.fault = RuntimeError("Failed to run cutlass FP4 gemm\nmore")
    with pytest.raises(LaunchError, match=r"tactic 4 .* failed \(Failed to run cutlass FP4 gemm\)"):
        back_end.run_tactic(4, problem)
    machine.runner.fault = OutOfMemoryError("CUDA out of memory")
    with pytest.raises(MemoryError, match="memory is used up"):
        back_end.run_tactic(4, problem)
    machine.runner.fault = None
    back_end.run_tactic(4, problem)
    assert back_end.reason() is None


def test_an_error_that_stays_ends_the_use_of_the_card(machine: Machine) -> None:
    back_end = FlashInferBackend()
    problem = back_end.prepare(*SHAPE, 0)
    machine.runner.fault = machine.torch.cuda.fault = RuntimeError("an illegal address")
    with pytest.raises(DeviceError, match="broke the use of the card in this process"):
        back_end.run_tactic(4, problem)
    machine.runner.fault = machine.torch.cuda.fault = None
    assert "an illegal address" in str(back_end.reason())
    with pytest.raises(DeviceError):
        back_end.run_tactic(5, problem)


# What its plans say


def test_metadata_are_the_card_s_and_flashinfer_s(machine: Machine) -> None:
    options = resolve({**FLASHINFER, "HOME": "/home/me"})
    found = options.metadata
    assert (found.architecture, found.gpu, found.cutlass_version) == (121, "NVIDIA GB10", "4.5.0")
    assert (found.cuda_driver, found.cuda_runtime) == ("13.1", "13.0")
    cpu = resolve({"HOME": "/home/me"}).metadata
    assert found.tactic_descriptor_digest == cpu.tactic_descriptor_digest
    assert found.tactic_set_version == cpu.tactic_set_version == 2
    expected = back_ends.import_metadata("flashinfer")
    assert expected.as_json() == machine.collected()


@pytest.mark.parametrize("name", [*SOURCES, *HEADERS])
def test_an_edited_kernel_source_is_another_build(machine: Machine, name: str) -> None:
    before = back_ends.native_metadata("flashinfer")
    assert back_ends.native_metadata("flashinfer") == before
    (path,) = machine.package.rglob(name)
    path.write_text("// another source\n")
    after = back_ends.native_metadata("flashinfer")
    assert after.difference(before) == "build_id"


# On a card


@pytest.fixture(scope="module")
def blackwell() -> FlashInferBackend:
    back_end = FlashInferBackend()
    if reason := back_end.reason():
        pytest.skip(f"needs FlashInfer's runner on a card: {reason}")
    return back_end


def test_every_tactic_multiplies_on_a_card(
    blackwell: FlashInferBackend, rng: random.Random
) -> None:
    seed = rng.randrange(2**32)
    numpy = NumpyBackend()
    expected = numpy.prepare(*SHAPE, seed)
    numpy.run_tactic(0, expected)
    wanted = numpy.output(expected).astype(np.float64)
    for tactic in installation.TACTIC_IDS:
        problem = blackwell.prepare(*SHAPE, seed)
        blackwell.run_tactic(tactic, problem)
        found = blackwell.output(problem).astype(np.float64)
        assert np.linalg.norm(found - wanted) <= 2**-8 * np.linalg.norm(wanted), tactic
        assert (blackwell.guard(problem) == 0xA5).all(), tactic


def test_a_graph_replays_on_a_card(blackwell: FlashInferBackend) -> None:
    direct, replayed = (blackwell.prepare(*SHAPE, 3) for _ in range(2))
    blackwell.run_tactic(2, direct)
    blackwell.capture(lambda: blackwell.run_tactic(2, replayed))()
    assert blackwell.output(replayed).tobytes() == blackwell.output(direct).tobytes()
