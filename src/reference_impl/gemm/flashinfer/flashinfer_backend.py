"""FlashInfer's runner as a back end, with the methods of `protocol.Backend`, and its timer.

It has never run on a card, since none with compute capability 12 was available. The reference
quantizes the operands, so the runner multiplies its bytes. Work is queued on torch's current
stream.
"""

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from ...errors import DeviceError, LaunchError, UnavailableError, first_line
from ..elements import BLOCK, Bytes, Floats
from ..matrix import Nvfp4Matrix
from ..product import Output, checked_tactic, default_alpha
from ..protocol import GUARD_BYTES, GUARD_FILL, POISON
from ..quantization import quantize
from ..random_operands import check_shape, random_activation, random_weight
from ..scale_layout import ATOM_COLUMNS
from . import installation
from .installation import RunnerModule

K_MULTIPLE = 32
"""The runner needs a multiple of this K; rows are padded with zeros."""
N_MULTIPLE = 8
"""The runner needs a multiple of this N; a weight is padded with rows of zeros."""
WORKSPACE_BYTES = 32 * 1024 * 1024
"""The workspace of FlashInfer's own `mm_fp4`; the runner allocates more where it needs it."""
RUNNER_SEED = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FlashInferProblem:
    """A prepared product on the card; only one stream at a time may run it.

    `inputs`: the ten inputs of FlashInfer's runner. `memory`: the bytes of the output, M × `pitch`
    in bfloat16, and the guard after it.
    """

    a: Nvfp4Matrix
    b: Nvfp4Matrix
    alpha: np.float32
    inputs: list[Any]
    memory: Any
    pitch: int


class FlashInferBackend:
    """FlashInfer's 32 tactics, on the card that torch uses when the first product is made."""

    name = "flashinfer"

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: RunnerModule | None = None
        self._broken: str | None = None
        self._weight: tuple[tuple[int, int], Nvfp4Matrix] | None = None
        self._recording = threading.local()

    def available(self) -> bool:
        """Whether there is a card for the runner, and FlashInfer to build it."""
        return self.reason() is None

    def reason(self) -> str | None:
        """Why it cannot run here, in one sentence; None if it can. Builds nothing."""
        if self._made:
            return self._broken
        try:
            installation.import_torch()
            installation.package()
            installation.check_buildable()
        except UnavailableError as error:
            return str(error)
        return None

    def quantize(
        self, numbers: Floats, *, global_scale: float | None = None, direct: bool = True
    ) -> Nvfp4Matrix:
        """See `quantization.quantize`."""
        return quantize(numbers, global_scale=global_scale, direct=direct)

    def prepare(
        self, m: int, n: int, k: int, seed: int, *, direct: bool = True
    ) -> FlashInferProblem:
        """See `protocol.Backend.prepare`."""
        check_shape(m, n, k)
        a = quantize(random_activation(m, k, seed), direct=direct)
        b = quantize(random_weight(n, k, seed), direct=direct)
        return self.problem(a, b, default_alpha(a, b))

    def problem(self, a: Nvfp4Matrix, b: Nvfp4Matrix, alpha: float) -> FlashInferProblem:
        """A product of the given operands; the output is NaN until a tactic writes it."""
        left, right = a.widened(K_MULTIPLE), b.widened(K_MULTIPLE)
        torch = self._engine().torch
        pitch = -(-b.rows // N_MULTIPLE) * N_MULTIPLE
        size = a.rows * pitch * 2
        with self._translated("preparing a product"):
            memory = torch.full((size + GUARD_BYTES,), GUARD_FILL, dtype=torch.uint8, device="cuda")
            memory[:size] = POISON
            weight = np.zeros((pitch, right.k // 2), np.uint8)
            weight[: b.rows] = right.values
            inputs = [
                torch.tensor(left.values, device="cuda"),
                torch.tensor(weight, device="cuda").T,
                torch.tensor(_rows(left), device="cuda"),
                torch.tensor(_rows(right), device="cuda").T,
                torch.tensor([alpha], dtype=torch.float32, device="cuda"),
                torch.bfloat16,
                memory[:size].view(torch.bfloat16).view(a.rows, pitch),
                BLOCK,
                True,
                torch.empty(WORKSPACE_BYTES, dtype=torch.uint8, device="cuda"),
            ]
            torch.cuda.current_stream().synchronize()  # from now on, any stream can run it
        return FlashInferProblem(
            a=a, b=b, alpha=np.float32(alpha), inputs=inputs, memory=memory, pitch=pitch
        )

    def run_tactic(self, tactic_id: int, problem: FlashInferProblem) -> None:
        """Queue the product.

        `LaunchError` where this tactic fails, `DeviceError` where the card can no longer be used.
        """
        tactic = checked_tactic(tactic_id)
        engine = self._engine()
        captured: list[FlashInferProblem] | None = getattr(self._recording, "problems", None)
        if captured is not None:
            captured.append(problem)
        with self._translated(f"launching tactic {tactic_id} ({tactic.name})"):
            engine.runner(problem.inputs, tactic=tactic_id)

    def output(self, problem: FlashInferProblem) -> Output:
        """A copy of the output, once all work on the current stream has ended."""
        m, n = problem.a.rows, problem.b.rows
        whole: Output = self._bytes(problem)[:-GUARD_BYTES].view(ml_dtypes.bfloat16)
        return whole.reshape(m, problem.pitch)[:, :n].copy()

    def guard(self, problem: FlashInferProblem) -> Bytes:
        """The memory after the output."""
        return self._bytes(problem)[-GUARD_BYTES:]

    def poison(self, problem: FlashInferProblem) -> None:
        """Set every element of the output to NaN."""
        with self._translated("poisoning the output"):
            problem.memory[:-GUARD_BYTES] = POISON

    def runner(self, m: int, n: int, k: int) -> Callable[[int], None]:
        """A call that runs a tactic on one problem, which is prepared here.

        The quantized weight is kept for the next M.
        """
        check_shape(m, n, k)
        with self._lock:
            kept = self._weight
        if kept is None or kept[0] != (n, k):
            kept = (n, k), quantize(random_weight(n, k, RUNNER_SEED))
            with self._lock:
                self._weight = kept
        a = quantize(random_activation(m, k, RUNNER_SEED))
        prepared = self.problem(a, kept[1], default_alpha(a, kept[1]))
        return lambda tactic_id: self.run_tactic(tactic_id, prepared)

    def timer(self, m: int, n: int, k: int) -> "TorchTimer":
        """A timer of a `runner`, with events."""
        run = self.runner(m, n, k)
        return TorchTimer(self._engine(), run, self._translated)

    def capturing(self) -> bool:
        """Whether torch's current stream is being captured; torch is not imported for it."""
        torch: Any = sys.modules.get("torch")
        if not hasattr(torch, "cuda"):  # not imported, or only a folder of that name
            return False
        return bool(torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing())

    def capture(self, launch: Callable[[], None]) -> Callable[[], None]:
        """Capture the work that `launch` queues; the replay keeps the captured problems alive."""
        torch = self._engine().torch
        graph = torch.cuda.CUDAGraph()
        problems: list[FlashInferProblem] = []
        self._recording.problems = problems
        try:
            with torch.cuda.graph(graph):
                launch()
        finally:
            self._recording.problems = None

        def replay(problems: list[FlashInferProblem] = problems) -> None:
            with self._translated("replaying a graph"):
                graph.replay()

        return replay

    def _bytes(self, problem: FlashInferProblem) -> Bytes:
        with self._translated("copying from the card"):
            found: Bytes = problem.memory.cpu().numpy()
            return found

    def _engine(self) -> RunnerModule:
        with self._lock:
            if self._made is None:
                self._made = installation.engine()
            return self._made

    @contextlib.contextmanager
    def _translated(self, doing: str) -> Iterator[None]:
        """Translate errors of torch and FlashInfer.

        `MemoryError`: no memory is left on the card. `DeviceError`: the card no longer answers.
        `LaunchError`: any other error.
        """
        engine = self._engine()
        if self._broken:
            raise DeviceError(self._broken)
        cuda = engine.torch.cuda
        try:
            yield
        except cuda.OutOfMemoryError as error:
            raise MemoryError(
                f"{doing} failed because the card's memory is used up; "
                "use a smaller shape or free the card."
            ) from error
        except Exception as error:
            why = first_line(error)
            try:
                if not cuda.is_current_stream_capturing():  # captured work has not run
                    cuda.synchronize()
            except Exception:
                self._broken = (
                    f"{doing} broke the use of the card in this process ({why}); "
                    "start the process again."
                )
                raise DeviceError(self._broken) from error
            raise LaunchError(f"{doing} failed ({why}); the card itself still answers.") from error


class TorchTimer:
    """The calls of `profiling.Timer`, on torch's current stream."""

    def __init__(
        self,
        engine: RunnerModule,
        run: Callable[[int], None],
        translated: Callable[[str], contextlib.AbstractContextManager[None]],
    ) -> None:
        self._cuda = engine.torch.cuda
        self._delay = engine.delay
        self._translated = translated
        self.run = run

    def synchronize(self) -> None:
        """Wait for the stream."""
        with self._translated("running a tactic"):
            self._cuda.current_stream().synchronize()

    def delay(self, microseconds: int) -> None:
        """Queue FlashInfer's delay kernel."""
        with self._translated("delaying"):
            self._delay(microseconds)

    def event(self) -> Any:
        """Queue an event."""
        with self._translated("recording an event"):
            event = self._cuda.Event(enable_timing=True)
            event.record()
            return event

    def elapsed_microseconds(self, start: Any, end: Any) -> float:
        """The microseconds between two completed events."""
        with self._translated("reading the events"):
            return 1000 * float(start.elapsed_time(end))


def _rows(matrix: Nvfp4Matrix) -> Bytes:
    """The scales in FlashInfer's shape: padded rows × padded columns, in 128×4 order."""
    columns = -(-matrix.k // BLOCK // ATOM_COLUMNS) * ATOM_COLUMNS
    return matrix.scales.reshape(-1, columns)
