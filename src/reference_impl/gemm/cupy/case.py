"""One GEMM on the card as the contracts look at it; see `gemm.case`."""

from ..case import GemmCase, launch, operand_case, text
from . import operands
from .cupy_backend import CupyBackend


def gemm_case(
    card: CupyBackend,
    m: int,
    n: int,
    k: int,
    *,
    tactic: int,
    seed: int,
    direct_sf: bool,
    replayed: bool = False,
) -> GemmCase:
    """Quantize random operands on the card and multiply them, in memory that goes on behind.

    The output is NaN before, and the guard lies behind its last row. With `replayed`, the product
    comes from a captured graph.
    """
    problem = card.prepare(m, n, k, seed, direct=direct_sf)
    launch(card, tactic, problem, operands.poison, replayed=replayed)
    return GemmCase(
        a=operand_case(problem.a),
        b=operand_case(problem.b),
        alpha=float(problem.alpha),
        output=text(card.output(problem)),
        output_dtype="bf16",
        guard=text(operands.guard(problem)),
    )
