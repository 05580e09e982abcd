"""The phenomenon, shown: fresh processes tune differently, and one frozen map makes them agree.

Each process measures every tactic for every profile, as an engine does at start. Near-ties fall one
way here and another way there, and two that tune at once disturb each other's clock; so benchmarks
compare different kernels and output changes with every restart. A frozen map ends that.

On a GPU the profiles are the oracle's 64; on a CPU they are scaled down, to be tuned in seconds.
"""

import contextlib
import itertools
import math
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from pytest_nvfp4 import oracle
from pytest_nvfp4.implementations.loader import Target
from pytest_nvfp4.implementations.messages import (
    Description,
    Planned,
    Rejected,
    ReportedError,
    SubjectError,
)
from pytest_nvfp4.implementations.subject import Subject
from pytest_nvfp4.model import profile_list
from pytest_nvfp4.plans import PlanKey, PlanMap

CPU_SCALE = 16
"""Without a GPU, the oracle's shapes and tokens are divided by this."""

TOGETHER = 2

_VARIABLES = {
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
    # The bundled reference then takes the card, if there is one; to others this means nothing.
    "NVFP4_REFERENCE_BACK_END": os.environ.get("NVFP4_REFERENCE_BACK_END") or "auto",
}
_NATIVE, _FROZEN = "VT_FP4_AUTOTUNE_CACHE_PATH", "VT_FP4_AUTOTUNE_CACHE_READONLY"

Times = Mapping[PlanKey, Mapping[int, float]]
"""The mean microseconds of each tactic that had a valid time, for each profile."""


@dataclass(frozen=True, slots=True)
class Request:
    """What every process is asked to make ready: a number of tokens, and the (N, K) of weights."""

    max_tokens: int
    shapes: Sequence[tuple[int, int]]

    @property
    def keys(self) -> list[PlanKey]:
        """The profiles, weight by weight."""
        rows = profile_list(self.max_tokens)
        return [PlanKey(m, n, k) for (n, k), m in itertools.product(self.shapes, rows)]


@dataclass(frozen=True, slots=True)
class Tuned:
    """What one process chose, and what it measured, where the implementation tells."""

    plans: PlanMap
    times: Times | None
    seconds: float


@dataclass(frozen=True, slots=True)
class Agreement:
    """How much the maps of several processes agree: in all of them, and pair by pair."""

    profiles: int
    in_all: int
    pairs: tuple[int, ...]


def agreement(maps: Sequence[PlanMap]) -> Agreement:
    """Compare maps that cover the same profiles."""
    first = maps[0]
    in_all = sum(len({plans[key] for plans in maps}) == 1 for key in first)
    pairs = [sum(a[key] == b[key] for key in first) for a, b in itertools.combinations(maps, 2)]
    return Agreement(len(first), in_all, tuple(pairs))


def regrets(plans: PlanMap, judges: Sequence[Times]) -> list[float]:
    """What each choice costs: its time over the best tactic's, less 1, by the judges' medians.

    The judges are the measurements of other processes, which tuned alone: whoever judges its own
    choice finds it the best. A tactic that no judge has a time for is left out, and so is a profile
    whose best time is 0 or beyond a double: no clock gave that.
    """
    found = []
    for key in plans:
        timed = [judge[key] for judge in judges if key in judge]
        medians = {
            tactic: statistics.median(times[tactic] for times in timed if tactic in times)
            for tactic in set().union(*timed)
        }
        if plans[key] in medians and 0 < (best := min(medians.values())) < math.inf:
            found.append(medians[plans[key]] / best - 1)
    return found


def request_for(description: Description) -> Request:
    """The oracle's profiles on a GPU, and scaled-down ones elsewhere."""
    on_a_gpu = (description.native_metadata or {}).get("architecture", 0) != 0
    scale = 1 if on_a_gpu else CPU_SCALE
    keys = oracle.load().plans
    shapes = sorted({(key.n // scale, key.k // scale) for key in keys})
    return Request(max(key.m for key in keys) // scale, shapes)


def run(target: Target, processes: int, timeout: float, out: TextIO) -> int:
    """Print all numbers; 0 where the frozen processes agree, else 1."""
    description = _described(target, timeout)
    request = request_for(description)
    metadata = description.native_metadata or {}
    where = metadata.get("gpu") or description.name
    print(f"{len(request.keys)} profiles on {where}", file=out)
    with tempfile.TemporaryDirectory(prefix="nvfp4-demo-") as folder:
        files = [Path(folder, f"process{number}.json") for number in range(processes + TOGETHER)]
        with Progress(out, "tuning alone", processes * len(request.keys)) as progress:
            alone = [
                _tuned(target, request, [file], timeout, progress)[0] for file in files[:processes]
            ]
        with Progress(out, "two at a time", TOGETHER * len(request.keys)) as progress:
            together = _tuned(target, request, files[processes:], timeout, progress)
        with Progress(out, "one frozen map", processes) as progress:
            frozen = []
            for _ in range(processes):
                frozen.append(_frozen(target, request, files[0], timeout))
                progress.step()
    for line in report(alone, together, frozen):
        print(line, file=out)
    agreed = agreement(frozen)
    return 0 if agreed.in_all == agreed.profiles else 1


def _described(target: Target, timeout: float) -> Description:
    """Who it is; an implementation that could not be shown is refused before anything is long."""
    transport = target.json_lines(timeout=timeout, variables=_VARIABLES)
    try:
        description = Subject(transport).describe()
    finally:
        transport.close()
    lacking = sorted({"session", "plan-map", "warm-up", "frozen"} - description.capabilities)
    _insist(not lacking, f"it does not claim {', '.join(lacking)}")
    return description


def report(
    alone: Sequence[Tuned], together: Sequence[Tuned], frozen: Sequence[PlanMap]
) -> Iterator[str]:
    """The table, at most 80 columns wide; regrets where there are measurements to judge by."""
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


def _tuned(
    target: Target, request: Request, files: Sequence[Path], timeout: float, progress: "Progress"
) -> list[Tuned]:
    """What fresh processes made of the request, all tuning at the same time; each saves to a file.

    All are there before the first one tunes.
    """
    with contextlib.ExitStack() as stack:
        processes = [
            stack.enter_context(_Process(target, request, {_NATIVE: str(file)}, timeout))
            for file in files
        ]
        pool = stack.enter_context(ThreadPoolExecutor(len(processes)))
        # Closed first: a thread that waits for an answer then gets an error, and the pool ends.
        closing = stack.enter_context(contextlib.ExitStack())
        for process in processes:
            closing.callback(process.close)
        waiting = [pool.submit(process.tune, progress) for process in processes]
        return [one.result() for one in waiting]


def _frozen(target: Target, request: Request, file: Path, timeout: float) -> PlanMap:
    """The map of a fresh process that may not tune."""
    variables = {_NATIVE: str(file), _FROZEN: "1"}
    with _Process(target, request, variables, timeout) as process:
        answer = process.warm_up()
        _insist(not isinstance(answer, Rejected), answer)
        return process.plans()


class _Process:
    """A fresh process of the implementation with one session."""

    def __init__(
        self, target: Target, request: Request, variables: Mapping[str, str], timeout: float
    ):
        self._transport = target.json_lines(timeout=timeout, variables=_VARIABLES)
        self._subject = Subject(self._transport)
        self._request = request
        self._variables = variables
        self._session = ""

    def __enter__(self) -> "_Process":
        answer = self._subject.open(self._variables)
        _insist(isinstance(answer, str), answer)
        self._session = str(answer)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        self._transport.close()

    def tune(self, progress: "Progress") -> Tuned:
        """Measure everything, one profile after another, and save."""
        started = time.monotonic()
        times: dict[PlanKey, Mapping[int, float]] | None = {}
        for key in self._request.keys:
            answer = self._subject.plan(self._session, key.m, key.n, key.k)
            _insist(isinstance(answer, Planned), answer)
            if isinstance(answer, Planned) and answer.tuned:  # else the times are another product's
                times = self._with_times_of(key, times)
            progress.step()
        seconds = time.monotonic() - started
        _insist(not isinstance(self.warm_up(), Rejected), "the warm-up was rejected")
        completed = self._subject.complete(self._session)
        _insist(getattr(completed, "failure", completed) is None, completed)
        return Tuned(self.plans(), times, seconds)

    def _with_times_of(
        self, key: PlanKey, times: dict[PlanKey, Mapping[int, float]] | None
    ) -> dict[PlanKey, Mapping[int, float]] | None:
        """The measurements so far; None from an implementation that does not tell any."""
        if times is None:
            return None
        try:
            found = self._subject.times(self._session)
        except ReportedError:
            return None
        return None if isinstance(found, Rejected) else {**times, key: found}

    def warm_up(self) -> object:
        """Make the request's profiles ready, as an engine does at start."""
        request = self._request
        return self._subject.warm_up(self._session, request.max_tokens, list(request.shapes))

    def plans(self) -> PlanMap:
        """The map, which has to cover the request."""
        answer = self._subject.plans(self._session)
        _insist(isinstance(answer, PlanMap), answer)
        keys = self._request.keys
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
        self._lock = threading.Lock()

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
