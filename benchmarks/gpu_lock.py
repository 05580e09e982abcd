"""The GPU lock: the time to take and release it, and to hand it over to a waiting process.

Compared with filelock, where it is installed: the usual library, which polls every 50 ms.
"""

import importlib.util
import itertools
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from sidebyside import main, medians, unit

from pytest_nvfp4.markers.gpu_lock.holding import Lock, take

UNCONTENDED, HAND_OVER = 200e-6, 5e-3  # seconds
TURNS = 50

Locking = Callable[[str], AbstractContextManager[object]]


@contextmanager
def ours(path: str):
    options = {"timeout": None, "number": 1, "environment": {}, "notice": print}
    holding = take([Lock(Path(path))], **options)
    try:
        yield
    finally:
        holding.release()


def theirs(path: str) -> AbstractContextManager[object]:
    import filelock

    return filelock.FileLock(path)


def uncontended(locking: Locking, path: str) -> None:
    with locking(path):
        pass


def take_turns(locking: Locking, path: str, times, mine, other) -> None:
    """Hold the lock in alternation with another process, which waits for it meanwhile."""
    for turn in range(TURNS):
        with locking(path):
            taken = time.monotonic_ns()
            while mine.acquire(block=False):
                pass  # signals of earlier turns
            other.release()
            time.sleep(0.003)  # until the other process waits
            times.put((taken, time.monotonic_ns(), os.getpid()))
        if turn < TURNS - 1:
            mine.acquire()  # until the other process has it


def hand_over(locking: Locking, path: str) -> float:
    """Median seconds from the release by one process to the acquisition by the other."""
    context = multiprocessing.get_context("spawn")
    times, one, two = context.SimpleQueue(), context.Semaphore(0), context.Semaphore(0)
    both = [
        context.Process(target=take_turns, args=(locking, path, times, *signals))
        for signals in ((one, two), (two, one))
    ]
    for process in both:
        process.start()
    holds = sorted(times.get() for _ in range(2 * TURNS))
    for process in both:
        process.join()
    pairs = [(a, b) for a, b in itertools.pairwise(holds) if a[2] != b[2]]
    gaps = [after[0] - before[1] for before, after in pairs]
    assert len(gaps) == 2 * TURNS - 1, "the processes did not alternate"
    assert min(gaps) > 0, "two processes held the lock at once"
    return statistics.median(gaps) / 1e9


def measure() -> int:
    sides: dict[str, Locking] = {"gpu_lock": ours}
    if importlib.util.find_spec("filelock"):
        sides["filelock"] = theirs
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "lock"))
        alone = medians(
            *(lambda s=side: uncontended(s, f"{path}.{s.__name__}") for side in sides.values()),
            rounds=15,
            number=200,
        )
        print(f"{'':<10} {'uncontended':>12} {'hand-over':>12}")
        missed = False
        for (name, side), seconds in zip(sides.items(), alone, strict=True):
            handed = hand_over(side, f"{path}.{name}")
            print(f"{name:<10} {unit(seconds):>12} {unit(handed):>12}")
            missed |= side is ours and (seconds > UNCONTENDED or handed > HAND_OVER)
    print(f"{'bar':<10} {unit(UNCONTENDED):>12} {unit(HAND_OVER):>12}")
    return int(missed)


if __name__ == "__main__":  # the two processes import this file
    main(measure)
