"""The protocol of a GEMM back end: NumPy everywhere, CUTLASS through CuPy on a GPU.

Profiling, graph capture and the GEMM contracts use only this protocol.
"""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import numpy as np

from ..profiling import Timer
from .elements import Floats
from .matrix import Nvfp4Matrix
from .product import Output

GUARD_BYTES, GUARD_FILL = 256, 0xA5
"""The size and the fill byte of the memory after an output, which no kernel may change."""

POISON = 0xFF
"""The byte of an output that is not written yet; two of them are a bfloat16 NaN."""


class Prepared(Protocol):
    """The properties of a prepared problem of any back end: its operands and alpha."""

    @property
    def a(self) -> Nvfp4Matrix:
        """The activation, M × K."""

    @property
    def b(self) -> Nvfp4Matrix:
        """The weight, N × K."""

    @property
    def alpha(self) -> np.float32:
        """The factor of the sum."""


ProblemT = TypeVar("ProblemT", bound=Prepared)


class Backend(Protocol[ProblemT]):
    """One way to quantize and multiply. A mistake of the caller raises `ValueError`."""

    @property
    def name(self) -> str:
        """The name in options and reports: `numpy`, `cupy` or `flashinfer`."""

    def available(self) -> bool:
        """Whether it can run here. The call has no effect and raises no error."""

    def quantize(
        self, numbers: Floats, *, global_scale: float | None = None, direct: bool = True
    ) -> Nvfp4Matrix:
        """Quantize with the bytes of `quantization.quantize`."""

    def prepare(self, m: int, n: int, k: int, seed: int, *, direct: bool = True) -> ProblemT:
        """A problem of random operands that depend only on the arguments.

        See `random_operands.random_operands`. The output is bfloat16, as in the native document,
        and NaN until a tactic writes it.
        """

    def run_tactic(self, tactic_id: int, problem: ProblemT) -> None:
        """Launch alpha * A·Bᵀ; it writes the whole output of the problem and nothing else."""

    def output(self, problem: ProblemT) -> Output:
        """The output on the host, M × N, once all launched work has ended."""

    def runner(self, m: int, n: int, k: int) -> Callable[[int], None]:
        """A call that launches a tactic, by id, on the same operands each time."""

    def timer(self, m: int, n: int, k: int) -> Timer[Any]:
        """A timer whose `run` is a `runner` of this shape."""

    def capturing(self) -> bool:
        """Whether a graph is being captured, so that nothing may be tuned."""

    def capture(self, launch: Callable[[], None]) -> Callable[[], None]:
        """Capture the work that `launch` launches; returns the call that replays it."""
