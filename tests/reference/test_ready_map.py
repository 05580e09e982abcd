"""A session's ready map."""

import random
import threading

from nvfp4_reference import PlanKey, ReadyMap, Statistics

from .documents import random_plans


def test_the_first_plan_of_a_shape_stays(rng: random.Random) -> None:
    ready = ReadyMap()
    first, second = random_plans(rng, 10), random_plans(rng, 10)
    assert ready.install(first) == 10
    changed = {key: (tactic + 1) % 32 for key, tactic in first.items()}
    assert ready.install({**changed, **second}) == 10
    assert ready.snapshot() == {**first, **second}
    assert list(ready.snapshot()) == sorted(ready.snapshot())
    ready.reject()
    assert ready.statistics() == Statistics(loaded=20, rejected=1)


def test_a_snapshot_is_a_copy() -> None:
    ready = ReadyMap()
    ready.snapshot()[PlanKey(1, 1, 16)] = 0
    assert ready.snapshot() == {}


def test_threads_install_each_shape_once(rng: random.Random) -> None:
    ready = ReadyMap()
    plans = random_plans(rng, 2000)
    barrier = threading.Barrier(8)
    counts = []

    def install() -> None:
        barrier.wait()
        counts.append(ready.install(plans))

    threads = [threading.Thread(target=install) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(counts) == len(plans) == ready.statistics().loaded
