"""The time of a test in a fresh process, against a minimal pytest process and other plugins.

The time of a fresh run is that of a pytest run with such tests minus that of the same run without.
pytest-forked and pytest-isolate are measured where they are installed and pass a test.
"""

import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from sidebyside import Row, main, show, unit

ROUNDS = int(os.environ.get("ROUNDS", "9"))
ONE_RUN, SIX_RUNS = 1.25, 3.5  # bars
TESTS = 4

FILES = {
    "plain": "def test_{n}(): pass\n",
    "fresh": "@pytest.mark.fresh_process\ndef test_{n}(): pass\n",
    "once": "@pytest.mark.fresh_process(runs=1)\ndef test_{n}(): pass\n",
    "six": "@pytest.mark.fresh_process(runs=6)\ndef test_{n}(): pass\n",
    "forked": "@pytest.mark.forked\ndef test_{n}(): pass\n",
    "isolate": "@pytest.mark.isolate\ndef test_{n}(): pass\n",
}
PEERS = {
    "forked": ("pytest_forked", "pytest_forked"),
    "isolate": ("pytest_isolate", "pytest_isolate.plugin"),
}


def run(folder: Path, *words: str) -> float:
    """Seconds of one pytest process that passes."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words]
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    start = time.perf_counter()
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    taken = time.perf_counter() - start
    if done.returncode:
        raise RuntimeError(done.stdout[-2000:] + done.stderr[-2000:])
    return taken


def measure() -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for kind, test in FILES.items():
            count = 1 if kind in ("once", "six") else TESTS
            tests = (test.format(n=n) for n in range(count))
            (folder / f"test_{kind}.py").write_text("import pytest\n" + "\n".join(tests))
        ours = ("-p", "nvfp4")
        sides = {
            "child": (*ours, "--nvfp4-no-fresh", "test_fresh.py::test_0"),
            "plain": (*ours, "test_plain.py"),
            "fresh": (*ours, "test_fresh.py"),
            "once": (*ours, "test_once.py"),
            "six": (*ours, "test_six.py"),
        }
        for kind, (module, plugin) in PEERS.items():
            if importlib.util.find_spec(module) is None:
                print(f"{module}: not installed")
                continue
            words = ("-p", plugin, f"test_{kind}.py")
            try:
                run(folder, *words)
            except RuntimeError as error:
                print(f"{module} fails here: {str(error).strip().splitlines()[-1][:60]}")
            else:
                sides[kind] = words
        times: dict[str, list[float]] = {side: [] for side in sides}
        for number in range(ROUNDS):
            for side, words in sides.items():
                times[side].append(run(folder, *words))
            print(f"\rround {number + 1} of {ROUNDS}", end="", file=sys.stderr, flush=True)
        print(file=sys.stderr)
    middle = {side: statistics.median(taken) for side, taken in times.items()}

    def cost(side: str, count: int) -> float:
        return (middle[side] - middle["plain"]) / count

    one = cost("fresh", TESTS)
    rows = [
        Row("one fresh run : minimal pytest child", one, middle["child"], ONE_RUN),
        Row("six runs : one", cost("six", 1), cost("once", 1), SIX_RUNS),
    ]
    missed = show(rows, "ours", "other")
    for kind in PEERS:
        if kind in middle:
            print(f"one test under {PEERS[kind][0]}: {unit(cost(kind, TESTS))}, ours {unit(one)}")
    return missed


main(measure)
