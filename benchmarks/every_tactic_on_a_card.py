"""Run every tactic a few times under a checker:

    compute-sanitizer --tool memcheck python every_tactic_on_a_card.py

Quantizes on the card in both ways, makes operands there, and multiplies with all 32 tactics: shapes
below, at and above the tile sizes, N that is not a multiple of 8, and K that ends within a K tile.
"""

from nvfp4_reference.gemm.cupy import CupyBackend

SHAPES = ((1, 320, 384), (17, 257, 1056), (130, 520, 2080), (300, 3, 5152))


def main() -> None:
    """Print the number of products."""
    card = CupyBackend()
    done = 0
    for m, n, k in SHAPES:
        for problem in (
            card.prepare(m, n, k, 1, direct=m % 2 == 0),
            card.product(card.operand(m, k, 2), card.operand(n, k, 3)),
        ):
            for tactic in problem.device.architecture.tactics:
                card.run_tactic(tactic.id, problem)
                done += 1
            card.output(problem)
    print(f"{done} products")


if __name__ == "__main__":
    main()
