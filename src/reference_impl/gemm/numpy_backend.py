"""The back end that runs everywhere: NumPy on the CPU.

Exact in what it adds up and the same in every process (see `accumulation`). It is a reference and
not a fast GEMM, but its operands are expanded once, so a run is cheap enough to be timed.

The BLAS library's threads change the speed and never the bytes. Where several processes share the
cores, they wait for each other's threads; OPENBLAS_NUM_THREADS=1 (or the like) is then faster.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from .elements import Floats
from .matrix import Nvfp4Matrix
from .product import Output, Problem, default_alpha, empty_output, problem, run_problem
from .quantization import quantize
from .random_operands import random_operands

RUNNER_SEED = 0


@dataclass(frozen=True, slots=True)
class NumpyBackend:
    """See `protocol.Backend`. It has no state; a problem's output belongs to one thread."""

    name: str = "numpy"

    def available(self) -> bool:
        """Wherever this module can be imported."""
        return True

    def quantize(
        self, numbers: Floats, *, global_scale: float | None = None, direct: bool = True
    ) -> Nvfp4Matrix:
        """See `quantization.quantize`."""
        return quantize(numbers, global_scale=global_scale, direct=direct)

    def prepare(self, m: int, n: int, k: int, seed: int, *, direct: bool = True) -> Problem:
        """See `random_operands`; takes 8 bytes of memory per value."""
        numbers_a, numbers_b = random_operands(m, n, k, seed)
        a, b = quantize(numbers_a, direct=direct), quantize(numbers_b, direct=direct)
        return problem(a, b, default_alpha(a, b), empty_output(m, n))

    def run_tactic(self, tactic_id: int, problem: Problem) -> None:
        """See `product.run_problem`."""
        run_problem(tactic_id, problem)

    def output(self, problem: Problem) -> Output:
        """A copy, which a later run does not change."""
        return problem.out.copy()

    def runner(self, m: int, n: int, k: int) -> Callable[[int], None]:
        """Runs on one problem, prepared now."""
        prepared = self.prepare(m, n, k, RUNNER_SEED)
        return lambda tactic_id: run_problem(tactic_id, prepared)

    def timer(self, m: int, n: int, k: int) -> "NumpyTimer":
        """Times a `runner`."""
        return NumpyTimer(self.runner(m, n, k))

    def capturing(self) -> bool:
        """A CPU records no graphs."""
        return False

    def capture(self, launch: Callable[[], None]) -> Callable[[], None]:
        """Nothing is recorded: to replay is to launch again."""
        return launch


class NumpyTimer:
    """Runs `product(tactic)` and reads the monotonic clock; a mark is its nanoseconds."""

    def __init__(self, product: Callable[[int], object]) -> None:
        self._product = product

    def run(self, tactic: int) -> None:
        """Compute the product; its result is dropped."""
        self._product(tactic)

    def synchronize(self) -> None:
        """All that was asked for is done already."""

    def delay(self, microseconds: int) -> None:
        """Sleep at least this long."""
        time.sleep(microseconds / 1e6)

    def event(self) -> int:
        """Now, in nanoseconds."""
        return time.perf_counter_ns()

    def elapsed_microseconds(self, start: int, end: int) -> float:
        """Microseconds between two marks."""
        return (end - start) / 1000
