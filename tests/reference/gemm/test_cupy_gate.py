"""FRSH and FROZ on a card: the oracle's 64 plans, six fresh CUDA processes, one hold of the lock."""

import os
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from nvfp4_reference.back_ends import native_metadata
from nvfp4_reference.gemm.cupy import CupyBackend
from nvfp4_reference.native_document import Document
from nvfp4_reference.plans import PlanKey

from pytest_nvfp4 import oracle

pytest_plugins = ["pytester"]

GATE = """
import hashlib
import os
import pytest
from nvfp4_reference import Session, resolve
from nvfp4_reference.gemm.cupy import CupyBackend

SHAPES = [(5120, 6144), (5120, 17408), (14336, 5120), (34816, 5120)]
ARMS = {"direct": {"VT_FP4_DIRECT_SF": "1"}, "composed": {"VT_FP4_DIRECT_SF": "0"}}


@pytest.mark.gpu_lock(timeout=600)
@pytest.mark.frozen_map("maps/plans.json", complete=True, stats="required")
@pytest.mark.fresh_process(runs=6, arms=ARMS, timeout=300)
def test_gate(fresh):
    session = Session(resolve(os.environ))
    session.warm_up(2048, SHAPES)
    session.complete()
    card = CupyBackend()
    plans = sorted(session.plans().items())
    fresh.record("plans", [[*key, tactic] for key, tactic in plans])
    weights = {}
    for (m, n, k), _ in plans:
        if (n, k) not in weights:
            weights[n, k] = card.operand(n, k, 1)
        problem = card.product(card.operand(m, k, 2), weights[n, k], 2.0**-20)
        cupy = problem.device.cupy
        tactic = session.plan(m, n, k).tactic
        card.run_tactic(tactic, problem)
        eager = card.output(problem).tobytes()
        replay = card.capture(lambda: card.run_tactic(session.plan(m, n, k).tactic, problem))
        out = cupy.ndarray((m * n,), cupy.uint16, problem.out)
        with problem.device.active():
            out.fill(0xFFFF)
            assert int((out == 0xFFFF).sum()) == m * n
        replay()
        assert card.output(problem).tobytes() == eager, (m, n, k, "replayed")
        fresh.record(f"output of {m} x {n} x {k}", hashlib.sha256(eager).hexdigest())
    direct = os.environ["VT_FP4_DIRECT_SF"] == "1"
    for m in (1, 17, 300):
        problem = card.prepare(m, 320, 1088, 3, direct=direct)
        card.run_tactic(session.plan(m, 5120, 6144).tactic, problem)
        fresh.record(f"quantized, {m} rows", card.output(problem).tobytes())
    assert session.statistics().lazy == session.statistics().tuned == 0
"""


def test_six_fresh_cuda_processes_under_one_lock_serve_one_map(
    built_card: CupyBackend, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith(("PYTEST_", "VT_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("NVFP4_REFERENCE_BACK_END", "cupy")
    plans = {PlanKey(*key): tactic for key, tactic in oracle.load().plans.items()}
    assert len(plans) == 64
    file = pytester.mkdir("maps") / "plans.json"  # CuPy's caches go to the folder above
    file.write_text(Document(native_metadata("cupy"), plans).render(), encoding="utf-8")
    before = file.read_bytes()
    pytester.makepyfile(test_gate=GATE)
    result = pytester.runpytest_subprocess(
        *("-p", "nvfp4", "-p", "no:cacheprovider", f"--nvfp4-lock-path={pytester.path / 'gpu'}"),
        *("--junitxml=report.xml", "-o", "junit_family=xunit1"),
    )
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*6 runs, AB/BA/AB*"])
    assert file.read_bytes() == before
    case = next(ET.parse(Path("report.xml")).iter("testcase"))
    properties = {one.get("name"): one.get("value") for one in case.iter("property")}
    assert "gpu_lock_path" in properties
