"""Several runs of one test make one set of reports.

They are those of the first run that failed, or of the first run, with the output of the others. Its
call fails where the runs disagree, or where the first arm is behind.
"""

import copy
from collections.abc import Iterator, Sequence

import pytest

from pytest_nvfp4.markers.fresh_process import TABLE
from pytest_nvfp4.markers.fresh_process.agreement import (
    compared,
    disagreements,
    measured_differently,
)
from pytest_nvfp4.markers.fresh_process.relay import failure
from pytest_nvfp4.markers.fresh_process.request import FreshRequest
from pytest_nvfp4.markers.fresh_process.result import AFTER, CALL, TEARDOWN, Result
from pytest_nvfp4.markers.fresh_process.table import make_table
from pytest_nvfp4.upstream.reports import expect_failure, expected_failure, is_phase


def merged(
    item: pytest.Item, request: FreshRequest, results: Sequence[Result]
) -> list[pytest.TestReport]:
    """One set of reports for all runs, the teardown's last."""
    failed = [result for result in results if result.failed]
    if failed:
        reports = [*failed[0].reports, *reports_of_end(item, failed[0])]
        for report in reports:
            if report.failed:
                report.sections.insert(0, ("Fresh runs", _account(request, results)))
        return reports
    wrong = disagreements(request, results)
    table = None
    if not wrong and compared(results):
        wrong = measured_differently(request, results)
        if not wrong:
            table = make_table(item.nodeid, request, results)
            if table.below:
                lines = "\n".join(table.lines())
                wrong = [f"{table.predicate()}: the first arm is behind\n{lines}"]
    reports = [_gathered(report, results) for report in results[0].reports]
    for index, report in enumerate(reports):
        if not is_phase(report) or report.when != CALL:
            continue
        if wrong:
            reports[index] = _made_to_fail(report, "\n\n".join(wrong))
        if table is not None:
            setattr(reports[index], TABLE, table.plain())
        return reports
    if wrong:  # no run came to its call, and yet they differ
        reports.insert(-1, failure(item, "\n\n".join(wrong)))
    return reports


def reports_of_end(item: pytest.Item, result: Result) -> Iterator[pytest.TestReport]:
    """The failure by which the process ended, if it ended by one."""
    problem = result.problem()
    if problem:
        phase = TEARDOWN if result.phase == AFTER else result.phase
        yield failure(item, problem, phase, result)


def _made_to_fail(report: pytest.TestReport, text: str) -> pytest.TestReport:
    """A passed report made a failed one; where the test was expected to fail, it has."""
    reason = expected_failure(report)
    failed = copy.copy(report)
    failed.longrepr = text
    failed.outcome = "failed"
    if reason is not None:
        expect_failure(failed, reason)
    return failed


def _gathered(report: pytest.TestReport, results: Sequence[Result]) -> pytest.TestReport:
    """A report of the first run, with the sections and durations of the same phase of all."""
    gathered = copy.copy(report)
    if not is_phase(report):
        return gathered
    gathered.sections = list(report.sections)
    for result in results[1:]:
        for other in result.reports:
            if is_phase(other) and other.when == report.when:
                gathered.duration += other.duration
                gathered.sections += [
                    (f"{title} ({result.run.name})", text) for title, text in other.sections
                ]
    return gathered


def _account(request: FreshRequest, results: Sequence[Result]) -> str:
    """The verdict of each run, in lines."""
    done = {result.run.number: result for result in results}
    lines = []
    for run in request.runs:
        verdict = done[run.number].verdict if run.number in done else "not started"
        lines.append(f"{run.name}: {verdict}")
    return "\n".join(lines)
