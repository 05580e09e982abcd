"""The phenomenon, shown: fresh processes tune differently, and one frozen map makes them agree.

Each process measures every tactic for every profile, as an engine does at start. Near-ties fall one
way here and another way there, so benchmarks compare different kernels and output changes with
every restart. A frozen map ends that.
"""

import itertools
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from pytest_nvfp4 import oracle
from pytest_nvfp4.implementations.interface import Planned, Rejected, SubjectError
from pytest_nvfp4.implementations.loader import Target
from pytest_nvfp4.implementations.subject import Subject
from pytest_nvfp4.model import profile_list
from pytest_nvfp4.plans import PlanKey, PlanMap

SCALE = 16
"""The oracle's shapes and tokens are divided by this, so that a CPU can tune them in seconds."""

_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
_NATIVE, _FROZEN = "VT_FP4_AUTOTUNE_CACHE_PATH", "VT_FP4_AUTOTUNE_CACHE_READONLY"


@dataclass(frozen=True, slots=True)
class Agreement:
    """How much the maps of several processes agree: in all of them, and pair by pair."""

    profiles: int
    in_all: int
    pairs: tuple[int, ...]


def agreement(maps: list[PlanMap]) -> Agreement:
    """Compare maps that cover the same profiles."""
    first = maps[0]
    in_all = sum(len({plans[key] for plans in maps}) == 1 for key in first)
    pairs = [sum(a[key] == b[key] for key in first) for a, b in itertools.combinations(maps, 2)]
    return Agreement(len(first), in_all, tuple(pairs))


def requests() -> tuple[int, list[tuple[int, int]]]:
    """The maximum number of tokens and the (N, K) of the scaled-down oracle."""
    keys = oracle.load().plans
    shapes = sorted({(key.n // SCALE, key.k // SCALE) for key in keys})
    return max(key.m for key in keys) // SCALE, shapes


def run(target: Target, processes: int, timeout: float, out: TextIO) -> int:
    """Print both numbers; 0 where the frozen processes agree, else 1."""
    max_tokens, shapes = requests()
    _claims_enough(target, timeout)
    with tempfile.TemporaryDirectory(prefix="nvfp4-demo-") as folder:
        paths = [Path(folder, f"process{number}.json") for number in range(processes)]
        free, frozen = [], []
        total = processes * len(shapes) * len(profile_list(max_tokens))
        with Progress(out, "tuning freely", total) as progress:
            for path in paths:
                free.append(_tuned(target, {_NATIVE: str(path)}, timeout, progress))
        with Progress(out, "one frozen map", processes) as progress:
            for _ in range(processes):
                variables = {_NATIVE: str(paths[0]), _FROZEN: "1"}
                frozen.append(_frozen(target, variables, timeout))
                progress.step()
    agreed = agreement(frozen)
    for line in report(agreement(free), agreed, processes):
        print(line, file=out)
    return 0 if agreed.in_all == agreed.profiles else 1


def _claims_enough(target: Target, timeout: float) -> None:
    """Refuse an implementation that could not be shown, before anything takes long."""
    transport = target.json_lines(timeout=timeout)
    try:
        claims = Subject(transport).describe().capabilities
    finally:
        transport.close()
    lacking = sorted({"session", "plan-map", "warm-up", "frozen"} - claims)
    _insist(not lacking, f"it does not claim {', '.join(lacking)}")


def report(free: Agreement, frozen: Agreement, processes: int) -> Iterator[str]:
    """The two numbers, as lines."""
    for name, found in (("without a cache", free), ("one frozen map", frozen)):
        yield (
            f"{name:<16} {found.in_all:>3} of {found.profiles} profiles agree in all {processes} "
            f"processes, pairwise {min(found.pairs)} to {max(found.pairs)}"
        )


def _tuned(
    target: Target, variables: Mapping[str, str], timeout: float, progress: "Progress"
) -> PlanMap:
    """The map of a fresh process that has tuned everything, and saved it."""
    max_tokens, shapes = requests()
    with _Process(target, variables, timeout) as process:
        for (n, k), m in itertools.product(shapes, profile_list(max_tokens)):
            answer = process.subject.plan(process.session, m, n, k)
            _insist(isinstance(answer, Planned), answer)
            progress.step()
        _insist(not isinstance(process.warm_up(), Rejected), "the warm-up was rejected")
        completed = process.subject.complete(process.session)
        _insist(getattr(completed, "failure", completed) is None, completed)
        return process.plans()


def _frozen(target: Target, variables: Mapping[str, str], timeout: float) -> PlanMap:
    """The map of a fresh process that may not tune."""
    with _Process(target, variables, timeout) as process:
        answer = process.warm_up()
        _insist(not isinstance(answer, Rejected), answer)
        return process.plans()


class _Process:
    """A fresh process of the implementation with one session."""

    def __init__(self, target: Target, variables: Mapping[str, str], timeout: float):
        self._transport = target.json_lines(timeout=timeout, variables=_ONE_THREAD)
        self.subject = Subject(self._transport)
        self._variables = variables
        self.session = ""

    def __enter__(self) -> "_Process":
        answer = self.subject.open(self._variables)
        _insist(isinstance(answer, str), answer)
        self.session = str(answer)
        return self

    def __exit__(self, *_: object) -> None:
        self._transport.close()

    def warm_up(self) -> object:
        max_tokens, shapes = requests()
        return self.subject.warm_up(self.session, max_tokens, shapes)

    def plans(self) -> PlanMap:
        answer = self.subject.plans(self.session)
        _insist(isinstance(answer, PlanMap), answer)
        max_tokens, shapes = requests()
        keys = [PlanKey(m, n, k) for n, k in shapes for m in profile_list(max_tokens)]
        lacking = [key for key in keys if key not in answer]  # type: ignore[operator]
        _insist(not lacking, f"after its warm-up the map lacks {lacking[:1]}")
        return PlanMap([(key, answer[key]) for key in keys])  # type: ignore[index]


def _insist(condition: bool, answer: object) -> None:
    if not condition:
        message = answer.message if isinstance(answer, Rejected) else answer
        raise SubjectError(f"the implementation cannot be shown: {message}")


class Progress:
    """A bar on a terminal; where the output is no terminal, a line before and one after."""

    def __init__(self, out: TextIO, title: str, total: int):
        self._out, self._title, self._total = out, title, total
        self._done = 0
        self._start = time.monotonic()

    def __enter__(self) -> "Progress":
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
        self._done += 1
        self._draw()

    def _draw(self) -> None:
        if self._out.isatty():
            filled = 30 * self._done // self._total
            bar = "#" * filled + "-" * (30 - filled)
            self._out.write(f"\r{self._title:<16} [{bar}] {self._done}/{self._total}")
            self._out.flush()
