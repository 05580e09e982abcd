"""Projects for `fresh_process`, and runs of pytest in them."""

import os
import sys

import pytest

collect_ignore = ["battery"]  # a project of its own


@pytest.fixture(autouse=True)
def _alone(monkeypatch):
    for name in os.environ:
        if name.startswith(("PYTEST_", "NVFP4_", "COLUMNS")) and name != "PYTEST_CURRENT_TEST":
            monkeypatch.delenv(name)


@pytest.fixture
def run(pytester):
    """``run(*arguments)`` runs pytest with the plugin in a process of its own."""

    def start(*arguments, returncode=0, under=()):
        command = [*under, sys.executable, "-m", "pytest", "-p", "nvfp4", *arguments]
        result = pytester.run(*map(str, command))
        assert result.ret == returncode, f"{result.stdout}\n{result.stderr}"
        return result

    return start
