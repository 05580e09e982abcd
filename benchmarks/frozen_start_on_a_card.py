"""The time of a start on a frozen map, after the start of CUDA.

Each round is a fresh process with three steps. CUDA: import CuPy, create a context and a stream.
Start: import the reference, read and install a frozen map of the oracle's 64 plans, and serve the
first plan. Product: load the kernel library and multiply once with that plan. The results are
medians in milliseconds.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from nvfp4_reference.back_ends import native_metadata
from nvfp4_reference.gemm.cupy import CupyBackend
from nvfp4_reference.native_document import Document
from nvfp4_reference.plans import PlanKey

from pytest_nvfp4 import oracle

ROUNDS = 9
BAR = 50

CHILD = """
import json, os, time
began = time.perf_counter()
import cupy
stream = cupy.cuda.Stream(non_blocking=True)
with stream:
    cupy.cuda.alloc(1)
stream.synchronize()
cuda = time.perf_counter()
from nvfp4_reference import Session, resolve
session = Session(resolve(os.environ))
session.warm_up(2048, [(5120, 6144), (5120, 17408), (14336, 5120), (34816, 5120)])
plan = session.plan(17, 5120, 6144)
start = time.perf_counter()
from nvfp4_reference.gemm.cupy import CupyBackend
card = CupyBackend()
problem = card.product(card.operand(17, 6144, 0), card.operand(5120, 6144, 1))
card.run_tactic(plan.tactic, problem)
problem.device.stream.synchronize()
product = time.perf_counter()
assert not plan.tuned and len(session.plans()) == 64, session.plans()
print(json.dumps([1000 * taken for taken in (cuda - began, start - cuda, product - start)]))
"""


def main() -> int:
    """Print the medians; returns 1 where the bar is missed."""
    card = CupyBackend()
    if reason := card.reason():
        print(f"there is no GPU to measure: {reason}", file=sys.stderr)
        return 2
    card.operand(1, 64, 0)  # build the kernels before anything is timed
    plans = {PlanKey(*key): tactic for key, tactic in oracle.load().plans.items()}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "plans.json")
        path.write_text(Document(native_metadata("cupy"), plans).render(), encoding="utf-8")
        environment = {
            **os.environ,
            "NVFP4_REFERENCE_BACK_END": "cupy",
            "VT_FP4_AUTOTUNE_CACHE_PATH": str(path),
            "VT_FP4_AUTOTUNE_CACHE_READONLY": "1",
        }
        command = [sys.executable, "-c", CHILD]
        rounds = [
            json.loads(subprocess.run(command, env=environment, stdout=-1, check=True).stdout)
            for _ in range(ROUNDS)
        ]
    cuda, start, product = (statistics.median(times) for times in zip(*rounds, strict=True))
    missed = "  missed" if start > BAR else ""
    print(f"{'CUDA: CuPy imported, context and stream, ms':<44} {cuda:>10.1f}")
    print(f"{'frozen start: import, install, first plan, ms':<44} {start:>9.1f}  <= {BAR}{missed}")
    print(f"{'first product: kernels loaded, ms':<44} {product:>10.1f}")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
