"""Ask for many plans at the same moment, to see what threads do to each other.

Where nobody is slow, requests that come "at once" come one after another, and nothing is seen. So
the clock of the tunings stands still until every request has been answered, waits for a tuning, or
has begun one of its own; and until a load has been done or refused. Whoever waits where it must not
makes this end in an error after a while, and not in a deadlock.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .errors import Rejected
from .plan_cache import PlanCache, Served
from .profiling import Timer, TimerFactory

PATIENCE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class ConcurrentAnswers:
    """The outcome of each request, how many tunings began, and why the load was refused if so."""

    served: list[Served | Rejected]
    tunings: int
    load: Rejected | None


def plan_concurrently(
    cache: PlanCache,
    requests: Sequence[tuple[int, int, int]],
    back_end: TimerFactory | None = None,
    *,
    load: Callable[[], object] | None = None,
) -> ConcurrentAnswers:
    """Ask for each (M, N, K) in a thread of its own, and load once a tuning has begun.

    The threads are released together. What is no rejection is raised here once all have ended,
    an interrupt before the errors that it caused in others.
    """
    clock = _StandingClock(
        lambda: back_end or cache.back_end(), len(requests), loads=load is not None
    )
    barrier = threading.Barrier(max(1, len(requests)))
    outcomes: list[Served | Rejected | BaseException | None] = [None] * len(requests)

    def ask(index: int) -> None:
        try:
            barrier.wait()
            outcomes[index] = cache.plan(*requests[index], back_end=clock, on_wait=clock.arrive)
        except BaseException as error:  # raised below, in the caller's thread
            outcomes[index] = error
        finally:
            clock.arrive(ended=True)

    threads = [threading.Thread(target=ask, args=(index,)) for index in range(len(requests))]
    started = []
    refused: Rejected | None = None
    try:
        for thread in threads:
            thread.start()
            started.append(thread)
        if load is not None:
            clock.wait_for_a_tuning()
            try:
                load()
            except Rejected as rejected:
                refused = rejected
            finally:
                clock.loaded()
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
    return ConcurrentAnswers(answers, clock.tunings, refused)


class _StandingClock:
    """A back end whose timers run nothing before everybody has arrived, and the load is done.

    It also counts its timers: one for each tuning.
    """

    def __init__(self, back_end: Callable[[], TimerFactory], requests: int, *, loads: bool) -> None:
        self._back_end = back_end
        self._changed = threading.Condition()
        self._requests = requests
        self._arrived: set[int] = set()  # threads that were answered, wait, or tune
        self._ended = 0
        self._load_is_due = loads
        self.tunings = 0

    def timer(self, m: int, n: int, k: int) -> Timer[Any]:
        with self._changed:
            self.tunings += 1
        self.arrive()
        with self._changed:
            if not self._changed.wait_for(self._may_run, PATIENCE_SECONDS):
                raise TimeoutError("a ready plan or a load waited for this tuning; neither may.")
        return self._back_end().timer(m, n, k)

    def _may_run(self) -> bool:
        return len(self._arrived) == self._requests and not self._load_is_due

    def arrive(self, *, ended: bool = False) -> None:
        """Note that the calling thread has come as far as it can before the clock runs."""
        with self._changed:
            self._arrived.add(threading.get_ident())
            self._ended += ended
            self._changed.notify_all()

    def loaded(self) -> None:
        with self._changed:
            self._load_is_due = False
            self._changed.notify_all()

    def wait_for_a_tuning(self) -> None:
        """Return once a tuning has begun, or no request is left that could begin one."""
        with self._changed:
            begun = self._changed.wait_for(
                lambda: self.tunings > 0 or self._ended == self._requests, PATIENCE_SECONDS
            )
            if not begun:
                raise TimeoutError("no tuning began, although a request has not been answered.")
