"""The plans that may be used at once, and the promise that each missing one is tuned only once.

A ready plan is one plain dictionary read: no lock, no waiting, whatever is being tuned meanwhile.
The lock is held for moments only, by those who add plans. A missing plan has one owner, who tunes
it; whoever asks for the same plan meanwhile waits for the owner and shares what comes of it, a
plan or a failure. A failure leaves nothing behind, so the next call tunes again. Owners of
different plans do not wait for each other here; that one device measures one thing at a time is
the profiler's business.

Source: FlashInfer 0.6.13 autotuner.py:978-1013 (a hit never profiles), 1343-1396.
"""

import threading
from collections.abc import Callable
from typing import Literal, NamedTuple

from .errors import NestedTuningError, Rejected
from .plans import PlanKey, Plans

Source = Literal["live", "import", "native"]
"""Where a ready plan came from: tuned in this process, a FlashInfer file, the native file."""


class Plan(NamedTuple):
    """A ready plan: the tactic to run and where it came from.

    `ours` is false for a plan whose document was read for another environment than the session's;
    it is served, since the caller asked for it, and never saved as if it had been tuned here.
    """

    tactic: int
    source: Source
    ours: bool = True


class TuningError(RuntimeError):
    """The tuning that this call waited for ended without a result; calling again tunes again."""


class _Flight:
    """One tuning on its way: who owns it, and what came of it once `done` is released.

    `done` is a bare lock, since that is released in one step. An Event is set in several, and a
    second interrupt between them would leave its waiters waiting.
    """

    __slots__ = ("done", "error", "owner", "plan")

    def __init__(self) -> None:
        self.owner = threading.get_ident()
        self.done = threading.Lock()
        self.done.acquire()
        self.plan: Plan | None = None
        self.error: BaseException | None = None


class PlanMap:
    """A thread-safe map of ready plans in which the first plan of a shape stays.

    `ready` may be read by anybody at any time, as a dictionary; only this class changes it.
    `name` is the member that a lifecycle rejection names.
    """

    def __init__(self, name: str = "") -> None:
        self.ready: dict[PlanKey, Plan] = {}
        self._name = name
        self._flights: dict[PlanKey, _Flight] = {}
        self._lock = threading.Lock()

    def install(self, plans: Plans, source: Source, *, ours: bool = True) -> int:
        """Add the plans of one valid document, all or none; the number of shapes that were new.

        A shape that is there already keeps its plan: what this process has used, perhaps captured
        in a graph, is not replaced by what a file says. A shape that is being tuned at this moment
        rejects `lifecycle`: its owner and waiters would run another plan than later calls.
        """
        with self._lock:
            busy = sorted(self._flights.keys() & plans.keys())
            if busy:
                raise Rejected(
                    "lifecycle",
                    self._name,
                    f"a plan for {_shape(busy[0])} cannot be loaded while it is being tuned; "
                    "load before the first lookup, or wait until the tuning is over.",
                )
            new = {
                key: Plan(tactic, source, ours)
                for key, tactic in plans.items()
                if key not in self.ready
            }
            self.ready.update(new)
        return len(new)

    def tune_once(
        self, key: PlanKey, tune: Callable[[], int], on_wait: Callable[[], None] | None = None
    ) -> tuple[Plan, bool]:
        """The plan of `key`, tuned by this call or another; and whether this call tuned it.

        What `tune` raises is raised here, and as an error of their own in every waiter: the same
        rejection, or `TuningError` with the original as its cause. Then nothing is kept. `on_wait`
        is called before this call waits for the tuning of another.
        """
        mine = _Flight()
        try:
            # All from here on is inside the `try`: an interrupt at any point must release waiters.
            with self._lock:
                ready = self.ready.get(key)
                if ready is not None:
                    return ready, False
                self._refuse_nesting(key, mine.owner)
                flight = self._flights.setdefault(key, mine)
            if flight is not mine:
                if on_wait is not None:
                    on_wait()
                return _shared(flight, key), False
            mine.plan = Plan(tune(), "live")
            self.ready[key] = mine.plan
        except BaseException as error:
            mine.error = error
            raise
        finally:
            # Ready first, then no longer in flight: whoever holds the lock sees one of the two.
            try:
                if self._flights.get(key) is mine:
                    del self._flights[key]
            finally:
                mine.done.release()
        return mine.plan, True

    def snapshot(self) -> dict[PlanKey, Plan]:
        """A copy of the ready plans, sorted by shape; what is being tuned is not among them."""
        return dict(sorted(self.ready.copy().items()))  # the copy is of one moment

    def _refuse_nesting(self, key: PlanKey, thread: int) -> None:
        """A tuning that asks for a plan could wait for itself, or for one that waits for it."""
        if any(flight.owner == thread for flight in self._flights.values()):
            raise NestedTuningError(
                f"a tuning asked for the plan of {_shape(key)} from within itself, where it could "
                "wait for its own end; let the timer run tactics and look up nothing."
            )


def _shared(flight: _Flight, key: PlanKey) -> Plan:
    """Wait for another call's tuning; its plan, or its failure as an error of this call.

    Each waiter gets an exception object of its own, since raising one object in several threads
    mixes their tracebacks.
    """
    with flight.done:  # let go at once, for the next waiter
        pass
    if flight.plan is not None:
        return flight.plan
    error = flight.error
    if isinstance(error, Rejected):
        raise Rejected(error.code, error.member, error.message) from error
    raise TuningError(
        f"the tuning of {_shape(key)} that this call waited for ended with "
        f"{type(error).__name__} ({error}); call again to tune again."
    ) from error


def _shape(key: PlanKey) -> str:
    return f"bucket {key.m}, N = {key.n}, K = {key.k}"
