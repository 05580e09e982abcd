"""The plans that one session may use at once, and what happened on the way there."""

import threading
from dataclasses import dataclass

from .plans import PlanKey, Plans


@dataclass(frozen=True, slots=True)
class Statistics:
    """What a session counted.

    `loaded` plans installed from documents, `rejected` documents refused, `tuned` plans measured,
    `saved` plans written, `lazy` lookups after warm-up that found nothing.
    """

    loaded: int = 0
    rejected: int = 0
    tuned: int = 0
    saved: int = 0
    lazy: int = 0


class ReadyMap:
    """A thread-safe map of ready plans; the first plan of a shape stays."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._plans: dict[PlanKey, int] = {}
        self._loaded = 0
        self._rejected = 0

    def install(self, plans: Plans) -> int:
        """Add the plans of one valid document; the number of shapes that were new.

        A shape that is there already keeps its plan: what this process has used, perhaps captured
        in a graph, is not replaced by what a file says.
        """
        with self._lock:
            new = {key: tactic for key, tactic in plans.items() if key not in self._plans}
            self._plans |= new
            self._loaded += len(new)
        return len(new)

    def reject(self) -> None:
        """Count one refused document."""
        with self._lock:
            self._rejected += 1

    def snapshot(self) -> dict[PlanKey, int]:
        """A copy of the map, sorted by shape."""
        with self._lock:
            return dict(sorted(self._plans.items()))

    def statistics(self) -> Statistics:
        """The counts as of now, all from one moment."""
        with self._lock:
            return Statistics(loaded=self._loaded, rejected=self._rejected)
