"""Ask for many plans at the same moment, to see what threads do to each other."""

import threading
from collections.abc import Sequence
from typing import Any

from .back_ends import BackEnd, default_back_end
from .errors import Rejected
from .plan_cache import PlanCache, Served
from .profiling import Timer


def plan_together(
    cache: PlanCache, requests: Sequence[tuple[int, int, int]], back_end: BackEnd | None = None
) -> tuple[list[Served | Rejected], int]:
    """The outcome of each (M, N, K), asked for by a thread of its own; how many tunings began.

    The threads are released together. What is no rejection is raised here once all have ended,
    an interrupt before the errors that it caused in others.
    """
    counting = _Counting(back_end)
    barrier = threading.Barrier(max(1, len(requests)))
    outcomes: list[Served | Rejected | BaseException | None] = [None] * len(requests)

    def ask(index: int) -> None:
        try:
            barrier.wait()
            outcomes[index] = cache.plan(*requests[index], back_end=counting)
        except BaseException as error:  # raised below, in the caller's thread
            outcomes[index] = error

    threads = [threading.Thread(target=ask, args=(index,)) for index in range(len(requests))]
    started = []
    try:
        for thread in threads:
            thread.start()
            started.append(thread)
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
    return [one for one in outcomes if isinstance(one, Served | Rejected)], counting.timers


class _Counting:
    """A back end that counts how often it was asked for a timer: once for each tuning."""

    def __init__(self, back_end: BackEnd | None) -> None:
        self._back_end = back_end
        self._lock = threading.Lock()
        self.timers = 0

    def timer(self, m: int, n: int, k: int) -> Timer[Any]:
        with self._lock:
            self.timers += 1
        return (self._back_end or default_back_end()).timer(m, n, k)
