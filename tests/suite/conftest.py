"""Run the suite in a pytest of its own, and read its report."""

import json
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent


@pytest.fixture
def conformance(pytester, monkeypatch):
    """``conformance(*arguments)`` runs ``pytest -p nvfp4 --nvfp4-conformance …`` in an empty folder.

    The result has the report, None where none was written, as `report`.
    """
    paths = [str(TESTS), *filter(None, sys.path)]
    monkeypatch.setenv("PYTHONPATH", ":".join(paths))

    def run(*arguments, impl="reference", plugin=("-p", "nvfp4")):
        path = pytester.path / "report.json"
        path.unlink(missing_ok=True)
        result = pytester.runpytest_subprocess(
            *plugin,
            "--nvfp4-conformance",
            f"--nvfp4-impl={impl}",
            f"--nvfp4-report={path}",
            *arguments,
        )
        result.report = json.loads(path.read_text()) if path.exists() else None
        return result

    return run


@pytest.fixture
def verdicts():
    """Contract id → verdict of a result's report."""

    def read(result):
        return {contract["id"]: contract["verdict"] for contract in result.report["contracts"]}

    return read
