"""What remains after a process: saved plans, and nothing of a warm-up that did not complete."""

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from nvfp4_reference.session import Completion

from .documents import names
from .sessions import NK, SHAPES, at, best, frozen_at, session

CHILD = """
import json, os, signal, sys
from nvfp4_reference.adapter import make

orders = json.load(sys.stdin)
adapter = make()
session = adapter.open(orders["environment"])["session"]
if orders.get("stop") == "during":
    from nvfp4_reference.scripted_timer import ScriptedTimer
    real, runs = ScriptedTimer.run, 0
    def run(self, tactic):
        global runs
        runs += 1
        if runs == orders["runs"]:
            stop()
        real(self, tactic)
    ScriptedTimer.run = run
def stop():
    if orders["how"] == "raise":
        raise SystemExit(3)
    os.kill(os.getpid(), getattr(signal, orders["how"]))
    signal.pause()
warm = adapter.warm_up(session, orders["maximum"], orders["shapes"], orders.get("timings"))
if orders.get("stop") == "before-completion":
    stop()
completion = adapter.complete(session)
served = [adapter.plan(session, m, n, k) for m, n, k in orders.get("requests", [])]
json.dump(
    {
        "warm": warm,
        "completion": completion,
        "stats": adapter.stats(session),
        "plans": adapter.plans(session),
        "served": served,
        "fingerprint": adapter.fingerprint(session),
    },
    sys.stdout,
)
"""


def start(
    environment: dict[str, str], seed: str = "random", **orders: Any
) -> subprocess.Popen[str]:
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONHASHSEED": seed},
        text=True,
    )
    assert child.stdin is not None
    everything = {"environment": environment, "maximum": 64, "shapes": SHAPES, **orders}
    json.dump(everything, child.stdin)
    child.stdin.close()
    return child


def result(child: subprocess.Popen[str]) -> Any:
    assert child.stdout is not None
    with child.stdout:
        output = child.stdout.read()
    assert child.wait() == 0
    return json.loads(output)


def ending(child: subprocess.Popen[str]) -> int:
    assert child.stdout is not None
    child.stdout.close()
    return child.wait()


def test_six_fresh_processes_have_the_same_map_and_tune_nothing(
    tmp_path: Path, rng: random.Random
) -> None:
    path = tmp_path / "file"
    timings = {str(tactic): rng.uniform(1, 99) for tactic in range(32)}
    requests = [[rng.randrange(1, 65), *rng.choice(SHAPES)] for _ in range(20)]
    first = result(start(at(path), timings=timings, requests=requests))
    assert first["completion"] == {"saved": 14, "failure": None}
    assert first["warm"] == {"loaded": 0, "tuned": 14, "rejected": []}
    before = path.read_bytes(), path.stat(), names(tmp_path)
    arms = [frozen_at(path), frozen_at(path, VT_FP4_DIRECT_SF="0")] * 3
    children = [start(arm, str(seed), requests=requests) for seed, arm in enumerate(arms)]
    found = [result(child) for child in children]
    for one in found:
        assert one == found[0]
        assert one["plans"] == first["plans"]
        assert one["warm"] == {"loaded": 14, "tuned": 0, "rejected": []}
        assert {one["stats"][name] for name in ("tuned", "rejected", "saved", "lazy")} == {0}
        assert [plan["tactic"] for plan in one["served"]] == [
            plan["tactic"] for plan in first["served"]
        ]
        assert one["fingerprint"] == first["fingerprint"]
    assert (path.read_bytes(), path.stat(), names(tmp_path)) == before


def test_everything_that_was_tuned_was_saved(tmp_path: Path, rng: random.Random) -> None:
    first = result(start({"HOME": str(tmp_path)}, timings={str(rng.randrange(32)): 1}))
    second = result(start({"HOME": str(tmp_path)}))
    assert second["warm"] == {"loaded": 14, "tuned": 0, "rejected": []}
    assert second["plans"] == first["plans"]
    assert second["stats"]["path"] == first["stats"]["path"]


def test_processes_that_warm_up_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "file"
    shapes = [[[64 * (i + 1), 128]] for i in range(4)]
    for child in [start(at(path), shapes=shape, timings={}) for shape in shapes]:
        assert result(child)["completion"]["failure"] is None
    whole = result(start(frozen_at(path), shapes=[shape[0] for shape in shapes]))
    assert whole["warm"] == {"loaded": 28, "tuned": 0, "rejected": []}


ENDS = [
    # Each way to end, at each place, once; the other half of the combinations is `wide`.
    pytest.param(
        how,
        stop,
        existing,
        marks=[pytest.mark.wide] if (index + at_end + existing) % 2 else [],
        id="-".join((how, stop, "existing" if existing else "new")),
    )
    for index, how in enumerate(("SIGTERM", "SIGKILL", "SIGINT", "raise"))
    for at_end, stop in enumerate(("during", "before-completion"))
    for existing in (False, True)
]


@pytest.mark.parametrize(("how", "stop", "existing"), ENDS)
def test_a_process_that_ends_before_completion_writes_nothing(
    tmp_path: Path, rng: random.Random, how: str, stop: str, existing: bool
) -> None:
    path = tmp_path / "file"
    if existing:
        found = session(at(path))
        found.warm_up(4, [NK], back_end=best(3))
        found.complete()
    before = names(tmp_path), [(p.read_bytes(), p.stat()) for p in tmp_path.iterdir()]
    runs = rng.randrange(1, 3000)
    child = start(at(path), timings={}, how=how, stop=stop, runs=runs)
    expected = 3 if how == "raise" else -getattr(signal, how)
    assert ending(child) == expected
    assert (names(tmp_path), [(p.read_bytes(), p.stat()) for p in tmp_path.iterdir()]) == before
    after = session(at(path), back_end=best(3))
    after.warm_up(64, SHAPES)
    assert after.complete() == Completion(14)
