"""Measure several calls side by side: interleaved rounds, medians, one table, bars as ratios."""

import random
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One comparison: its name, the seconds of both sides, and the highest allowed ratio."""

    name: str
    ours: float
    theirs: float
    bar: float | None = None

    @property
    def ratio(self) -> float:
        return self.ours / self.theirs

    @property
    def missed(self) -> bool:
        return self.bar is not None and self.ratio > self.bar


def medians(*sides: Callable[[], object], rounds: int = 15, number: int = 20) -> list[float]:
    """Median seconds of one call of each side; the sides alternate within each round.

    The order is random in each round, so that no side always finds the caches of another one.
    """
    times: list[list[float]] = [[] for _ in sides]
    turns = list(zip(sides, times, strict=True))
    for side in sides:
        side()
    for _ in range(rounds):
        random.shuffle(turns)
        for side, taken in turns:
            start = time.perf_counter()
            for _ in range(number):
                side()
            taken.append((time.perf_counter() - start) / number)
    return [statistics.median(taken) for taken in times]


def show(rows: list[Row], ours: str, theirs: str) -> int:
    """Print the table; return the exit status."""
    print(f"{'':<38} {ours:>12} {theirs:>12} {'ratio':>7} {'bar':>6}")
    for row in rows:
        bar = "" if row.bar is None else f"{row.bar:g}"
        mark = "  missed" if row.missed else ""
        ratio = f"{row.ratio:.2f}" if row.ratio >= 0.1 else f"{row.ratio:.1g}"
        times = f"{unit(row.ours):>12} {unit(row.theirs):>12} {ratio:>7}"
        print(f"{row.name:<38} {times} {bar:>6}{mark}")
    return int(any(row.missed for row in rows))


def unit(seconds: float) -> str:
    """A time with a suitable unit."""
    for scale, name in ((1, "s"), (1e3, "ms"), (1e6, "µs")):
        if seconds * scale >= 1:
            return f"{seconds * scale:.1f} {name}"
    return f"{seconds * 1e9:.0f} ns"


def main(measure: Callable[[], int]) -> None:
    sys.exit(measure())
