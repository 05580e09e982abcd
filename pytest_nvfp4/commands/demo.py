"""``nvfp4-conformance demo``: what tuning in every process does, and what freezing does."""

from __future__ import annotations

import argparse
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from pytest_nvfp4.commands import arguments
from pytest_nvfp4.errors import UsageError
from pytest_nvfp4.extras import require_suite

if TYPE_CHECKING:
    from pytest_nvfp4.commands.tuning import Tuned
    from pytest_nvfp4.implementations.loader import Target
    from pytest_nvfp4.plans import PlanMap

SUMMARY = "show what tuning in every process does, and what freezing does"

MOST_PROCESSES = 64


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the implementation, the number of processes and the time limit."""
    parser.add_argument(
        "impl",
        nargs="?",
        default="reference",
        metavar="IMPL",
        help=f"{arguments.IMPL} (reference)",
    )
    parser.add_argument("--processes", type=int, default=4, metavar="N", help="2 to 64 (4)")
    arguments.add_timeout(parser, 120.0)


def execute(options: argparse.Namespace) -> int:
    """Tune in N fresh processes and count the tactics that agree; then again with a frozen map.
    The exit status is 1 where the processes with a frozen map do not agree.
    """
    require_suite("the demo")
    from pytest_nvfp4.implementations.loader import load
    from pytest_nvfp4.implementations.messages import SubjectError

    if not 2 <= options.processes <= MOST_PROCESSES:
        raise UsageError(f"--processes is {options.processes}; use 2 to {MOST_PROCESSES}")
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))  # ends its processes first
    try:
        return show(load(options.impl), options.processes, options.timeout, sys.stdout)
    except SubjectError as error:
        raise UsageError(str(error)) from None


def show(target: Target, processes: int, timeout: float, out: TextIO) -> int:
    """Measure and print the table; 0 where the processes with a frozen map agree, else 1."""
    from pytest_nvfp4.commands import tuning
    from pytest_nvfp4.text import counted

    description = tuning.describe(target, timeout)
    workload = tuning.workload_for(description)
    metadata = description.native_metadata or {}
    where = metadata.get("gpu") or description.name
    print(f"{counted(len(workload.keys), 'profile')} on {where}", file=out)
    with tempfile.TemporaryDirectory(prefix="nvfp4-demo-") as folder:
        total = processes + tuning.TOGETHER
        files = [Path(folder, f"process{number}.json") for number in range(total)]
        with Progress(out, "tuning alone", processes * len(workload.keys)) as progress:
            alone = [
                tuning.tune(target, workload, [file], timeout, progress)[0]
                for file in files[:processes]
            ]
        with Progress(out, "two at a time", tuning.TOGETHER * len(workload.keys)) as progress:
            together = tuning.tune(target, workload, files[processes:], timeout, progress)
        with Progress(out, "one frozen map", processes) as progress:
            frozen = []
            for _ in range(processes):
                frozen.append(tuning.serve_frozen(target, workload, files[0], timeout))
                progress.step()
    for line in table(alone, together, frozen):
        print(line, file=out)
    agreed = tuning.agreement(frozen)
    return 0 if agreed.in_all == agreed.profiles else 1


def table(
    alone: Sequence[Tuned], together: Sequence[Tuned], frozen: Sequence[PlanMap]
) -> Iterator[str]:
    """The table, at most 80 columns wide; regrets where there are measurements to judge by."""
    from pytest_nvfp4.commands.tuning import agreement, regrets

    judges = [one.times for one in alone if one.times is not None]
    costs: list[list[float]] = [[], [], []]
    if len(judges) == len(alone):
        for number, one in enumerate(alone):
            costs[0] += regrets(one.plans, [*judges[:number], *judges[number + 1 :]])
        for one in together:
            costs[1] += regrets(one.plans, judges)
        costs[2] = regrets(frozen[0], judges[1:])
    judged = any(costs)
    yield ""
    yield f"{'':<16}  agree in all     pair by pair" + ("   regret: median   worst" * judged)
    arms = ([one.plans for one in alone], [one.plans for one in together], frozen)
    names = (f"{len(alone)} alone", f"{len(together)} at a time", f"{len(frozen)} with one map")
    for name, maps, cost in zip(names, arms, costs, strict=True):
        found = agreement(maps)
        pairs = f"{min(found.pairs)} to {max(found.pairs)}"
        if len(found.pairs) == 1:
            pairs = str(found.pairs[0])
        line = f"{name:<16}  {found.in_all:>4} of {found.profiles:<5}  {pairs:>14}"
        if cost:
            line += f"  {statistics.median(cost):>16.1%}  {max(cost):>6.1%}"
        yield line
    yield ""
    seconds = statistics.median(one.seconds for one in alone)
    yield f"a process that tunes alone takes {seconds:.1f} s"
    if judged:
        yield "regret: what the chosen tactic takes over the best, by other processes' clocks"


class Progress:
    """A bar on a terminal; where the output is no terminal, a line before and one after."""

    def __init__(self, out: TextIO, title: str, total: int):
        self._out, self._title, self._total = out, title, total
        self._done = 0
        self._start = time.monotonic()
        self._lock = threading.Lock()

    def __enter__(self) -> Progress:
        if not self._out.isatty():
            self._out.write(f"{self._title}: {self._total} to do\n")
            self._out.flush()
        self._draw()
        return self

    def __exit__(self, *_: object) -> None:
        seconds = f"{time.monotonic() - self._start:.0f} s"
        if self._out.isatty():
            self._out.write("\n")
        else:
            self._out.write(f"{self._title}: {self._done} of {self._total} in {seconds}\n")
        self._out.flush()

    def step(self) -> None:
        """One more is done; called from any thread."""
        with self._lock:
            self._done += 1
            self._draw()

    def _draw(self) -> None:
        if self._out.isatty():
            filled = 30 * self._done // self._total
            bar = "#" * filled + "-" * (30 - filled)
            self._out.write(f"\r{self._title:<16} [{bar}] {self._done}/{self._total}")
            self._out.flush()
