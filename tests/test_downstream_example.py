"""The repository to copy works as it is, and notices what it is there to notice."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from workers import WITH_WORKERS

EXAMPLE = Path(__file__).parent.parent / "examples" / "downstream"


@pytest.fixture
def downstream(tmp_path):
    """``downstream(*arguments)`` runs pytest in a copy of it."""
    folder = tmp_path / "downstream"
    leave = shutil.ignore_patterns("__pycache__", ".pytest_cache")
    shutil.copytree(EXAMPLE, folder, ignore=leave)

    def run(*arguments):
        command = [sys.executable, "-m", "pytest", "-p", "nvfp4", *arguments]
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "VT_"))}
        environment["NVFP4_LOCK_PATH"] = str(tmp_path / "gpu")
        environment |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        return subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )

    run.folder = folder
    return run


@WITH_WORKERS
def test_it_passes(downstream, workers):
    done = downstream(workers, "-v")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"=+ 7 passed in ", done.stdout), done.stdout
    assert "6 runs, AB/BA/AB, A = direct, B = composed" in done.stdout
    assert "gpu_lock: 1 hold" in done.stdout
    assert not list(downstream.folder.glob("maps/*.tmp"))


def test_it_notices_one_other_tactic(downstream):
    path = downstream.folder / "maps" / "autotune_configs.json"
    text = path.read_text()
    changed, count = re.subn(r'("CutlassFp4GemmRunner",\s+)4(\s)', r"\g<1>5\2", text, count=1)
    assert count == 1
    path.write_text(changed)
    done = downstream("tests/test_plans.py")
    assert done.returncode == 1, done.stdout
    assert re.search(r"=+ 2 failed, 4 passed in ", done.stdout), done.stdout
    assert "31 of 32" in done.stdout


def test_it_notices_a_map_that_lacks_a_plan(downstream):
    path = downstream.folder / "maps" / "autotune_configs.json"
    text = path.read_text()
    path.write_text(re.sub(r"  \"\('fp4_gemm'[^\]]*\],\n", "", text, count=1))
    done = downstream("tests/test_gate.py")
    assert done.returncode == 1, done.stdout
    assert "there is no plan for M = 1 (bucket 1), N = 2176, K = 320" in done.stdout


def test_it_notices_an_engine_that_writes(downstream):
    engine = downstream.folder / "engine.py"
    text = engine.read_text()
    engine.write_text(
        text.replace(
            "        self._session.complete()\n",
            "        self._session.complete()\n        MAP.touch()\n",
        )
    )
    done = downstream("tests/test_gate.py")
    assert done.returncode == 1, done.stdout
    assert "FROZ-4" in done.stdout
