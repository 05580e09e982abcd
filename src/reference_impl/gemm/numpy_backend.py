"""The back end that runs everywhere: NumPy on the CPU, and its timer.

Its results are the same in every process (see `accumulation`). It is a reference and not a fast
GEMM, but it expands operands only once, so that runs can be timed.

The number of threads of the BLAS library changes the speed and never the bytes. Where several
processes share the cores, one thread each (OPENBLAS_NUM_THREADS=1 or the like) is faster.
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
    """See `protocol.Backend`. It has no state; only one thread at a time may run a problem."""

    name: str = "numpy"

    def available(self) -> bool:
        """True, since this module could be imported."""
        return True

    def quantize(
        self, numbers: Floats, *, global_scale: float | None = None, direct: bool = True
    ) -> Nvfp4Matrix:
        """See `quantization.quantize`."""
        return quantize(numbers, global_scale=global_scale, direct=direct)

    def prepare(self, m: int, n: int, k: int, seed: int, *, direct: bool = True) -> Problem:
        """See `protocol.Backend.prepare`; takes 8 bytes of memory per value."""
        numbers_a, numbers_b = random_operands(m, n, k, seed)
        a, b = quantize(numbers_a, direct=direct), quantize(numbers_b, direct=direct)
        return problem(a, b, default_alpha(a, b), empty_output(m, n))

    def run_tactic(self, tactic_id: int, problem: Problem) -> None:
        """See `product.run_problem`."""
        run_problem(tactic_id, problem)

    def output(self, problem: Problem) -> Output:
        """A copy of the output, which later runs do not change."""
        return problem.out.copy()

    def runner(self, m: int, n: int, k: int) -> Callable[[int], None]:
        """A call that runs a tactic on one problem, which is prepared here."""
        prepared = self.prepare(m, n, k, RUNNER_SEED)
        return lambda tactic_id: run_problem(tactic_id, prepared)

    def timer(self, m: int, n: int, k: int) -> "NumpyTimer":
        """A timer of a `runner`."""
        return NumpyTimer(self.runner(m, n, k))

    def capturing(self) -> bool:
        """False, since there are no graphs on a CPU."""
        return False

    def capture(self, launch: Callable[[], None]) -> Callable[[], None]:
        """`launch` itself: a replay launches again."""
        return launch


class NumpyTimer:
    """Runs `product(tactic)` in the calling thread and reads the monotonic clock.

    A CPU has no queue: `run` returns when the product is done. So `synchronize` does nothing, and a
    delay hides no launch gap. It is kept as a sleep, so that each tactic starts its ten runs after
    the same pause, in which the effects of the one before it (write-back, threads of the math
    library, a raised clock) end. It is at least as long as requested and outside the two events.
    """

    def __init__(self, product: Callable[[int], object]) -> None:
        self._product = product

    def run(self, tactic: int) -> None:
        """Compute the product and discard its result."""
        self._product(tactic)

    def synchronize(self) -> None:
        """Does nothing, since all runs have ended."""

    def delay(self, microseconds: int) -> None:
        """Sleep at least this long."""
        time.sleep(microseconds / 1e6)

    def event(self) -> int:
        """The time of the monotonic clock in nanoseconds."""
        return time.perf_counter_ns()

    def elapsed_microseconds(self, start: int, end: int) -> float:
        """Microseconds between two marks."""
        return (end - start) / 1000
