"""Whether the locked cards are idle: nobody else's processes before, nothing left behind after."""

from collections.abc import Mapping

from pytest_nvfp4.markers.gpu_lock.holders import describe_process
from pytest_nvfp4.markers.gpu_lock.nvml import Load

TOLERANCE = 64 * 2**20  # bytes that a driver keeps or gives back in its own time


def busy_before(loads: Mapping[str, Load], own: frozenset[int]) -> str:
    """Why the cards are not idle before a test, or nothing; `own` are this run's processes."""
    for card, load in loads.items():
        others = sorted(load.processes - own)
        if others:
            return f"{card} is not idle: {_told(others)} uses it; end that, or wait for it"
    return ""


def busy_after(before: Mapping[str, Load], after: Mapping[str, Load], own: frozenset[int]) -> str:
    """What a test left on the cards, or nothing.

    Where the test's own process has a context, the card's memory says nothing about leaks: that
    context is allowed to keep some.
    """
    for card, load in after.items():
        left = sorted(load.processes - before[card].processes - own)
        if left:
            return f"the test left {_told(left)} on {card}; end every process that it starts"
        grown = load.used - before[card].used
        if grown > TOLERANCE and not load.processes & own:
            return (
                f"{grown / 2**20:.0f} MiB of memory on {card} were not returned after the test; "
                f"free what it allocates"
            )
    return ""


def _told(pids: list[int]) -> str:
    return " and ".join(describe_process(pid) for pid in pids)
