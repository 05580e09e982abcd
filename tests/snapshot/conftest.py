"""Runs of pytest with snapshots in them."""

import os
import sys

import pytest

from pytest_nvfp4.plans import PlanMap
from pytest_nvfp4.snapshot import names, plan_text

PLANS = PlanMap([((1, 256, 128), 4), ((2, 256, 128), 5), ((1, 512, 128), 31)])


@pytest.fixture(autouse=True)
def _alone(monkeypatch):
    for name in os.environ:
        kept = ("PYTEST_CURRENT_TEST", "PYTEST_ADDOPTS")
        if name.startswith(("PYTEST_", "NVFP4_")) and name not in kept:
            monkeypatch.delenv(name)


@pytest.fixture
def plans():
    """Some plans, which test files know as PLANS."""
    return PLANS


@pytest.fixture
def project(pytester):
    """``project(test_it=code)`` makes test files; all know `pytest` and PLANS."""

    pytester.makeini("[pytest]\nmarkers = slow: takes long")

    def make(**files):
        head = f"import pytest\nPLANS = {dict(PLANS)!r}\n".replace("PlanKey", "")
        head = head.replace("m=", "").replace("n=", "").replace("k=", "")
        for name, code in files.items():
            (pytester.path / f"{name}.py").write_text(f"{head}{code}")

    return make


@pytest.fixture
def run(pytester):
    """``run(*arguments)`` runs pytest in a process of its own, with warnings as errors."""

    def start(*arguments, returncode=0):
        command = [sys.executable, "-m", "pytest", "-p", "nvfp4", "-W", "error"]
        result = pytester.run(*command, *map(str, arguments))
        assert result.ret == returncode
        return result

    return start


@pytest.fixture
def recorded(pytester):
    """``recorded(module, test)`` writes the snapshot of a test, and returns where it is."""

    def write(module, test, maps=None, folder=None):
        place = names.folder((folder or pytester.path) / f"{module}.py")
        path = place / f"{names.stem(test)}.plans"
        place.mkdir(parents=True, exist_ok=True)
        path.write_text(plan_text.render(test, maps or {"1": PLANS}))
        return path

    return write


@pytest.fixture
def files(pytester):
    """``files()``: every snapshot file by name, with its content."""

    def read():
        return {
            str(path.relative_to(pytester.path)): path.read_bytes()
            for folder in ("__snapshots__", names.FOLDER)
            for path in pytester.path.rglob(f"{folder}/**/*")
            if path.is_file()
        }

    return read
