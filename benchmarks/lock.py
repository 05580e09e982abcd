"""The GPU lock: taking and leaving it alone, and handing it over between two waiting processes.

Beside filelock, if that is installed: the usual library, which asks again every 50 ms.
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
    """Hold the lock in turn with another process, which asks for it while we hold it."""
    for turn in range(TURNS):
        with locking(path):
            taken = time.monotonic_ns()
            while mine.acquire(block=False):
                pass  # that was an earlier turn
            other.release()
            time.sleep(0.003)  # long enough for the other to be waiting
            times.put((taken, time.monotonic_ns(), os.getpid()))
        if turn < TURNS - 1:
            mine.acquire()  # until the other has it


def hand_over(locking: Locking, path: str) -> float:
    """Median seconds from one process's last moment with the lock to the other's first."""
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
    assert len(gaps) == 2 * TURNS - 1, "they did not take turns"
    assert min(gaps) > 0, "two held the lock at once"
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


if __name__ == "__main__":  # the processes that take turns import this file
    main(measure)
