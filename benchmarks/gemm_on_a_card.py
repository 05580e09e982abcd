"""The tactics on a card, compared with cuBLAS on the same operands in half precision.

For each shape of the oracle, all 32 tactics are measured once, as in a tuning, and one is chosen.
Then the fastest four, cuBLAS, and the chosen one with both expansions are measured in alternation,
so that a clock that slows down under load affects all of them. Operands rotate through more memory
than the card's cache holds. cuBLAS multiplies the same values as the tactics on sm_90a: FP4 times
scales, expanded beforehand. Times are medians of rounds in microseconds; each is the mean of ten
successive runs.

    ratio    the fastest tactic over cuBLAS
    regret   the chosen tactic over the fastest, minus one
    total    the chosen tactic, with the expansion of both operands in every call
"""

import argparse
import math
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from typing import Any

from nvfp4_reference import NativeMetadata, Session, resolve
from nvfp4_reference.buckets import profiles
from nvfp4_reference.gemm.cupy import CupyBackend
from nvfp4_reference.profiling import Profiler
from nvfp4_reference.tactics import TACTICS

WEIGHTS = ((5120, 6144), (5120, 17408), (14336, 5120), (34816, 5120))
ROWS = profiles(2048)
TUNING_DELAY = 5000
DELAY = 1500  # long enough for the host to queue ten calls with expansions
ROUNDS = 7
L2_SIZE = 38  # cudaDevAttrL2CacheSize
BEYOND_L2 = 3
LARGE_M = 512
CONTENDERS = 4

Call = Callable[[], object]


@dataclass(frozen=True)
class Measured:
    """One row of the table, and the seconds that its tuning took."""

    m: int
    ratio: float
    regret: float
    tuning: float


def bars(rows: Sequence[Measured], rates: Sequence[float], host: float) -> list[str]:
    """The summary: each measured value with its bar."""
    lines = [f"{'':<44} {'measured':>10} {'bar':>8}"]

    def line(name: str, value: float, bar: float, *, least: bool = False) -> None:
        missed = value < bar if least else value > bar
        sign = ">=" if least else "<="
        mark = "  missed" if missed else ""
        lines.append(f"{name:<44} {value:>10.3f} {sign:>3} {bar:g}{mark}")

    for name, part, most, mean in (
        (f"M >= {LARGE_M}", [row for row in rows if row.m >= LARGE_M], 1.15, 1.05),
        (f"M < {LARGE_M}", [row for row in rows if row.m < LARGE_M], 1.25, 1.08),
    ):
        if part:
            ratios = [row.ratio for row in part]
            line(f"{name}: largest ratio of {len(part)}", max(ratios), most)
            line(f"{name}: geometric mean", statistics.geometric_mean(ratios), mean)
    regrets = [100 * row.regret for row in rows]
    line("regret of the chosen tactic: median, %", statistics.median(regrets), 3)
    lines.append(f"{'regret of the chosen tactic: worst, %':<44} {max(regrets):>10.3f}")
    if len(rows) == len(ROWS) * len(WEIGHTS):
        seconds = sum(row.tuning for row in rows)
        line(f"tuning {len(rows)} profiles x {len(TACTICS)} tactics, s", seconds, 25)
    line("expansion of the four weights: least, TB/s", min(rates), 3.5, least=True)
    line("host cost of one planned call, us", host, 30)
    return lines


class Clock:
    """Times calls on the card's stream."""

    def __init__(self, card: CupyBackend) -> None:
        self._timer = card.timer(1, 32, 64)

    def microseconds(self, calls: Sequence[Call], runs: int = 10) -> float:
        """The mean of ten successive runs after a delay and three runs that are not measured.

        The calls, which do the same in different memory, alternate.
        """
        turns = cycle(calls)
        for _ in range(max(3, len(calls))):
            next(turns)()
        self._timer.synchronize()
        self._timer.delay(DELAY)
        start = self._timer.event()
        for _ in range(runs):
            next(turns)()
        end = self._timer.event()
        self._timer.synchronize()
        return self._timer.elapsed_microseconds(start, end) / runs


def cublas(problem: Any) -> Call:
    """A call that multiplies the expanded operands by cuBLAS, on the back end's stream."""
    device = problem.device
    cupy = device.cupy
    m, n, k = problem.m, problem.pitch, problem.operand_a.k
    a = cupy.ndarray((m, k), cupy.float16, problem.operand_a.expanded)
    b = cupy.ndarray((n, k), cupy.float16, problem.operand_b.expanded)
    with device.active():
        out = cupy.empty((m, n), cupy.float16)

    def call() -> None:
        with device.active():
            cupy.dot(a, b.T, out=out)

    return call


def expansion_rate(card: CupyBackend, clock: Clock, weights: Sequence[Any]) -> float:
    """Bytes read and written per second, in TB/s: 4.5 bits in and 16 out for each value."""
    size = weights[0].rows * weights[0].k
    moved = size / 2 + size / 16 + 2 * size
    calls = [partial(card.expand, weight) for weight in weights]
    return moved / statistics.median(clock.microseconds(calls) for _ in range(ROUNDS)) / 1e6


def host_cost(card: CupyBackend) -> float:
    """The host's microseconds for a lookup and the launch of its tactic; a median.

    The card is kept busy, so that the host never waits for it.
    """
    session = Session(resolve({"VT_FP4_PERSISTENT_CACHE": "0"}, NativeMetadata.of_this_machine()))
    timer = card.timer(16, 256, 512)
    problem = card.product(card.operand(16, 512, 1), card.operand(256, 512, 2))
    session.plan(16, 256, 512, back_end=card)
    taken = []
    for _ in range(ROUNDS):
        timer.delay(20_000)
        start = time.perf_counter()
        for _ in range(200):
            plan = session.lookup(16, 256, 512)
            assert plan is not None
            card.run_tactic(plan.tactic, problem)
        taken.append((time.perf_counter() - start) / 200)
        timer.synchronize()
    return 1e6 * statistics.median(taken)


def measure(card: CupyBackend, clock: Clock, m: int, weights: Sequence[Any]) -> Measured:
    """Tune one shape, measure the candidates and print the row."""
    n, k = weights[0].rows, weights[0].k
    began = time.perf_counter()
    selection = Profiler().select(card.timer(m, n, k), (m, n, k), TUNING_DELAY, [])
    tuning = time.perf_counter() - began
    order = sorted(selection.microseconds, key=selection.microseconds.__getitem__)
    chosen, fastest = TACTICS[selection.tactic], order[:CONTENDERS]
    problems = [card.product(card.operand(m, k, seed), one) for seed, one in enumerate(weights)]

    def whole(problem: Any) -> None:
        card.expand(problem.operand_a)
        card.expand(problem.operand_b)
        card.run_tactic(chosen.id, problem)

    sides: dict[int | str, list[Call]] = {
        tactic: [partial(card.run_tactic, tactic, problem) for problem in problems]
        for tactic in fastest
    }
    sides["cuBLAS"] = [cublas(problem) for problem in problems]
    sides["total"] = [partial(whole, problem) for problem in problems]
    times: dict[int | str, list[float]] = {name: [] for name in sides}
    for _ in range(ROUNDS):
        for name in random.sample(list(sides), len(sides)):
            times[name].append(clock.microseconds(sides[name]))
    medians = {name: statistics.median(taken) for name, taken in times.items()}
    best = min(medians[tactic] for tactic in fastest)
    ours, theirs = medians[chosen.id], medians["cuBLAS"]
    found = Measured(m, best / theirs, ours / best - 1, tuning)
    swap = "swap" if chosen.swap_ab else ""
    scheduler = "SK" if chosen.scheduler == "stream-k" else "DP"
    tactic = f"{chosen.id:2} {'x'.join(map(str, chosen.tile)):<11} {swap:<4} {scheduler}"
    print(
        f"{m:5} {n:6} {k:6} {tactic} {ours:7.1f} {theirs:7.1f} {found.ratio:6.2f} "
        f"{found.regret:7.1%} {medians['total']:7.1f}",
        flush=True,
    )
    return found


def main(arguments: list[str]) -> int:
    """Print the table and the bars; returns 1 where one is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("m", nargs="*", type=int, metavar="M", help="rows (the oracle's 16)")
    rows = parser.parse_args(arguments).m or ROWS
    card = CupyBackend(progress=lambda sentence: print(sentence, flush=True))
    if reason := card.reason():
        print(f"there is no GPU to measure: {reason}", file=sys.stderr)
        return 2
    clock = Clock(card)
    device = card.product(card.operand(1, 64, 0), card.operand(32, 64, 0)).device
    if not device.architecture.expands:
        name = device.architecture.name
        print(f"{name} does not expand operands to half, which cuBLAS needs here", file=sys.stderr)
        return 2
    cache = device.cupy.cuda.runtime.deviceGetAttribute(L2_SIZE, device.ordinal)
    print(f"{device.name()}, {cache / 2**20:.0f} MiB of L2 cache")
    print(
        f"{'M':>5} {'N':>6} {'K':>6} {'chosen tactic':<22} {'us':>7}  cuBLAS  ratio  regret   total"
    )
    found, rates = [], []
    for n, k in WEIGHTS:
        copies = math.ceil(BEYOND_L2 * cache / (2 * n * k))
        weights = [card.operand(n, k, seed) for seed in range(copies)]
        rates.append(expansion_rate(card, clock, weights))
        found += [measure(card, clock, m, weights) for m in rows]
    print()
    for (n, k), rate in zip(WEIGHTS, rates, strict=True):
        print(f"expansion of {n} x {k}: {rate:.2f} TB/s")
    summary = bars(found, rates, host_cost(card))
    print("\n".join(summary))
    return int(any(line.endswith("missed") for line in summary))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
