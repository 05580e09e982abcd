"""Select a tactic by measuring all of them, one after another, with the same sequence of calls.

For each tactic: three runs that are not measured, synchronize, a delay on the device, an event, ten
runs, an event, synchronize. The time of the tactic is the mean of the ten runs. The delay keeps the
device busy while the host queues the runs, so that the gaps between launches are not measured; a
delay of 0 launches none. The synchronize before it separates the tactics; without it, the order of
nearly equal tactics changes.

The smallest valid time wins, and of equal times the lowest tactic id. A tactic that raises an
error, or whose time is NaN, negative or infinite, is skipped; in practice, event times were
negative, and the smallest of them won. A time of zero is valid: it is the smallest value of a clock
that is too coarse for the product, and among several zeros the lowest id wins in every process.

Errors of the process end the tuning: an interrupt, a lack of memory, or a device that this process
can no longer use.

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
    from fractions import Fraction  # returned by a scripted timer; slow to import

WARM_UPS = 3
REPEATS = 10

Mark = TypeVar("Mark")
Microseconds: TypeAlias = "float | Fraction"


class Timer(Protocol[Mark]):
    """The calls by which one product on one device is run and timed (contract PROF-1).

    Work is queued in the order of the calls; `synchronize` returns when all of it is done.
    """

    def run(self, tactic: int) -> None:
        """Queue the product once with this tactic."""

    def synchronize(self) -> None:
        """Wait for all queued work."""

    def delay(self, microseconds: int) -> None:
        """Queue work that keeps the device busy for this long; never called with 0."""

    def event(self) -> Mark:
        """Queue a mark in time and return it."""
        ...

    def elapsed_microseconds(self, start: Mark, end: Mark) -> Microseconds:
        """The microseconds between two marks; called after `synchronize`."""
        ...


class TimerFactory(Protocol):
    """The part of a back end that tuning needs.

    It measures on operands of its own; a caller's tensors are never touched.
    """

    def timer(self, m: int, n: int, k: int) -> Timer[Any]:
        """A timer of the product of M x N x K; it touches no more than M rows."""
        ...


class Step(NamedTuple):
    """One call of the profiler; a run has its tactic, a delay its length in microseconds."""

    step: Literal["run", "synchronize", "delay", "event"]
    tactic: int | None = None
    microseconds: int | None = None


@dataclass(frozen=True, slots=True)
class Selection:
    """The fastest tactic, and the mean microseconds of each tactic with a valid time."""

    tactic: int
    microseconds: dict[int, Microseconds]


class Profiler:
    """Measures on one device, one product at a time, since two would disturb each other's times.

    All caches that measure on one device share one profiler.
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

        Each call is appended to `trace` before it is made, so that the trace includes a call that
        fails. Rejects `no-valid-tactic` where no time is valid. Raises `NestedTuningError` for a
        call from a running tuning, and `MemoryError` and `DeviceError` of the timer.
        """
        times: dict[int, Microseconds] = {}
        faults: dict[int, str] = {}
        if self._owner == threading.get_ident():
            raise NestedTuningError(
                "a timer requested a plan while it was measuring, where it would wait for itself; "
                "let the timer run tactics and look up nothing."
            )
        with self._device, self._owned():
            for tactic in sorted(tactics):
                try:
                    mean = _mean(timer, tactic, delay_microseconds, trace)
                    if 0 <= mean < math.inf:  # false for NaN
                        times[tactic] = mean
                    else:
                        faults[tactic] = f"was timed at {float(mean)} microseconds"
                except (MemoryError, NestedTuningError, DeviceError):
                    raise
                except Exception as error:
                    faults[tactic] = f"raised {type(error).__name__} ({error})"
        if not times:
            raise _no_valid_tactic(shape, faults)
        # `min` returns the first of equal times, and the ids are in ascending order.
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
