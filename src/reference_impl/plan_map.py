"""The ready plans, and the single tuning of each missing one.

To read a ready plan is one dictionary read: it takes no lock and never waits, whatever is being
tuned. A lock is held briefly when plans are added. A missing plan has one owner, the call that
tunes it. Other calls for the same plan wait for the owner and share its result, a plan or a
failure. A failure is not kept, so the next call tunes again. Owners of different plans do not wait
for each other here; the profiler makes sure that one device measures one product at a time.

Source: FlashInfer 0.6.13 autotuner.py:978-1013 (a hit never profiles), 1343-1396.
"""

import threading
from collections.abc import Callable
from typing import Literal, NamedTuple

from .errors import NestedTuningError, Rejected
from .plans import PlanKey, Plans

Source = Literal["live", "import", "native"]
"""The source of a ready plan: tuned in this process, a FlashInfer file, or the native file."""


class Plan(NamedTuple):
    """A ready plan: the tactic to run and its source.

    `ours` is false where the plan's document was read for another environment than the session's.
    Such a plan is served, since the caller requested it, but never saved in this environment.
    """

    tactic: int
    source: Source
    ours: bool = True


class TuningError(RuntimeError):
    """The tuning that this call waited for has failed; the next call tunes again."""


class _Flight:
    """A running tuning: its owner, and its result once `done` is released.

    `done` is a lock because it is released in one step. An `Event` is set in several steps, and an
    interrupt between them would leave the waiting calls blocked.
    """

    __slots__ = ("done", "error", "owner", "plan")

    def __init__(self) -> None:
        self.owner = threading.get_ident()
        self.done = threading.Lock()
        self.done.acquire()
        self.plan: Plan | None = None
        self.error: BaseException | None = None


class PlanMap:
    """A thread-safe map of ready plans, in which the first plan of a shape is never replaced.

    `ready` can be read at any time as a dictionary; only this class changes it. `name` is the
    member of lifecycle rejections.
    """

    def __init__(self, name: str = "") -> None:
        self.ready: dict[PlanKey, Plan] = {}
        self._name = name
        self._flights: dict[PlanKey, _Flight] = {}
        self._lock = threading.Lock()

    def install(self, plans: Plans, source: Source, *, ours: bool = True) -> int:
        """Add the plans of one valid document, all or none; returns the number of new shapes.

        A shape with a ready plan keeps it, since this process may have used that plan, perhaps in a
        captured graph. Rejects `lifecycle` while one of the shapes is being tuned, since its owner
        would run another plan than later calls.
        """
        with self._lock:
            busy = sorted(self._flights.keys() & plans.keys())
            if busy:
                raise Rejected(
                    "lifecycle",
                    self._name,
                    f"a plan for {_shape(busy[0])} cannot be loaded while it is being tuned; "
                    "load before the first lookup, or after the tuning has ended.",
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
        """The plan of `key`, tuned by this call or another one, and whether this call tuned it.

        An error of `tune` is raised here, and nothing is kept. The waiting calls raise an error of
        their own: the same rejection, or `TuningError` with the original error as its cause.
        `on_wait` is called before this call waits for the tuning of another call.
        """
        mine = _Flight()
        try:
            # All steps are inside the `try`, so that an interrupt always releases the waiters.
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
            # Ready first, then removed from the flights: under the lock, one of the two is seen.
            try:
                if self._flights.get(key) is mine:
                    del self._flights[key]
            finally:
                mine.done.release()
        return mine.plan, True

    def snapshot(self) -> dict[PlanKey, Plan]:
        """A copy of the ready plans, sorted by shape, without those that are being tuned."""
        return dict(sorted(self.ready.copy().items()))  # `copy` is atomic

    def _refuse_nesting(self, key: PlanKey, thread: int) -> None:
        """Raise where a tuning requests a plan: it could wait for itself, or for its own waiter."""
        if any(flight.owner == thread for flight in self._flights.values()):
            raise NestedTuningError(
                f"a tuning requested the plan of {_shape(key)}, where it could wait for itself; "
                "let the timer run tactics and look up nothing."
            )


def _shared(flight: _Flight, key: PlanKey) -> Plan:
    """Wait for another call's tuning and return its plan, or raise its failure.

    Each waiting call raises an exception object of its own, since one object raised in several
    threads mixes their tracebacks.
    """
    with flight.done:  # released at once for the next waiting call
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
