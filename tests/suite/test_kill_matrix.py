"""Every way to be wrong is caught: each faulty implementation fails exactly what its fault breaks.

The suite runs in this process, on the test files that the chosen contracts live in; else most of
the time would go into starting pytest and collecting what is not wanted.
"""

import importlib
import json

import pytest
from faulty import variants, writer
from faulty.variant import faults

from pytest_nvfp4.implementations.loader import Target
from pytest_nvfp4.implementations.transports import IN_PROCESS
from pytest_nvfp4.specification.contracts import packaged
from pytest_nvfp4.suite import examination
from pytest_nvfp4.suite.cases import PACKAGE, suite_files

# Loaded once for all runs; numpy even refuses to load again.
for file in suite_files():
    importlib.import_module(f"{PACKAGE}.{file.stem}")
importlib.import_module("nvfp4_reference.gemm.case")

MODULES = (
    *("options", "numbering", "documents", "imports", "merging", "publishing"),
    *("lookups", "threads", "profiling", "sessions", "frozen", "reports"),
    "devices",
)
VARIANTS = [
    variant
    for name in MODULES
    for variant in faults(importlib.import_module(f"{variants.__name__}.{name}"))
]
WIDE = {"KeepsFailedTuning"}  # it makes requests wait until they are given up
NOT_KILLED_YET = ()
"""The MUST contracts that no faulty implementation breaks; it can only become shorter."""


class OnlyTheFilesOf:
    """A plugin that leaves out the files of the suite that prove none of these contracts."""

    def __init__(self, contracts):
        marks = [f'@contract("{contract}")' for contract in contracts]
        self.files = [str(f) for f in suite_files() if any(m in f.read_text() for m in marks)]

    @pytest.hookimpl(trylast=True)
    def pytest_sessionstart(self, session):
        session.config.args[:] = self.files


@pytest.fixture
def judged(pytester, monkeypatch):
    """``judged(variant, contracts)``: the report's contracts by id."""
    monkeypatch.setenv("NVFP4_FLASHINFER", str(writer.place(pytester.path)))

    def run(variant, contracts):
        # What answers without a claim is no fault, and finding that out starts a process.
        monkeypatch.setattr(examination, "unclaimed", lambda *_: [])
        if not variant.served:
            monkeypatch.setattr(Target, "transports", (IN_PROCESS,))
        report = pytester.path / "report.json"
        result = pytester.runpytest_inprocess(
            *("-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-p", "no:syrupy"),
            *("-n0", "--tb=no", "--nvfp4-conformance"),
            f"--nvfp4-impl={variant.__module__}:{variant.__name__}",
            f"--nvfp4-contract={','.join(contracts)}",
            f"--nvfp4-report={report}",
            plugins=[OnlyTheFilesOf(contracts)],
        )
        assert report.exists(), result.stderr.str()
        return {one["id"]: one for one in json.loads(report.read_text())["contracts"]}

    return run


@pytest.mark.parametrize(
    "variant",
    [
        pytest.param(
            variant,
            id=variant.__name__,
            marks=[pytest.mark.wide] if variant.__name__ in WIDE else [],
        )
        for variant in VARIANTS
    ],
)
def test_fault_is_caught(judged, variant):
    found = judged(variant, [*variant.breaks, *variant.controls])
    verdicts = {contract: one["verdict"] for contract, one in found.items()}
    expected = dict.fromkeys(variant.breaks, "failed") | dict.fromkeys(variant.controls, "passed")
    assert verdicts == expected, [
        case["message"] for one in found.values() for case in one["cases"] if case["message"]
    ]


def test_each_area_has_a_fault():
    areas = {contract.area for contract in packaged().contracts if contract.level != "future"}
    assert {c.partition("-")[0] for variant in VARIANTS for c in variant.breaks} == areas


def test_what_no_fault_breaks_is_known():
    must = {contract.id for contract in packaged().contracts if contract.level == "must"}
    normal = [variant for variant in VARIANTS if variant.__name__ not in WIDE]
    killed = {contract for variant in normal for contract in variant.breaks}
    assert sorted(must - killed) == sorted(NOT_KILLED_YET)
