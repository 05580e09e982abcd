"""Projects for `fresh_process`, and runs of pytest in them."""

import sys

import pytest

collect_ignore = ["battery"]  # a project of its own


@pytest.fixture
def run(pytester):
    """``run(*arguments)`` runs pytest with the plugin in a process of its own."""

    def start(*arguments, returncode=0, under=()):
        command = [*under, sys.executable, "-m", "pytest", "-p", "nvfp4", *arguments]
        result = pytester.run(*map(str, command))
        assert result.ret == returncode, f"{result.stdout}\n{result.stderr}"
        return result

    return start
