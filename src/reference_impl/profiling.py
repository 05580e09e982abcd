"""Choose a tactic by measuring all of them, one after another, always in the same way.

For each tactic: three runs that count for nothing, synchronize, a delay on the device, an event,
ten runs, an event, synchronize. Its time is the mean of the ten. The delay keeps the device busy
while the host queues the runs, so that the gaps between launches are not measured; a delay of 0
launches none. The synchronize before it separates the tactics: without it near-ties flip.

The least valid time wins, and of equal ones the lowest tactic id. A tactic that raises, or whose
time is not a number, negative or infinite, never wins and stops nobody (event times did come out
negative in the field, and the least of them won). A time of zero is valid: a clock too coarse for
a small product has still put the tactic before all that it could tell apart from zero, and among
those the lower id wins, the same in every process.

What is wrong with the process and not with a tactic ends the tuning: an interrupt, no memory, or a
device that this process can no longer use.

Source: FlashInfer 0.6.13 autotuner.py:799-818, 1407-1493.
"""

import contextlib
import math
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

from .errors import DeviceError, NestedTuningError, Rejected
from .tactics import TACTIC_IDS

if TYPE_CHECKING:
    from fractions import Fraction  # which a scripted clock gives, and which is slow to import

WARM_UPS = 3
REPEATS = 10

Mark = TypeVar("Mark")
Microseconds: TypeAlias = "float | Fraction"


class Timer(Protocol[Mark]):
    """One product on one device: how to run a tactic on it, and how to time what was run.

    Work is queued in the order of the calls; `synchronize` returns when all of it is done.
    """

    def run(self, tactic: int) -> None:
        """Queue the product once with this tactic."""

    def synchronize(self) -> None:
        """Wait for all that was queued."""

    def delay(self, microseconds: int) -> None:
        """Queue a pause of the device; never called with 0."""

    def event(self) -> Mark:
        """Queue a mark in time."""
        ...

    def elapsed_microseconds(self, start: Mark, end: Mark) -> Microseconds:
        """The time between two marks, after `synchronize`."""
        ...


class TimerFactory(Protocol):
    """The part of a back end that tuning needs.

    It measures on operands of its own; a caller's tensors are never touched.
    """

    def timer(self, m: int, n: int, k: int) -> Timer[Any]:
        """A timer of the product of M x N x K; it touches no more than M rows."""
        ...


class Step(NamedTuple):
    """One call that the profiler made; a run names its tactic, a delay its length."""

    step: Literal["run", "synchronize", "delay", "event"]
    tactic: int | None = None
    microseconds: int | None = None


@dataclass(frozen=True, slots=True)
class Selection:
    """The tactic that won, and the mean time of each that had a valid one."""

    tactic: int
    microseconds: dict[int, Microseconds]


class Profiler:
    """Measures on one device, one product at a time: two at once would time each other.

    Whatever measures on the same device shares one profiler.
    """

    def __init__(self) -> None:
        self._device = threading.Lock()
        self._owner: int | None = None  # the thread that is measuring

    def select(
        self,
        timer: Timer[Mark],
        shape: tuple[int, int, int],
        delay_microseconds: int,
        trace: list[Step],
        tactics: Iterable[int] = TACTIC_IDS,
    ) -> Selection:
        """The fastest tactic for the product `shape` = (M, N, K) that `timer` runs.

        Each call of the timer is appended to `trace` before it is made, so that the trace tells
        the story of a failure too. Rejects `no-valid-tactic` where no time is valid.
        """
        times: dict[int, Microseconds] = {}
        faults: dict[int, str] = {}
        if self._owner == threading.get_ident():
            raise NestedTuningError(
                "a timer asked for a plan while it was measuring, where it would wait for itself; "
                "let the timer run tactics and look up nothing."
            )
        with self._device, self._owned():
            for tactic in sorted(tactics):
                try:
                    mean = _mean(timer, tactic, delay_microseconds, trace)
                    if 0 <= mean < math.inf:  # false for a time that is not a number
                        times[tactic] = mean
                    else:
                        faults[tactic] = f"was timed at {float(mean)} microseconds"
                except (MemoryError, NestedTuningError, DeviceError):
                    raise
                except Exception as error:
                    faults[tactic] = f"raised {type(error).__name__} ({error})"
        if not times:
            raise _no_valid_tactic(shape, faults)
        # `min` keeps the first of equals, and the tactics were measured in ascending order.
        return Selection(min(times, key=times.__getitem__), times)

    @contextlib.contextmanager
    def _owned(self) -> Iterator[None]:
        self._owner = threading.get_ident()
        try:
            yield
        finally:
            self._owner = None


def _mean(
    timer: Timer[Mark], tactic: int, delay_microseconds: int, trace: list[Step]
) -> Microseconds:
    def run(times: int) -> None:
        for _ in range(times):
            trace.append(Step("run", tactic))
            timer.run(tactic)

    def synchronize() -> None:
        trace.append(Step("synchronize"))
        timer.synchronize()

    def event() -> Mark:
        trace.append(Step("event"))
        return timer.event()

    run(WARM_UPS)
    synchronize()
    if delay_microseconds:
        trace.append(Step("delay", microseconds=delay_microseconds))
        timer.delay(delay_microseconds)
    start = event()
    run(REPEATS)
    end = event()
    synchronize()
    return timer.elapsed_microseconds(start, end) / REPEATS


def _no_valid_tactic(shape: tuple[int, int, int], faults: dict[int, str]) -> Rejected:
    m, n, k = shape
    first = next((f"; tactic {tactic} {fault}" for tactic, fault in faults.items()), "")
    return Rejected(
        "no-valid-tactic",
        f"{m},{n},{k}",
        f"none of {len(faults)} tactics gave a valid time for M = {m}, N = {n}, K = {k}{first}; "
        "repair the device or the back end and call again.",
    )
