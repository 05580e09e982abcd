"""The tactics on a card, beside cuBLAS on the same operands in half: gemm_on_a_card.py [M ...]

For each shape of the oracle: all 32 tactics are measured as tuning measures them, and then the best
one and cuBLAS in turn, so that a clock that sinks under load sinks for both. cuBLAS multiplies what
the tactics multiply on sm_90a: FP4 times scales, expanded before. Times are microseconds, medians.
"""

import statistics
import sys
import time
from typing import Any

from nvfp4_reference.gemm.cupy import CupyBackend
from nvfp4_reference.profiling import Profiler
from nvfp4_reference.tactics import TACTICS

WEIGHTS = ((5120, 6144), (5120, 17408), (14336, 5120), (34816, 5120))
DELAY = 5000
ROUNDS = 7


def microseconds(card: CupyBackend, device: Any, launch: Any) -> float:
    """The mean of ten runs in a row, behind a delay, after three that do not count."""
    timer = card.timer(1, 32, 64)
    with device.active():
        for _ in range(3):
            launch()
        timer.synchronize()
        timer.delay(DELAY)
        start = timer.event()
        for _ in range(10):
            launch()
        end = timer.event()
        timer.synchronize()
        return timer.elapsed_microseconds(start, end) / 10


def cublas(problem: Any) -> Any:
    """A call that multiplies the expanded operands by cuBLAS."""
    cupy = problem.device.cupy
    m, n, k = problem.m, problem.pitch, problem.operand_a.k
    a = cupy.ndarray((m, k), cupy.float16, problem.operand_a.expanded)
    b = cupy.ndarray((n, k), cupy.float16, problem.operand_b.expanded)
    with problem.device.active():
        out = cupy.empty((m, n), cupy.float16)
    return lambda: cupy.dot(a, b.T, out=out)


def main(arguments: list[str]) -> None:
    """Print the table."""
    rows = [int(one) for one in arguments] or [1, 16, 128, 512, 2048]
    card = CupyBackend(progress=lambda sentence: print(sentence, flush=True))
    began = time.perf_counter()
    print(f"{'M':>5} {'N':>6} {'K':>6}  best of 32 tactics {'':18} time  cuBLAS  ratio  second")
    ratios = []
    for n, k in WEIGHTS:
        weight = card.prepare(1, n, k, 0).b
        for m in rows:
            selection = Profiler().select(card.timer(m, n, k), (m, n, k), DELAY, [])
            best = selection.tactic
            second = sorted(selection.microseconds.values())[1]
            problem = card.problem(card.prepare(m, 32, k, 0).a, weight, 1.0)
            calls = (
                (lambda problem=problem, best=best: card.run_tactic(best, problem)),
                cublas(problem),
            )
            times: list[list[float]] = [[], []]
            for _ in range(ROUNDS):
                for call, found in zip(calls, times, strict=True):
                    found.append(microseconds(card, problem.device, call))
            ours, theirs = map(statistics.median, times)
            ratios.append(ours / theirs)
            name = f"{best:2} {TACTICS[best].name}"
            slower = second / selection.microseconds[best]
            print(
                f"{m:5} {n:6} {k:6}  {name:36} {ours:6.1f} {theirs:7.1f} {ours / theirs:6.2f} "
                f"{slower:7.3f}",
                flush=True,
            )
    mean = statistics.geometric_mean(ratios)
    print(
        f"geometric mean {mean:.3f} over {len(ratios)} shapes; {time.perf_counter() - began:.0f} s"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
