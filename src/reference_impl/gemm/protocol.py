"""What a GEMM back end is: NumPy everywhere, CUTLASS through CuPy on a GPU.

Profiling, graph capture and the GEMM contracts are written against this and nothing more.
"""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import numpy as np

from ..profiling import Timer
from .elements import Floats
from .matrix import Nvfp4Matrix
from .product import Output

GUARD_BYTES, GUARD_FILL = 256, 0xA5
"""What lies behind the output of a product that the contracts look at, and must stay as it is."""

POISON = 0xFF
"""Every byte of an output that nothing has written: NaN."""


class Prepared(Protocol):
    """What any back end's prepared problem shows of itself: its operands, as bytes, and alpha."""

    @property
    def a(self) -> Nvfp4Matrix:
        """The activation, M × K."""

    @property
    def b(self) -> Nvfp4Matrix:
        """The weight, N × K."""

    @property
    def alpha(self) -> np.float32:
        """What the sum is multiplied with."""


ProblemT = TypeVar("ProblemT", bound=Prepared)


class Backend(Protocol[ProblemT]):
    """One way to quantize and multiply. Errors of the caller are `ValueError`, one sentence."""

    @property
    def name(self) -> str:
        """As in options and reports: `numpy`, `cupy`."""

    def available(self) -> bool:
        """Can it run here? Asking starts nothing and raises nothing."""

    def quantize(
        self, numbers: Floats, *, global_scale: float | None = None, direct: bool = True
    ) -> Nvfp4Matrix:
        """See `quantization.quantize`, whose bytes every back end must give."""

    def prepare(self, m: int, n: int, k: int, seed: int, *, direct: bool = True) -> ProblemT:
        """Random operands that depend on the arguments alone, ready to run.

        The output is bfloat16, as in the native document, and NaN until something writes it.
        """

    def run_tactic(self, tactic_id: int, problem: ProblemT) -> None:
        """Launch alpha * A·Bᵀ; it writes the problem's whole output and nothing else."""

    def output(self, problem: ProblemT) -> Output:
        """The problem's output on the host, M × N, once everything launched has ended."""

    def runner(self, m: int, n: int, k: int) -> Callable[[int], None]:
        """A call that launches a tactic, by id, on operands that stay the same between calls."""

    def timer(self, m: int, n: int, k: int) -> Timer[Any]:
        """A timer whose `run` is a `runner` of this shape."""

    def capturing(self) -> bool:
        """Is a graph being recorded now, so that nothing may be tuned?"""

    def capture(self, launch: Callable[[], None]) -> Callable[[], None]:
        """Record what `launch` launches; returns the call that replays it."""
