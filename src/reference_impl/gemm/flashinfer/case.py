"""One GEMM by FlashInfer as the contracts look at it; see `gemm.case`."""

from ..case import GemmCase, launch, operand_case, text
from .flashinfer_backend import FlashInferBackend


def gemm_case(
    card: FlashInferBackend,
    m: int,
    n: int,
    k: int,
    *,
    tactic: int,
    seed: int,
    direct_sf: bool,
    replayed: bool = False,
) -> GemmCase:
    """Quantize random operands and multiply them on the card; the guard lies behind the output.

    With `replayed`, the product comes from a captured graph.
    """
    problem = card.prepare(m, n, k, seed, direct=direct_sf)
    launch(card, tactic, problem, card.poison, replayed=replayed)
    return GemmCase(
        a=operand_case(problem.a),
        b=operand_case(problem.b),
        alpha=float(problem.alpha),
        output=text(card.output(problem)),
        output_dtype="bf16",
        guard=text(card.guard(problem)),
    )
