"""The back end on an NVIDIA card, with the methods of `protocol.Backend`, and its timer.

All work is queued on the caller's current CuPy stream, and captured where that stream is being
captured. Without one, it is queued on a stream of the back end. Kernels are built, and the card is
used, when the first product is prepared; to create a `CupyBackend` takes no time and cannot fail.
"""

import contextlib
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ...errors import DeviceError, LaunchError, UnavailableError
from ..elements import Bytes, Floats
from ..matrix import Nvfp4Matrix
from ..product import Output, alpha_of, checked_tactic
from ..random_operands import check_shape, random_activation, random_weight
from . import library, operands, toolchain
from .architectures import current_architecture, import_cupy
from .compiling import available_memory
from .device import Device, caller_captures
from .kernels import Kernels
from .metadata import recipe_here
from .operands import CupyProblem, DeviceMatrix
from .recipe import Recipe

ACTIVATION_SEED, WEIGHT_SEED = 0, 1


@dataclass(frozen=True, slots=True)
class _ReadyCard:
    device: Device
    kernels: Kernels
    recipe: Recipe


class CupyBackend:
    """CUTLASS's tactics on the card that is current when the first product is prepared.

    `environment`: the variables that name the compiler and so on; see `toolchain`. `progress` gets
    a sentence for each step of a build; the default is the log.
    """

    name = "cupy"

    def __init__(
        self,
        environment: Mapping[str, str] | None = None,
        progress: library.Progress | None = None,
    ) -> None:
        self._environment = os.environ if environment is None else environment
        self._progress = progress
        self._lock = threading.Lock()
        self._made: _ReadyCard | None = None
        self._weight: DeviceMatrix | None = None
        self._recording = threading.local()

    def available(self) -> bool:
        """Whether there is a card with kernels, and a compiler to build them."""
        return self.reason() is None

    def reason(self) -> str | None:
        """Why it cannot run here, in one sentence; None if it can. Builds nothing."""
        if self._made:
            return self._made.device.broken
        try:
            current_architecture(import_cupy())
            toolchain.find(self._environment)
            toolchain.cache_folder(self._environment)
        except UnavailableError as error:
            return str(error)
        return None

    def quantize(
        self, numbers: Floats, *, global_scale: float | None = None, direct: bool = True
    ) -> Nvfp4Matrix:
        """Quantize on the card, with the bytes of `quantization.quantize`."""
        engine = self._engine()
        found = operands.quantize(
            engine.device, engine.kernels, numbers, global_scale=global_scale, direct=direct
        )
        return operands.to_host(engine.device, found)

    def prepare(self, m: int, n: int, k: int, seed: int, *, direct: bool = True) -> CupyProblem:
        """See `protocol.Backend.prepare`; the operands are quantized and expanded on the card.

        A `MemoryError` for a shape beyond the card's memory, before anything is computed.
        """
        engine = self._engine()
        self._check_size(engine.device, m, n, k)
        _check_room("host", 12 * max(m, n) * k, available_memory(), (m, n, k))
        a = self._quantized(engine, random_activation(m, k, seed), direct=direct)
        b = self._quantized(engine, random_weight(n, k, seed), direct=direct)
        return self.product(a, b, alpha_of(a.global_scale, b.global_scale))

    def operand(self, rows: int, k: int, seed: int) -> DeviceMatrix:
        """A synthetic operand for measuring, made on the card; see `operands.synthetic`."""
        engine = self._engine()
        return operands.synthetic(engine.device, engine.kernels, rows, k, seed)

    def product(self, a: DeviceMatrix, b: DeviceMatrix, alpha: float = 1.0) -> CupyProblem:
        """A product of operands on the card."""
        engine = self._engine()
        return operands.problem(engine.device, engine.kernels, a, b, alpha)

    def expand(self, matrix: DeviceMatrix) -> None:
        """Queue the expansion of an operand to half again, where this architecture needs it.

        An engine that keeps its operands in FP4 expands them in every call.
        """
        engine = self._engine()
        operands.expand(engine.device, engine.kernels, matrix)

    def problem(self, a: Nvfp4Matrix, b: Nvfp4Matrix, alpha: float) -> CupyProblem:
        """A product of operands on the host."""
        engine = self._engine()
        device, kernels = engine.device, engine.kernels
        left, right = (operands.from_host(device, kernels, matrix) for matrix in (a, b))
        return self.product(left, right, alpha)

    def run_tactic(self, tactic_id: int, problem: CupyProblem) -> None:
        """Queue the product.

        `LaunchError` where this tactic fails, `DeviceError` where the card can no longer be used,
        `ValueError` for a tactic outside 0-31.
        """
        engine = self._engine()
        tactic = checked_tactic(tactic_id)
        device = engine.device
        if device.broken:
            raise DeviceError(device.broken)
        if tactic not in device.architecture.tactics:
            raise LaunchError(
                f"tactic {tactic_id} ({tactic.name}) is invalid on {device.architecture.name}, "
                "which cannot build its tile; use another tactic."
            )
        captured: list[CupyProblem] | None = getattr(self._recording, "problems", None)
        if captured is not None:
            captured.append(problem)
        status = engine.kernels.run(tactic_id, problem.product, device.stream.ptr)
        if status:
            device.check(status, f"launching tactic {tactic_id} ({tactic.name})")

    def output(self, problem: CupyProblem) -> Output:
        """A copy of the output, once all queued work has ended."""
        return operands.output(problem)

    def poison(self, problem: CupyProblem) -> None:
        """Set every element of the output to NaN."""
        operands.poison(problem)

    def guard(self, problem: CupyProblem) -> Bytes:
        """The memory after the output, once all queued work has ended."""
        return operands.guard(problem)

    def runner(self, m: int, n: int, k: int) -> Callable[[int], None]:
        """A call that runs a tactic on one problem, which is made on the card here.

        The weight is kept for the next M.
        """
        engine = self._engine()
        self._check_size(engine.device, m, n, k)
        with self._lock:
            kept = self._weight
        if kept is None or (kept.rows, kept.k) != (n, operands.stored_k(engine.device, k)):
            self._weight = kept = None  # free its memory before the next one is allocated
            kept = self.operand(n, k, WEIGHT_SEED)
            with self._lock:
                self._weight = kept
        prepared = self.product(self.operand(m, k, ACTIVATION_SEED), kept)
        return lambda tactic_id: self.run_tactic(tactic_id, prepared)

    def timer(self, m: int, n: int, k: int) -> "CupyTimer":
        """A timer of a `runner`, with events."""
        run = self.runner(m, n, k)
        engine = self._engine()
        return CupyTimer(engine.device, engine.kernels, run)

    def capturing(self) -> bool:
        """Whether the stream on which work is queued is being captured."""
        if self._made is None:  # the back end has no stream yet
            return caller_captures()
        return bool(self._made.device.stream.is_capturing())

    def capture(self, launch: Callable[[], None]) -> Callable[[], None]:
        """Capture the work that `launch` queues, on the current stream.

        The replay keeps the captured problems and their workspaces alive. Where `launch` raises,
        the capture is ended and discarded.
        """
        device = self._engine().device
        problems: list[CupyProblem] = []
        with device.active(), device.translated("capturing a graph"):
            stream = device.stream
            self._recording.problems = problems
            try:
                stream.begin_capture()
                try:
                    launch()
                except BaseException:
                    with contextlib.suppress(Exception):  # ending a failed capture raises
                        stream.end_capture()
                    raise
                graph = stream.end_capture()
            finally:
                self._recording.problems = None

        def replay(problems: list[CupyProblem] = problems) -> None:
            with device.active(), device.translated("replaying a graph"):
                graph.launch(device.stream)

        return replay

    def _engine(self) -> _ReadyCard:
        with self._lock:
            if self._made is None:
                cupy = import_cupy()
                recipe = recipe_here(cupy, self._environment)
                path = library.built(recipe, self._environment, self._progress)
                kernels = Kernels(path, recipe.architecture)
                device = Device(cupy)
                device.bind(kernels.use_device)
                self._made = _ReadyCard(device, kernels, recipe)
            return self._made

    @staticmethod
    def _quantized(engine: _ReadyCard, numbers: Floats, *, direct: bool) -> DeviceMatrix:
        return operands.quantize(
            engine.device, engine.kernels, numbers, global_scale=None, direct=direct
        )

    @staticmethod
    def _check_size(device: Device, m: int, n: int, k: int) -> None:
        check_shape(m, n, k)
        needed = operands.device_bytes(m, n, k)
        _check_room("card", needed, device.free_bytes(), (m, n, k))


class CupyTimer:
    """The calls of `profiling.Timer`; each queues on the current stream.

    A failing call raises once and leaves no error on the card, so the next tactic can run.

    Source: FlashInfer 0.6.13 autotuner.py:799-818, 1407-1493.
    """

    def __init__(self, device: Device, kernels: Kernels, run: Callable[[int], None]) -> None:
        self._device = device
        self._kernels = kernels
        self._run = run

    def run(self, tactic: int) -> None:
        """Queue the product once."""
        self._run(tactic)

    def synchronize(self) -> None:
        """Wait for the stream."""
        with self._device.active(), self._device.translated("running a tactic"):
            self._device.stream.synchronize()

    def delay(self, microseconds: int) -> None:
        """Queue the delay kernel; it takes a few percent longer than requested."""
        with self._device.active():
            status = self._kernels.delay(microseconds, self._device.stream.ptr)
            self._device.check(status, "delaying")

    def event(self) -> Any:
        """Queue an event."""
        with self._device.active(), self._device.translated("recording an event"):
            event = self._device.cupy.cuda.Event()
            event.record(self._device.stream)
            return event

    def elapsed_microseconds(self, start: Any, end: Any) -> float:
        """The microseconds between two completed events."""
        with self._device.active(), self._device.translated("reading the events"):
            return 1000 * float(self._device.cupy.cuda.get_elapsed_time(start, end))


def _check_room(place: str, needed: int, free: int | None, shape: tuple[int, int, int]) -> None:
    if free is not None and needed > free:
        m, n, k = shape
        raise MemoryError(
            f"M = {m}, N = {n}, K = {k} needs {needed / 1e9:.1f} GB on the {place}, where "
            f"{free / 1e9:.1f} GB are free; use a smaller shape or free memory."
        )
