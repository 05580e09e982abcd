"""A small engine that serves NVFP4 products with a frozen map; replace it by your own.

It shows what an engine does at its start: read the versions of its libraries, resolve the options,
load the plan cache, warm up, and then run the tactic of the plan for each shape. This engine runs
on the bundled reference and NumPy, so that the gate of this repository runs on any CPU.
"""

import json
import os
import time
from pathlib import Path

from nvfp4_reference import ImportMetadata, Session, resolve
from nvfp4_reference.gemm import NumpyBackend

HERE = Path(__file__).parent
MAP = HERE / "maps" / "autotune_configs.json"
SHAPES = [(320, 384), (320, 1088), (896, 320), (2176, 320)]  # (N, K) of the model's layers
MAX_TOKENS = 128


class Engine:
    """Ready to serve when it is created; raises `Rejected` where its map lacks a plan."""

    def __init__(self) -> None:
        environment = json.loads((HERE / "environment.json").read_text(encoding="utf-8"))
        self._back_end = NumpyBackend()
        self._direct = os.environ.get("VT_FP4_DIRECT_SF", "1") == "1"
        self._session = Session(
            resolve(os.environ), expected_import=ImportMetadata.from_json(environment)
        )
        self._session.warm_up(MAX_TOKENS, SHAPES)
        self._session.complete()

    def plans(self) -> dict[tuple[int, int, int], int]:
        """The served map: (M bucket, N, K) to tactic id."""
        return {(key.m, key.n, key.k): tactic for key, tactic in self._session.plans().items()}

    def run(self, tokens: int) -> bytes:
        """One pass of every layer over `tokens` tokens; the bytes of all outputs, in bfloat16."""
        output = bytearray()
        for n, k in SHAPES:
            problem = self._back_end.prepare(tokens, n, k, seed=1, direct=self._direct)
            self._back_end.run_tactic(self._session.plan(tokens, n, k).tactic, problem)
            output += self._back_end.output(problem).tobytes()
        return bytes(output)

    def throughput(self, tokens: int = 16, passes: int = 3) -> float:
        """The throughput in tokens per second."""
        start = time.perf_counter()
        for _ in range(passes):
            self.run(tokens)
        return passes * tokens / (time.perf_counter() - start)
