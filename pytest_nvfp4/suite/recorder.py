"""Record the verdict of every case, where pytest runs it and where the run is concluded.

Verdicts travel in the user properties of reports: xdist carries those to the controller, and JUnit
files show them.
"""

import importlib
import os
from collections.abc import Collection, Generator
from pathlib import Path

import pytest

from pytest_nvfp4.implementations.transports import IN_PROCESS, JSON_LINES
from pytest_nvfp4.results import reproducer
from pytest_nvfp4.results.deviations import Deviations
from pytest_nvfp4.results.verdicts import NO_TRANSPORT, CaseResult, Verdict
from pytest_nvfp4.specification.contracts import Contract, Specification
from pytest_nvfp4.suite.fixtures import RECORD
from pytest_nvfp4.suite.marks import CONTRACT
from pytest_nvfp4.suite.record import Record, classify

PACKAGE = "pytest_nvfp4.conformance"
TRANSPORT_IDS = {IN_PROCESS: "in-process", JSON_LINES: "json-lines"}
_PROPERTIES = ("contract", "case", "transport", "verdict", "message", "reproducer")


def contract_of(item: pytest.Item, specification: Specification) -> Contract:
    """The contract that a test of the suite proves."""
    mark = item.get_closest_marker(CONTRACT)
    if mark is None:
        raise pytest.UsageError(f"{item.nodeid} names no contract")
    return specification.contract(mark.args[0])


class Recorder:
    """A plugin that records; `cases` fills up where reports arrive: with xdist, the controller."""

    def __init__(
        self,
        files: Collection[Path],
        specification: Specification,
        deviations: Deviations,
        reproducers: Path,
    ):
        self._files = files
        self._specification = specification
        self._deviations = deviations
        self._reproducers = reproducers
        self.cases: dict[tuple[str, str, str], CaseResult] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Put the verdict of a case into its report, and what reproduces a failure on disk."""
        result = yield
        if item.path not in self._files:
            return result
        verdict, message = classify(call)
        if verdict is Verdict.PASSED and call.when != "call":
            return result
        contract = contract_of(item, self._specification)
        case, transport = case_of(item)
        properties = dict.fromkeys(_PROPERTIES, "") | {
            "contract": contract.id,
            "level": contract.level,
            "case": case,
            "transport": transport,
            "verdict": verdict.value,
            # Half a surrogate pair in a message would not cross to another process.
            "message": message.encode("utf-8", "backslashreplace").decode(),
        }
        if verdict in (Verdict.FAILED, Verdict.ERROR):
            properties["reproducer"] = self._reproducer(item, properties)
        deviation = self._deviations.match(contract.id, case)
        if verdict is Verdict.FAILED and deviation is not None:
            result.outcome = "skipped"
            result.wasxfail = f"known deviation: {deviation.reason}"
        # On the item for JUnit, which looks at the last phase; on the report for this phase.
        others = [pair for pair in item.user_properties if pair[0] not in properties]
        item.user_properties[:] = [*others, *properties.items()]
        result.user_properties = list(item.user_properties)
        return result

    def _reproducer(self, item: pytest.Item, about: dict[str, str]) -> str:
        record = item.stash.get(RECORD, Record())
        if record.document is None and not record.requests:
            return ""
        try:
            paths = reproducer.write(
                self._reproducers,
                about["contract"],
                about["case"],
                document=record.document,
                requests=record.numbered_requests or None,
                transport=about["transport"],
            )
        except OSError as error:
            return f"(not written: {error.strerror})"
        return os.path.relpath(paths[0], item.config.invocation_params.dir)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect verdicts; the highest of a case's phases counts."""
        told = dict(report.user_properties)
        if "verdict" not in told:
            if report.failed:
                told = self._lost(report)
            if "verdict" not in told:
                return
        case = CaseResult(
            contract=told["contract"],  # type: ignore[arg-type]
            case=told["case"],  # type: ignore[arg-type]
            transport=told["transport"],  # type: ignore[arg-type]
            verdict=Verdict(told["verdict"]),
            message=told["message"],  # type: ignore[arg-type]
            seconds=report.duration,
            reproducer=told["reproducer"] or None,  # type: ignore[arg-type]
        )
        key = (case.contract, case.case, case.transport)
        if key not in self.cases or case.verdict > self.cases[key].verdict:
            self.cases[key] = case

    def _lost(self, report: pytest.TestReport) -> dict[str, object]:
        """What is known of a case that took its xdist worker down: all but why."""
        file, _, name = report.nodeid.partition("::")
        module = next((path for path in self._files if file == f"conformance/{path.name}"), None)
        if module is None:
            return {}
        function = getattr(importlib.import_module(f"{PACKAGE}.{module.stem}"), name.split("[")[0])
        mark = next(mark for mark in function.pytestmark if mark.name == CONTRACT)
        return {
            "contract": mark.args[0],
            "case": name.removeprefix("test_"),
            "transport": NO_TRANSPORT,
            "verdict": Verdict.ERROR.value,
            "message": "the worker process ended while it ran this case",
            "reproducer": "",
        }


def case_of(item: pytest.Item) -> tuple[str, str]:
    """A case's name within its contract, and its transport.

    The name is the function's and its parameters', without the transport: it stays the same for
    one file under two import names, and for every transport.
    """
    callspec = getattr(item, "callspec", None)
    transport = NO_TRANSPORT if callspec is None else callspec.params.get("subject", NO_TRANSPORT)
    parameters = "" if callspec is None else callspec.id
    if transport in TRANSPORT_IDS:
        parameters = parameters.removesuffix(TRANSPORT_IDS[transport]).removesuffix("-")
    name = getattr(item, "originalname", item.name).removeprefix("test_")
    return f"{name}[{parameters}]" if parameters else name, transport
