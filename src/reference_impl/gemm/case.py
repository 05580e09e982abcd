"""One GEMM as the contracts ask for it: random operands, one tactic, digests and the error."""

import hashlib
from typing import Any, TypedDict

from .accuracy import dequantized_product, relative_error
from .numpy_backend import NumpyBackend
from .protocol import Backend


class GemmCase(TypedDict):
    """What is compared between runs, processes, tactics and scale layouts."""

    output_sha256: str
    scales_sha256: str
    relative_error: float


def gemm_case(
    m: int,
    n: int,
    k: int,
    *,
    tactic: int,
    seed: int,
    direct_sf: bool,
    backend: Backend[Any] | None = None,
) -> GemmCase:
    """Quantize, multiply and measure, on `backend` (NumPy unless given).

    The digests are of the bfloat16 output, row by row, and of the swizzled scale bytes of the
    activation, then the weight. The error is NaN if any output element was not written.
    `ValueError` for a shape, a tactic or a seed that does not exist.
    """
    chosen: Backend[Any] = NumpyBackend() if backend is None else backend
    problem = chosen.prepare(m, n, k, seed, direct=direct_sf)
    chosen.run_tactic(tactic, problem)
    output = chosen.output(problem)
    scales = problem.a.scales.tobytes() + problem.b.scales.tobytes()
    return GemmCase(
        output_sha256=hashlib.sha256(output.tobytes()).hexdigest(),
        scales_sha256=hashlib.sha256(scales).hexdigest(),
        relative_error=relative_error(output, dequantized_product(problem.a, problem.b)),
    )
