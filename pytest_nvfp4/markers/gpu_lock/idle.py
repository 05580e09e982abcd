"""Whether the locked cards are idle: no foreign process before a test, nothing left after it."""

from collections.abc import Mapping
from dataclasses import dataclass

from pytest_nvfp4.markers.gpu_lock.holders import describe_process


@dataclass(frozen=True, slots=True)
class Load:
    """The compute processes on a card, by pid, and its memory in use by all of them, in bytes."""

    processes: frozenset[int]
    used: int


TOLERANCE = 64 * 2**20  # bytes that a driver keeps, or returns later


def busy_before(loads: Mapping[str, Load], own: frozenset[int]) -> str:
    """Why the cards are not idle before a test, or ""; `own` are this run's processes."""
    for card, load in loads.items():
        others = sorted(load.processes - own)
        if others:
            return f"{card} is not idle: {_described(others)} uses it; end that, or wait for it"
    return ""


def busy_after(before: Mapping[str, Load], after: Mapping[str, Load], own: frozenset[int]) -> str:
    """What a test left on the cards, or "".

    Where this run's own process has a context, the card's memory is not compared: the context may
    keep some.
    """
    for card, load in after.items():
        left = sorted(load.processes - before[card].processes - own)
        if left:
            return f"the test left {_described(left)} on {card}; end every process that it starts"
        grown = load.used - before[card].used
        if grown > TOLERANCE and not load.processes & own:
            return (
                f"{grown / 2**20:.0f} MiB of memory on {card} were not returned after the test; "
                f"free what it allocates"
            )
    return ""


def _described(pids: list[int]) -> str:
    return " and ".join(describe_process(pid) for pid in pids)
