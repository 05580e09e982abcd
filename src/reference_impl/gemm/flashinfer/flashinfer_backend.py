"""FlashInfer's runner as a back end; see `protocol.Backend` for what it promises.

Never run: no card with compute capability 12 was at hand. Operands are quantized by the reference,
so its bytes are what the runner multiplies. Work goes to torch's current stream.
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
"""What the runner takes; rows of another K are padded with zeros."""
N_MULTIPLE = 8
"""Output columns that are written together; a weight is padded with rows of zeros."""
WORKSPACE_BYTES = 32 * 1024 * 1024
"""As much as FlashInfer's own `mm_fp4` gives; its runner takes more where it needs more."""
RUNNER_SEED = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FlashInferProblem:
    """A product on the card, ready to run; one stream at a time may run it.

    `inputs`: the ten of FlashInfer's runner. `memory`: the output's bytes, M × `pitch` in bfloat16,
    and a guard behind it.
    """

    a: Nvfp4Matrix
    b: Nvfp4Matrix
    alpha: np.float32
    inputs: list[Any]
    memory: Any
    pitch: int


class FlashInferBackend:
    """The 32 tactics by FlashInfer, on the card that is torch's when the first product is made."""

    name = "flashinfer"

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: RunnerModule | None = None
        self._broken: str | None = None
        self._weight: tuple[tuple[int, int], Nvfp4Matrix] | None = None
        self._recording = threading.local()

    def available(self) -> bool:
        """Is there a card for the runner, and is FlashInfer there to build it?"""
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
        """See `random_operands.random_operands`."""
        check_shape(m, n, k)
        a = quantize(random_activation(m, k, seed), direct=direct)
        b = quantize(random_weight(n, k, seed), direct=direct)
        return self.problem(a, b, default_alpha(a, b))

    def problem(self, a: Nvfp4Matrix, b: Nvfp4Matrix, alpha: float) -> FlashInferProblem:
        """A product of operands that are given; the output is NaN until something writes it."""
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
            torch.cuda.current_stream().synchronize()  # from here on, any stream may run it
        return FlashInferProblem(
            a=a, b=b, alpha=np.float32(alpha), inputs=inputs, memory=memory, pitch=pitch
        )

    def run_tactic(self, tactic_id: int, problem: FlashInferProblem) -> None:
        """Queue the product; a `LaunchError` concerns this tactic alone."""
        tactic = checked_tactic(tactic_id)
        engine = self._engine()
        captured: list[FlashInferProblem] | None = getattr(self._recording, "problems", None)
        if captured is not None:
            captured.append(problem)
        with self._translated(f"launching tactic {tactic_id} ({tactic.name})"):
            engine.runner(problem.inputs, tactic=tactic_id)

    def output(self, problem: FlashInferProblem) -> Output:
        """A copy, once all that was queued on the current stream has ended."""
        m, n = problem.a.rows, problem.b.rows
        whole: Output = self._bytes(problem)[:-GUARD_BYTES].view(ml_dtypes.bfloat16)
        return whole.reshape(m, problem.pitch)[:, :n].copy()

    def guard(self, problem: FlashInferProblem) -> Bytes:
        """The memory behind the output."""
        return self._bytes(problem)[-GUARD_BYTES:]

    def poison(self, problem: FlashInferProblem) -> None:
        """Make every element of the output NaN again."""
        with self._translated("poisoning the output"):
            problem.memory[:-GUARD_BYTES] = POISON

    def runner(self, m: int, n: int, k: int) -> Callable[[int], None]:
        """Runs on one problem, prepared now; its quantized weight is kept for the next M."""
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
        """Times a `runner` by events."""
        run = self.runner(m, n, k)
        return TorchTimer(self._engine(), run, self._translated)

    def capturing(self) -> bool:
        """Is torch's current stream being captured? Asked without importing torch."""
        torch: Any = sys.modules.get("torch")
        if not hasattr(torch, "cuda"):  # never imported, or no more than a folder of that name
            return False
        return bool(torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing())

    def capture(self, launch: Callable[[], None]) -> Callable[[], None]:
        """Record what `launch` queues; the replay keeps every problem that was recorded."""
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
        """torch's and FlashInfer's errors become ours; an error that stays has broken the card."""
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
                if not cuda.is_current_stream_capturing():  # what is captured has not run
                    cuda.synchronize()
            except Exception:
                self._broken = (
                    f"{doing} broke the use of the card in this process ({why}); "
                    "start the process again."
                )
                raise DeviceError(self._broken) from error
            raise LaunchError(f"{doing} failed ({why}); the card itself still answers.") from error


class TorchTimer:
    """The five calls of `protocol.Timer`; each queues on torch's current stream."""

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
        """Queue FlashInfer's kernel that sleeps."""
        with self._translated("delaying"):
            self._delay(microseconds)

    def event(self) -> Any:
        """Queue an event."""
        with self._translated("recording an event"):
            event = self._cuda.Event(enable_timing=True)
            event.record()
            return event

    def elapsed_microseconds(self, start: Any, end: Any) -> float:
        """The time between two events that have happened."""
        with self._translated("reading the events"):
            return 1000 * float(start.elapsed_time(end))


def _rows(matrix: Nvfp4Matrix) -> Bytes:
    """The scales as FlashInfer has them: padded rows × padded columns, in 128×4 order."""
    columns = -(-matrix.k // BLOCK // ATOM_COLUMNS) * ATOM_COLUMNS
    return matrix.scales.reshape(-1, columns)
