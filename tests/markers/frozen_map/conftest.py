"""Files to freeze, and pytest runs of their own in which they are frozen."""

import json
import sys
import xml.etree.ElementTree as ET

import pytest
from nvfp4_reference import NativeMetadata, PlanKey
from nvfp4_reference.native_document import Document

from pytest_nvfp4.model import documents, facts
from pytest_nvfp4.plans import PlanMap

PLANS = PlanMap([(PlanKey(m, n, 64), (m + n) % 32) for m in (1, 2, 4) for n in (64, 128)])

# What every test file begins with. `engine` is the reference, as an engine would use it.
HEAD = """
import os, pathlib, subprocess, sys
import pytest
from nvfp4_reference import Session, resolve
MAP, MAPS, PLANS = "maps/native.json", pathlib.Path("maps"), {plans!r}
frozen = pytest.mark.frozen_map

def start(**variables):
    session = Session(resolve(dict(os.environ, **variables)))
    session.warm_up(4, [(64, 64), (128, 64)])
    session.complete()
    return session

@pytest.fixture
def engine():
    return start()
"""


@pytest.fixture
def maps(pytester):
    """A folder with one valid map of each dialect: native.json and flashinfer.json."""
    folder = pytester.path / "maps"
    folder.mkdir()
    native = Document(NativeMetadata.of_this_machine(), dict(PLANS))
    (folder / "native.json").write_text(native.render())
    anywhere = dict.fromkeys(facts.FLASHINFER_METADATA, "*")
    (folder / "flashinfer.json").write_bytes(documents.flashinfer_bytes(anywhere, PLANS))
    return folder


@pytest.fixture
def project(pytester, maps):
    """``project(code)`` makes a test file in which `frozen` is the mark and MAP a file."""

    def make(code, conftest=""):
        plain = {tuple(key): tactic for key, tactic in PLANS.items()}
        head = HEAD.format(plans=plain)
        (pytester.path / "test_it.py").write_text(f"{head}\n{code}")
        if conftest:
            pytester.makeconftest(f"import os, pytest\nPLANS = {plain!r}\n{conftest}")

    return make


@pytest.fixture
def run(pytester):
    """``run(*arguments)`` runs pytest; the result has `told`, each test's properties."""

    def start(*arguments, returncode=0, under=()):
        report = pytester.path / "report.xml"
        report.unlink(missing_ok=True)
        command = [sys.executable, "-m", "pytest", "-p", "nvfp4", "-W", "error", *arguments]
        result = pytester.run(*under, *map(str, command), "--junitxml=report.xml")
        output = result.stdout.str() + result.stderr.str()
        assert result.ret == returncode, output
        assert "INTERNALERROR" not in output
        result.told = properties(report) if report.exists() else {}
        return result

    return start


def properties(path):
    found = {}
    for case in ET.parse(path).iter("testcase"):
        pairs = {one.get("name"): one.get("value") for one in case.iter("property")}
        found[case.get("name")] = {
            name.removeprefix("frozen_map_"): value
            for name, value in pairs.items()
            if name.startswith("frozen_map_")
        }
    return found


def rewritten(path, edit):
    """Change a JSON document in place."""
    document = json.loads(path.read_text())
    edit(document)
    path.write_text(json.dumps(document, indent=2, sort_keys=True) + "\n")
