"""Time a product that runs on the processor, in the calling thread.

A processor has no queue that the host runs ahead of: `run` returns when the product is done. So
there is nothing to synchronize with, and no launch gap for a delay to hide. A delay is kept all
the same, as a pause in which this thread sleeps: each tactic then starts its ten runs from the
same state, with whatever the one before it left running (write-back, other threads of the math
library, a raised clock) given the same time to settle. It is at least as long as asked, it burns
nothing, and it lies outside of the two events.
"""

import time
from collections.abc import Callable


class NumpyTimer:
    """Runs `product(tactic)` and reads the monotonic clock; a mark is its nanoseconds."""

    def __init__(self, product: Callable[[int], object]) -> None:
        self._product = product

    def run(self, tactic: int) -> None:
        """Compute the product; its result is dropped."""
        self._product(tactic)

    def synchronize(self) -> None:
        """All that was asked for is done already."""

    def delay(self, microseconds: int) -> None:
        """Sleep at least this long."""
        time.sleep(microseconds / 1e6)

    def event(self) -> int:
        """Now, in nanoseconds."""
        return time.perf_counter_ns()

    def elapsed_microseconds(self, start: int, end: int) -> float:
        """Microseconds between two marks."""
        return (end - start) / 1000
