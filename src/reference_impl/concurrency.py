"""Ask for many plans at the same moment, to see what threads do to each other.

The clock of the tunings stands still until whoever must not wait for a tuning has been served: the
requests for plans that were ready, and a load. Where one of them did wait, this ends in an error
after a while and not in a deadlock.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .back_ends import BackEnd, default_back_end
from .errors import Rejected
from .plan_cache import PlanCache, Served
from .profiling import Timer

PATIENCE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Together:
    """The outcome of each request, how many tunings began, and why the load was refused if so."""

    served: list[Served | Rejected]
    tunings: int
    load: Rejected | None


def plan_together(
    cache: PlanCache,
    requests: Sequence[tuple[int, int, int]],
    back_end: BackEnd | None = None,
    *,
    load: Callable[[], object] | None = None,
) -> Together:
    """Ask for each (M, N, K) in a thread of its own, and load once a tuning has begun.

    The threads are released together. What is no rejection is raised here once all have ended,
    an interrupt before the errors that it caused in others.
    """
    ready = [cache.lookup(*request) is not None for request in requests]
    clock = _StandingClock(back_end, waiting_for=sum(ready) + (load is not None))
    barrier = threading.Barrier(max(1, len(requests)))
    outcomes: list[Served | Rejected | BaseException | None] = [None] * len(requests)

    def ask(index: int) -> None:
        try:
            barrier.wait()
            outcomes[index] = cache.plan(*requests[index], back_end=clock)
        except BaseException as error:  # raised below, in the caller's thread
            outcomes[index] = error
        finally:
            if ready[index]:
                clock.one_was_served()

    threads = [threading.Thread(target=ask, args=(index,)) for index in range(len(requests))]
    started = []
    refused: Rejected | None = None
    try:
        for thread in threads:
            thread.start()
            started.append(thread)
        if load is not None:
            if not all(ready):
                clock.wait_for_a_tuning()
            try:
                load()
            except Rejected as rejected:
                refused = rejected
            finally:
                clock.one_was_served()
    except BaseException:
        barrier.abort()  # some thread could not start: the others would wait for it
        raise
    finally:
        for thread in started:
            thread.join()

    faults = [
        one for one in outcomes if isinstance(one, BaseException) and not isinstance(one, Rejected)
    ]
    for fault in sorted(faults, key=lambda one: isinstance(one, Exception)):
        raise fault
    answers = [one for one in outcomes if isinstance(one, Served | Rejected)]
    return Together(answers, clock.tunings, refused)


class _StandingClock:
    """A back end whose timers run nothing before everybody it waits for has been served.

    It also counts its timers: one for each tuning.
    """

    def __init__(self, back_end: BackEnd | None, *, waiting_for: int) -> None:
        self._back_end = back_end
        self._changed = threading.Condition()
        self._waiting_for = waiting_for
        self.tunings = 0

    def timer(self, m: int, n: int, k: int) -> Timer[Any]:
        with self._changed:
            self.tunings += 1
            self._changed.notify_all()
            if not self._changed.wait_for(lambda: self._waiting_for <= 0, PATIENCE_SECONDS):
                raise TimeoutError("a ready plan or a load waited for this tuning; neither may.")
        return (self._back_end or default_back_end()).timer(m, n, k)

    def one_was_served(self) -> None:
        with self._changed:
            self._waiting_for -= 1
            self._changed.notify_all()

    def wait_for_a_tuning(self) -> None:
        with self._changed:
            if not self._changed.wait_for(lambda: self.tunings > 0, PATIENCE_SECONDS):
                raise TimeoutError("no tuning began, although a plan was missing.")
