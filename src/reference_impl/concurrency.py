"""Concurrent requests for plans, with tunings that overlap for certain.

Requests from several threads would finish one after another, since a scripted tuning takes no time.
So every tuning is held until each request is answered, waits for a tuning, or tunes itself, and
until the load is done or rejected. A request or a load that waits where it must not ends in
`TimeoutError` after `PATIENCE_SECONDS`, not in a deadlock.
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
    """The result of each request, the number of tunings, and the rejection of the load, if any."""

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
    """Request each (M, N, K) in a thread of its own, and call `load` once a tuning has begun.

    The threads start together. An exception other than `Rejected` is raised here when all threads
    have ended; an interrupt comes before the errors that it caused in other threads.
    """
    held = _HeldBackEnd(lambda: back_end or cache.back_end(), len(requests), loads=load is not None)
    barrier = threading.Barrier(max(1, len(requests)))
    outcomes: list[Served | Rejected | BaseException | None] = [None] * len(requests)

    def ask(index: int) -> None:
        try:
            barrier.wait()
            outcomes[index] = cache.plan(*requests[index], back_end=held, on_wait=held.arrive)
        except BaseException as error:  # raised below, in the caller's thread
            outcomes[index] = error
        finally:
            held.arrive(ended=True)

    threads = [threading.Thread(target=ask, args=(index,)) for index in range(len(requests))]
    started = []
    refused: Rejected | None = None
    try:
        for thread in threads:
            thread.start()
            started.append(thread)
        if load is not None:
            held.wait_for_a_tuning()
            try:
                load()
            except Rejected as rejected:
                refused = rejected
            finally:
                held.loaded()
    except BaseException:
        barrier.abort()  # a thread could not start, and the others would wait for it
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
    return ConcurrentAnswers(answers, held.tunings, refused)


class _HeldBackEnd:
    """A back end whose timers wait until all requests have arrived and the load is done.

    It counts its timers, one for each tuning.
    """

    def __init__(self, back_end: Callable[[], TimerFactory], requests: int, *, loads: bool) -> None:
        self._back_end = back_end
        self._changed = threading.Condition()
        self._requests = requests
        self._arrived: set[int] = set()  # threads that are answered, wait, or tune
        self._ended = 0
        self._load_pending = loads
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
        return len(self._arrived) == self._requests and not self._load_pending

    def arrive(self, *, ended: bool = False) -> None:
        """Record that the calling thread cannot proceed before the held tunings run."""
        with self._changed:
            self._arrived.add(threading.get_ident())
            self._ended += ended
            self._changed.notify_all()

    def loaded(self) -> None:
        with self._changed:
            self._load_pending = False
            self._changed.notify_all()

    def wait_for_a_tuning(self) -> None:
        """Return when a tuning has begun, or every request has ended."""
        with self._changed:
            begun = self._changed.wait_for(
                lambda: self.tunings > 0 or self._ended == self._requests, PATIENCE_SECONDS
            )
            if not begun:
                raise TimeoutError("no tuning began, although a request is not answered yet.")
