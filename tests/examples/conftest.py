"""Copies of the example adapters, built where they need it, and the command that runs them."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

ADAPTERS = Path(__file__).parent.parent.parent / "examples" / "adapters"
COMMAND = Path(sys.executable).with_name("nvfp4-conformance")

NLOHMANN = """
#if !__has_include(<nlohmann/json.hpp>)
#error none
#endif
"""


def has_nlohmann(compiler):
    done = subprocess.run(
        [compiler, "-E", "-x", "c++", "-"],
        input=NLOHMANN.encode(),
        capture_output=True,
        check=False,
    )
    return done.returncode == 0


@pytest.fixture(scope="session")
def compiled(tmp_path_factory):
    """``compiled(source)`` copies a folder with a Makefile, builds it, and gives its path."""
    built = {}

    def build(source):
        if source not in built:
            for tool in ("make", "g++"):
                if shutil.which(tool) is None:
                    pytest.skip(f"needs {tool} to build the C++ adapter")
            if not has_nlohmann("g++"):
                pytest.skip("needs <nlohmann/json.hpp> (nlohmann-json3-dev) for the C++ adapter")
            folder = tmp_path_factory.mktemp("built") / "cpp"
            shutil.copytree(source, folder, ignore=shutil.ignore_patterns("adapter"))
            done = subprocess.run(
                ["make", "CXXFLAGS=-O1"],
                cwd=folder,
                capture_output=True,
                text=True,
                timeout=300,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            assert not done.stderr, "the compiler warns"
            built[source] = folder
        return built[source]

    return build


@pytest.fixture
def command(tmp_path):
    """``command(folder, *words, **variables)`` runs nvfp4-conformance; `report` is what it wrote."""

    def run(folder, *words, **variables):
        path = tmp_path / "report.json"
        path.unlink(missing_ok=True)
        extra = ("--report", str(path), "--reproducers", str(tmp_path / "reproducers"))
        done = subprocess.run(
            [COMMAND, *words, *(extra if words[0] == "run" else ())],
            cwd=folder,
            env={"PATH": os.environ["PATH"]} | variables,
            capture_output=True,
            text=True,
            timeout=500,
            check=False,
        )
        report = json.loads(path.read_text()) if path.exists() else {"contracts": []}
        return SimpleNamespace(
            status=done.returncode,
            output=done.stdout + done.stderr,
            verdicts={entry["id"]: entry["verdict"] for entry in report["contracts"]},
            report=report,
        )

    return run
