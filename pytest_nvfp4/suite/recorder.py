"""Record the verdict of every case, where pytest runs it and where the run is concluded.

Verdicts travel in the user properties of reports: xdist carries those to the controller, and JUnit
files show them. Their names begin with ``nvfp4_``, so those of other tests have other names.
"""

import os
from collections.abc import Callable, Generator, Mapping
from pathlib import Path

import pytest

from pytest_nvfp4.results import reproducer
from pytest_nvfp4.results.deviations import Deviations
from pytest_nvfp4.results.verdicts import CaseResult, Verdict
from pytest_nvfp4.suite.cases import Case, Key
from pytest_nvfp4.suite.collection import ContractItem
from pytest_nvfp4.suite.record import verdict_around
from pytest_nvfp4.upstream import reports

_PREFIX = "nvfp4_"
_PHASES = ("setup", "call", "teardown")


class Plan:
    """The cases that a run has to run, by key and by node id."""

    def __init__(self, cases: tuple[Case, ...]):
        self.cases = cases
        self.by_key: Mapping[Key, Case] = {case.key: case for case in cases}
        self.by_nodeid: Mapping[str, Case] = {case.nodeid: case for case in cases}


class Recorder:
    """A plugin that records; `results` fills up where reports arrive: with xdist, the controller.

    `plan` is called at the first report of the suite. Reports of anything else are ignored.
    """

    def __init__(self, plan: Callable[[], Plan], deviations: Deviations, reproducers: Path):
        self._plan = plan
        self._deviations = deviations
        self._reproducers = reproducers
        self._lost_a_worker = False
        self.results: dict[Key, CaseResult] = {}

    @property
    def whole(self) -> bool:
        """Whether every planned case was run to its end.

        It was not where the run was narrowed (-k, -x, --lf, a conftest.py), nor where a worker or
        the run itself ended early.
        """
        return not self._lost_a_worker and self._plan().by_key.keys() == self.results.keys()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Put the verdict of a case into its report, and what reproduces a failure on disk."""
        report = yield
        if not isinstance(item, ContractItem):
            return report
        outcome = _outcome(item, call)
        if outcome is None:
            return report
        (verdict, message), case = outcome, item.case
        properties = {
            "contract": case.contract.id,
            "level": case.contract.level,
            "case": case.name,
            "transport": case.transport,
            "verdict": verdict.value,
            # Half a surrogate pair in a message would not cross to another process.
            "message": message.encode("utf-8", "backslashreplace").decode(),
            "reproducer": "",
        }
        if verdict in (Verdict.FAILED, Verdict.ERROR):
            properties["reproducer"] = self._reproducer(item)
            if report.outcome != "failed":  # a hook around the case has hidden its exception
                report.outcome, report.longrepr = "failed", message
        deviation = self._deviations.match(case.contract.id, case.name)
        if verdict is Verdict.FAILED and deviation is not None:
            reports.expect_failure(report, f"known deviation: {deviation.reason}")
        # On the item for JUnit, which looks at the last phase; on the report for this phase.
        others = [pair for pair in item.user_properties if not pair[0].startswith(_PREFIX)]
        own = [(_PREFIX + name, value) for name, value in properties.items()]
        item.user_properties[:] = [*others, *own]
        report.user_properties = list(item.user_properties)
        return report

    def _reproducer(self, item: ContractItem) -> str:
        case, record = item.case, item.record
        if record.document is None and not record.requests:
            return ""
        try:
            paths = reproducer.write(
                self._reproducers,
                case.contract.id,
                case.name,
                document=record.document,
                requests=record.numbered_requests or None,
                transport=case.transport,
            )
        except OSError as error:
            return f"(not written: {error.strerror})"
        return os.path.relpath(paths[0], item.config.invocation_params.dir)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect verdicts; the highest of a case's phases counts."""
        found = self._read(report) or self._lost(report)
        if found is None:
            return
        key = (found.contract, found.case, found.transport)
        if key not in self.results or found.verdict > self.results[key].verdict:
            self.results[key] = found

    def _read(self, report: pytest.TestReport) -> CaseResult | None:
        """The verdict that a report carries; None where it is no report of a planned case."""
        prefix = len(_PREFIX)
        properties = {
            name[prefix:]: str(value)
            for name, value in report.user_properties
            if isinstance(name, str) and name.startswith(_PREFIX)
        }
        if "verdict" not in properties:
            return None
        key = tuple(properties.get(name, "") for name in ("contract", "case", "transport"))
        if key not in self._plan().by_key:
            return None
        contract, case, transport = key
        return CaseResult(
            contract=contract,
            case=case,
            transport=transport,
            verdict=Verdict(properties["verdict"]),
            message=properties["message"],
            seconds=report.duration,
            reproducer=properties["reproducer"] or None,
        )

    def _lost(self, report: pytest.TestReport) -> CaseResult | None:
        """The verdict of a planned case that took its xdist worker down; None of other reports."""
        if report.when in _PHASES or not report.failed:
            return None
        nodeid = report.nodeid
        plan = self._plan().by_nodeid
        case = plan.get(nodeid) or plan.get(nodeid.rpartition("@")[0])  # --dist loadgroup
        if case is None:
            return None
        self._lost_a_worker = True
        message = "the worker process ended while it ran this case"
        contract, name, transport = case.key
        return CaseResult(contract, name, transport, Verdict.ERROR, message, report.duration)


def _outcome(item: ContractItem, call: pytest.CallInfo[None]) -> tuple[Verdict, str] | None:
    """What one phase says about the case: None where it says nothing."""
    error = None if call.excinfo is None else call.excinfo.value
    if call.when != "call":
        return None if error is None else verdict_around(error)
    if item.outcome is not None:
        return item.outcome
    if error is not None:
        return verdict_around(error)
    return Verdict.ERROR, "the case was not run: a hook has taken its place"
