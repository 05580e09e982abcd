"""The markers on a real card: what NVML says of it, and CUDA in fresh processes.

Skipped by name where there is no NVIDIA driver, or no CuPy.
"""

import importlib.util
import os
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest

from pytest_nvfp4.markers.gpu_lock import nvml

OCCUPIER = """
import cupy
held = cupy.ones(1 << 28, dtype=cupy.uint8)
cupy.cuda.runtime.deviceSynchronize()
print("held", flush=True)
input()
"""


@pytest.fixture(scope="module", autouse=True)
def cards():
    """The machine's cards."""
    try:
        found = nvml.cards()
    except nvml.NvmlError as error:
        pytest.skip(f"needs an NVIDIA GPU: {error}")
    if not found:
        pytest.skip("needs an NVIDIA GPU: the driver lists none")
    if importlib.util.find_spec("cupy") is None:
        pytest.skip("needs CuPy, which is not installed")
    return found


@pytest.fixture
def run(pytester, path):
    """``run(body, marker, *arguments)``: a pytest run of its own; the result has `holds`."""

    def start(code, *arguments, returncode=0):
        pytester.makepyfile(test_it=code)
        words = ("-p", "nvfp4", "-p", "no:cacheprovider", f"--nvfp4-lock-path={path}")
        result = pytester.runpytest_subprocess(
            *words, *arguments, "--junitxml=report.xml", "-o", "junit_family=xunit1"
        )
        assert result.ret == returncode
        result.paths = {
            case.get("name"): one.get("value")
            for case in ET.parse(pytester.path / "report.xml").iter("testcase")
            for one in case.iter("property")
            if one.get("name") == "gpu_lock_path"
        }
        return result

    return start


@pytest.fixture
def occupied():
    """Somebody else's memory on the card."""
    process = subprocess.Popen(
        [sys.executable, "-c", OCCUPIER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    yield process.pid
    process.communicate("\n")


def test_a_card_by_any_name_is_one_lock(run, cards, monkeypatch):
    uuid = cards[0].uuid
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", uuid)
    names = [0, uuid, "visible"]
    code = "import pytest\n" + "\n".join(
        f"@pytest.mark.gpu_lock(devices={name if name == 'visible' else [name]!r})\n"
        f"def test_{number}(): pass"
        for number, name in enumerate(names)
    ).replace("devices=visible", "devices='visible'")
    told = run(code).paths
    assert len(told) == 3
    assert len(set(told.values())) == 1
    assert uuid in told["test_0"]


def test_an_index_beyond_the_cards_is_refused(run, cards):
    code = f"import pytest\n@pytest.mark.gpu_lock(devices=[{len(cards)}])\ndef test_it(): pass"
    result = run(code, returncode=2)
    result.stdout.fnmatch_lines([f"*there is no device {len(cards)}*"])


IDLE = """
import pytest

@pytest.mark.gpu_lock(devices=[0], require_idle=True)
@pytest.mark.fresh_process(runs=2)
def test_it(fresh):
    import cupy
    x = cupy.arange(1 << 20, dtype=cupy.float32)
    fresh.record("sum", float(x.sum()))
"""


def test_a_fresh_process_leaves_the_card_idle(run):
    run(IDLE).assert_outcomes(passed=1)


def test_a_card_that_others_use_is_not_idle(run, occupied):
    visible = occupied in nvml.load(nvml.cards()[0].uuid).processes
    result = run(IDLE, returncode=1)
    result.assert_outcomes(errors=1)
    if visible:
        result.stdout.fnmatch_lines([f"*{occupied}*"])


def test_memory_that_a_test_leaves_to_another_process_is_noticed(run, pytester):
    (pytester.path / "occupier.py").write_text(OCCUPIER)
    result = run(
        """
import pytest, subprocess, sys

@pytest.mark.gpu_lock(devices=[0], require_idle=True)
def test_it():
    global left
    left = subprocess.Popen([sys.executable, "occupier.py"], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, text=True)
    assert left.stdout.readline() == "held\\n"

def test_end():
    left.communicate("\\n")
""",
        returncode=1,
    )
    result.assert_outcomes(passed=2, errors=1)


def test_six_fresh_cuda_processes_give_the_same_bytes(run):
    result = run(
        """
import pytest

@pytest.mark.gpu_lock
@pytest.mark.fresh_process(runs=6, arms={"a": {}, "b": {}}, timeout=300)
def test_it(fresh):
    import cupy
    x = cupy.random.RandomState(7).standard_normal((512, 512), dtype=cupy.float32)
    fresh.record("product", cupy.asnumpy(x @ x).tobytes())

@pytest.mark.fresh_process
def test_a_cuda_fault_stays_in_its_process():
    import cupy
    kernel = cupy.RawKernel("extern \\"C\\" __global__ void f(int* p) { *p = 1; }", "f")
    kernel((1,), (1,), (0,))
    cupy.cuda.runtime.deviceSynchronize()

def test_here_afterwards():
    import cupy
    assert int(cupy.ones(3).sum()) == 3
""",
        "-v",
        returncode=1,
    )
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*CUDARuntimeError*", "*6 runs, AB/BA/AB*"])


def test_the_plugin_itself_touches_no_card(run):
    run(IDLE).assert_outcomes(passed=1)
    own = {os.getpid()}
    assert not own & nvml.load(nvml.cards()[0].uuid).processes
