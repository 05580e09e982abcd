"""One block-scaled product: alpha * A·Bᵀ of two quantized operands, by one tactic.

output = run(4, a, b, alpha)      # bfloat16, M × N, for a with M rows and b with N rows
"""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from .. import tactics
from ..errors import Rejected
from .accumulation import accumulate
from .elements import Doubles
from .matrix import Nvfp4Matrix

Output: TypeAlias = NDArray[Any]
OutputType = Literal["bf16", "fp16", "fp32"]

OUTPUT_DTYPES: dict[OutputType, np.dtype[Any]] = {
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "fp16": np.dtype(np.float16),
    "fp32": np.dtype(np.float32),
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Problem:
    """Two quantized operands, their expanded values, and an output to write to.

    `a`: M × K, the activation. `b`: N × K, the weight. `alpha`: the float32 factor of the sum.
    `out`: M × N of an output dtype; it may be part of a larger array. `expanded_a`, `expanded_b`:
    see `Nvfp4Matrix.expanded`; 8 bytes per value.
    """

    a: Nvfp4Matrix
    b: Nvfp4Matrix
    alpha: np.float32
    out: Output
    expanded_a: Doubles
    expanded_b: Doubles


def problem(a: Nvfp4Matrix, b: Nvfp4Matrix, alpha: float, out: Output) -> Problem:
    """Check the parts of a problem, and expand the operands.

    `ValueError` for operands of different K, an alpha that is not finite in float32, and an output
    of another shape or dtype or one that is read-only.
    """
    if a.k != b.k:
        raise ValueError(f"The operands have K = {a.k} and K = {b.k}; give two of equal K.")
    with np.errstate(over="ignore", under="ignore"):
        single = np.float32(alpha)
    if not np.isfinite(single):
        raise ValueError(f"Alpha is {alpha}; give a number that is finite in float32.")
    if out.dtype not in OUTPUT_DTYPES.values():
        raise ValueError(f"The output is {out.dtype}; give bfloat16, float16 or float32.")
    if out.shape != (a.rows, b.rows):
        raise ValueError(f"The output has shape {out.shape}; give {(a.rows, b.rows)}, M × N.")
    if not out.flags.writeable:
        raise ValueError("The output is read-only; give a writable array.")
    return Problem(
        a=a,
        b=b,
        alpha=single,
        out=out,
        expanded_a=a.expanded(),
        expanded_b=b.expanded(),
    )


def empty_output(m: int, n: int, output: OutputType = "bf16") -> Output:
    """An M × N output of NaN, so that an element that is not written can be detected."""
    if output not in OUTPUT_DTYPES:
        raise ValueError(f"The output type is {output!r}; give one of {', '.join(OUTPUT_DTYPES)}.")
    return np.full((m, n), np.nan, OUTPUT_DTYPES[output])


def default_alpha(a: Nvfp4Matrix, b: Nvfp4Matrix) -> float:
    """1 / (global scale of a * global scale of b): the alpha that reverses the scaling."""
    return alpha_of(a.global_scale, b.global_scale)


def alpha_of(global_scale_a: float, global_scale_b: float) -> float:
    """The `default_alpha` of two global scales."""
    return 1.0 / (float(global_scale_a) * float(global_scale_b))


def run_problem(tactic_id: int, prepared: Problem) -> None:
    """Write alpha * A·Bᵀ to the whole of `prepared.out`.

    The float32 sum times alpha is rounded to float32 and then to the dtype of the output, both to
    nearest, ties to even; beyond the range of the dtype it is infinity. The operands are not
    changed. `ValueError` for a tactic outside 0-31.
    """
    tactic = checked_tactic(tactic_id)
    sums = accumulate(tactic, prepared.expanded_a, prepared.expanded_b)
    with np.errstate(over="ignore", under="ignore"):
        # Convert first, since the transposed sums of swap-AB convert slowly during assignment.
        prepared.out[...] = (sums * prepared.alpha).astype(prepared.out.dtype)


def run(
    tactic_id: int, a: Nvfp4Matrix, b: Nvfp4Matrix, alpha: float, output: OutputType = "bf16"
) -> Output:
    """alpha * A·Bᵀ, M × N: `problem` and `run_problem` in one call, with their errors."""
    prepared = problem(a, b, alpha, empty_output(a.rows, b.rows, output))
    run_problem(tactic_id, prepared)
    return prepared.out


def checked_tactic(tactic_id: int) -> tactics.Tactic:
    """The descriptor of a tactic; `ValueError` outside 0-31."""
    try:
        return tactics.resolve(tactic_id)
    except Rejected as unknown:
        raise ValueError(str(unknown)) from unknown
