"""What `demo` measures: fresh processes tune differently, and one frozen map makes them agree.

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
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

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
"""So many processes tune at the same time, to disturb each other."""

_VARIABLES = {
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
    # The bundled reference then takes the card, if there is one; to others this means nothing.
    "NVFP4_REFERENCE_BACK_END": os.environ.get("NVFP4_REFERENCE_BACK_END") or "auto",
}
_NATIVE, _FROZEN = "VT_FP4_AUTOTUNE_CACHE_PATH", "VT_FP4_AUTOTUNE_CACHE_READONLY"

Times = Mapping[PlanKey, Mapping[int, float]]
"""The mean microseconds of each tactic that had a valid time, for each profile."""


class Progress(Protocol):
    """What shows how far a measurement is."""

    def step(self) -> None:
        """One more profile is done; called from any thread."""


@dataclass(frozen=True, slots=True)
class Workload:
    """What every process makes ready: up to `max_tokens` tokens, and the (N, K) of the weights."""

    max_tokens: int
    shapes: Sequence[tuple[int, int]]

    @property
    def keys(self) -> list[PlanKey]:
        """The profiles, weight by weight."""
        rows = profile_list(self.max_tokens)
        return [PlanKey(m, n, k) for (n, k), m in itertools.product(self.shapes, rows)]


@dataclass(frozen=True, slots=True)
class Tuned:
    """What one process chose, what it measured (None where that is not reported), and how long."""

    plans: PlanMap
    times: Times | None
    seconds: float


@dataclass(frozen=True, slots=True)
class Agreement:
    """How many of the profiles have one tactic: in all maps, and in each pair of maps."""

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

    The judges are the measurements of other processes, which tuned alone: by its own measurement
    every choice is the best. A tactic that no judge has a time for is left out, and so is a profile
    whose best time is 0 or beyond a double, which no clock reports.
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


def workload_for(description: Description) -> Workload:
    """The oracle's profiles on a GPU, and scaled-down ones elsewhere."""
    on_a_gpu = (description.native_metadata or {}).get("architecture", 0) != 0
    scale = 1 if on_a_gpu else CPU_SCALE
    keys = oracle.load().plans
    shapes = sorted({(key.n // scale, key.k // scale) for key in keys})
    return Workload(max(key.m for key in keys) // scale, shapes)


def describe(target: Target, timeout: float) -> Description:
    """The implementation's description; SubjectError where it lacks what the demo needs."""
    transport = target.json_lines(timeout=timeout, variables=_VARIABLES)
    try:
        description = Subject(transport).describe()
    finally:
        transport.close()
    lacking = sorted({"session", "plan-map", "warm-up", "frozen"} - description.capabilities)
    _insist(not lacking, f"it does not claim {', '.join(lacking)}")
    return description


def tune(
    target: Target, workload: Workload, files: Sequence[Path], timeout: float, progress: Progress
) -> list[Tuned]:
    """Tune in fresh processes, all at the same time, one for each file that the plans are saved to.

    All processes are started before the first one tunes. `timeout` is in seconds for one answer.
    """
    with contextlib.ExitStack() as stack:
        processes = [
            stack.enter_context(_Process(target, workload, {_NATIVE: str(file)}, timeout))
            for file in files
        ]
        pool = stack.enter_context(ThreadPoolExecutor(len(processes)))
        # Closed first: a thread that waits for an answer then gets an error, and the pool ends.
        closing = stack.enter_context(contextlib.ExitStack())
        for process in processes:
            closing.callback(process.close)
        waiting = [pool.submit(process.tune, progress) for process in processes]
        return [one.result() for one in waiting]


def serve_frozen(target: Target, workload: Workload, file: Path, timeout: float) -> PlanMap:
    """The plans of a fresh process that may not tune."""
    variables = {_NATIVE: str(file), _FROZEN: "1"}
    with _Process(target, workload, variables, timeout) as process:
        answer = process.warm_up()
        _insist(not isinstance(answer, Rejected), answer)
        return process.plans()


class _Process:
    """A fresh process of the implementation with one session."""

    def __init__(
        self, target: Target, workload: Workload, variables: Mapping[str, str], timeout: float
    ):
        self._transport = target.json_lines(timeout=timeout, variables=_VARIABLES)
        self._subject = Subject(self._transport)
        self._workload = workload
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

    def tune(self, progress: Progress) -> Tuned:
        """Measure everything, one profile after another, and save."""
        started = time.monotonic()
        times: dict[PlanKey, Mapping[int, float]] | None = {}
        for key in self._workload.keys:
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
        """The measurements so far; None from an implementation that reports none."""
        if times is None:
            return None
        try:
            found = self._subject.times(self._session)
        except ReportedError:
            return None
        return None if isinstance(found, Rejected) else {**times, key: found}

    def warm_up(self) -> object:
        """Make the profiles ready, as an engine does at start."""
        workload = self._workload
        return self._subject.warm_up(self._session, workload.max_tokens, list(workload.shapes))

    def plans(self) -> PlanMap:
        """The map, which has to cover all profiles."""
        answer = self._subject.plans(self._session)
        _insist(isinstance(answer, PlanMap), answer)
        keys = self._workload.keys
        lacking = [key for key in keys if key not in answer]  # type: ignore[operator]
        _insist(not lacking, f"after its warm-up the map lacks {lacking[:1]}")
        return PlanMap([(key, answer[key]) for key in keys])  # type: ignore[index]


def _insist(condition: bool, answer: object) -> None:
    if not condition:
        message = answer.message if isinstance(answer, Rejected) else answer
        raise SubjectError(f"the demo cannot go on with this implementation: {message}")
