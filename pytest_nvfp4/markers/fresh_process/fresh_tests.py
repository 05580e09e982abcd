"""Run the tests that are marked with `fresh_process` in interpreters of their own.

In the parent, such a test is not set up at all: its process does everything, and what that tells is
passed on. A single run's reports are passed on as they come. Several runs make one set of reports:
those of the first run that failed, or of the first run with what the others say.
"""

import contextlib
import copy
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from pytest_nvfp4.markers.fresh_process import processes
from pytest_nvfp4.markers.fresh_process.launch import Launcher
from pytest_nvfp4.markers.fresh_process.processes import Ended, Start, run_all
from pytest_nvfp4.markers.fresh_process.relay import (
    basetemp_beside,
    failure,
    publish,
    restore,
    warn,
)
from pytest_nvfp4.markers.fresh_process.request import (
    MARK,
    Request,
    Run,
    environment_of,
    read_request,
    side_by_side,
)
from pytest_nvfp4.markers.fresh_process.result import AFTER, CALL, SETUP, TEARDOWN, Result
from pytest_nvfp4.markers.fresh_process.verdict import (
    TABLE,
    compared,
    disagreements,
    make_table,
    measured_differently,
)
from pytest_nvfp4.markers.gpu_lock.locked_tests import LockedTests
from pytest_nvfp4.markers.paths import RequestError


class FreshTests:
    """A plugin that runs them; registered where a run has such tests."""

    def __init__(self, config: pytest.Config, timeout: float | None):
        self._config = config
        self._timeout = timeout
        self._launcher: Launcher | None = None
        self._folders: Path | None = None
        self._kept = False
        self._count = 0
        self._set_up_here = False

    def problem(self, item: pytest.Item) -> str:
        """What is wrong with a test's markers, or nothing."""
        try:
            self.request(item)
        except RequestError as error:
            return str(error)
        return ""

    def request(self, item: pytest.Item) -> Request:
        """What a test asks for."""
        marks = [(mark.args, mark.kwargs) for mark in item.iter_markers(MARK)]
        return read_request(marks, self._timeout)

    def prepare(self) -> None:
        """Read off the run how to start its processes, before any test can change it."""
        self._launcher = Launcher.of(self._config)

    # --- One test

    def run(
        self, item: pytest.Item, nextitem: pytest.Item | None, locked: LockedTests | None
    ) -> None:
        """Run a test's whole protocol; `locked` holds its lock over all runs, if it has one."""
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        results = self._run(item, locked)
        self._tear_down_here(item, nextitem)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        self._stop_where_told(results)

    def _run(self, item: pytest.Item, locked: LockedTests | None) -> list[Result]:
        try:
            request = self.request(item)
        except RequestError as error:  # the marker was added after collection
            publish(item, failure(item, str(error), SETUP))
            return []
        if locked is None:
            return self._run_unlocked(item, request, side_by_side(os.environ))
        reraise = (KeyboardInterrupt, pytest.exit.Exception)
        call = pytest.CallInfo.from_call(lambda: locked.begin(item), SETUP, reraise)
        if call.excinfo is not None:
            locked.finish(item)
            report = item.ihook.pytest_runtest_makereport(item=item, call=call)
            item.ihook.pytest_runtest_logreport(report=report)
            return []
        # The last report waits for the lock's release, of which it tells.
        last: list[pytest.TestReport] = []
        problem = ""
        try:
            results = self._run_unlocked(item, request, 1, last)
        finally:
            problem = locked.finish(item)
        if problem:  # instead of a teardown that went well, or after what did not
            last[:] = [report for report in last if not report.passed]
            last.append(failure(item, f"gpu_lock: {problem}", TEARDOWN))
        for report in last:
            publish(item, report)
        return results

    def _run_unlocked(
        self,
        item: pytest.Item,
        request: Request,
        together: int,
        last: list[pytest.TestReport] | None = None,
    ) -> list[Result]:
        """Run all runs and publish their reports, but put the last ones into `last` if given."""
        results = [Result(run, request.timeout) for run in request.runs]
        try:
            starts = [self._start(item, run, request) for run in request.runs]
        except OSError as error:
            results[0].ended = Ended(1, error=str(error))
            publish(item, *_of_its_end(item, results[0]))
            return results[:1]
        single = len(results) == 1
        held: list[pytest.TestReport] = []  # a teardown, until it is known that no rerun follows

        def hear(number: int, message: tuple[str, object]) -> None:
            kind, value = message
            result = results[number]
            if kind != "report":
                result.hear(kind, value)
                return
            report = restore(item, value)  # type: ignore[arg-type]
            result.reports.append(report)
            if single:
                held.append(report)
                while held and (len(held) > 1 or held[0].when != TEARDOWN):
                    publish(item, held.pop(0))

        going_on = True
        running = run_all(starts, together, hear, lambda: going_on)
        with contextlib.closing(running):
            for number, ended in running:
                result = results[number]
                result.ended = ended
                if result.failed or result.stop is not None:
                    going_on = False
                    self._kept = True
                if not result.problem():
                    processes.show(ended.output)
        results = [result for result in results if result.ended is not None]
        warn(item, (warning for result in results for warning in result.warnings))
        if any(result.stop is not None for result in results):
            return results
        if single:
            reports = [*held, *_of_its_end(item, results[0])]
        else:
            reports = self._merge(item, request, results)
        *now, final = reports
        for report in now:
            publish(item, report)
        if last is None:
            publish(item, final)
        else:
            last.append(final)
        return results

    def _start(self, item: pytest.Item, run: Run, request: Request) -> Start:
        if self._launcher is None:  # the marker was added after collection
            self.prepare()
        launcher = self._launcher
        assert launcher is not None
        letter = launcher.letter(item)
        letter["run"] = {"number": run.number, "runs": len(request.runs), "arm": run.arm}
        letter["basetemp"] = str(self._folder())
        return Start(
            command=launcher.command,
            folder=str(launcher.folder),
            environment=environment_of(run, os.environ),
            letter=letter,
            timeout=request.timeout,
            shown=self._config.getoption("capture", "fd") == "no",
        )

    def _folder(self) -> Path:
        """A temporary folder for one child, not there yet."""
        if self._folders is None:
            prefix, above = basetemp_beside(self._config)
            self._folders = Path(tempfile.mkdtemp(prefix=prefix, dir=above))
        self._count += 1
        return self._folders / str(self._count)

    # --- Several runs

    def _merge(
        self, item: pytest.Item, request: Request, results: Sequence[Result]
    ) -> list[pytest.TestReport]:
        """One set of reports for all runs."""
        failed = [result for result in results if result.failed]
        if failed:
            reports = [*failed[0].reports, *_of_its_end(item, failed[0])]
            told = _account(request, results)
            for report in reports:
                if report.failed:
                    report.sections.insert(0, ("Fresh runs", told))
            return reports
        wrong = disagreements(request, results)
        table = None
        if not wrong and compared(results):
            wrong = measured_differently(request, results)
            if not wrong:
                table = make_table(item.nodeid, request, results)
                if table.below:
                    told = "\n".join(table.lines())
                    wrong = [f"{table.predicate()}: the first arm is behind\n{told}"]
        merged = [_gathered(report, results) for report in results[0].reports]
        for index, report in enumerate(merged):
            if type(report) is not pytest.TestReport or report.when != CALL:
                continue
            if wrong:
                merged[index] = _failed_after_all(report, "\n\n".join(wrong))
                self._kept = True
            if table is not None:
                setattr(merged[index], TABLE, table.plain())
            return merged
        if wrong:  # no run came to its call, and yet they differ
            merged.insert(-1, failure(item, "\n\n".join(wrong)))
        return merged

    # --- What this process has set up itself

    def note_set_up(self) -> None:
        """Tests that run here leave fixtures for those that follow."""
        self._set_up_here = True

    def _tear_down_here(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        """Tear down what earlier tests left for this one, and the next test does not need.

        pytest does that at the end of every test, and this one had no end here.
        """
        if not self._set_up_here:
            return
        manager = self._config.pluginmanager
        needed = [manager.get_plugin(name) for name in ("runner", "capturemanager")]
        others = [plugin for plugin in manager.get_plugins() if plugin not in needed]
        tear_down = manager.subset_hook_caller("pytest_runtest_teardown", others)
        reraise = (KeyboardInterrupt, pytest.exit.Exception)
        call = pytest.CallInfo.from_call(
            lambda: tear_down(item=item, nextitem=nextitem), TEARDOWN, reraise
        )
        if call.excinfo is not None:
            report = item.ihook.pytest_runtest_makereport(item=item, call=call)
            item.ihook.pytest_runtest_logreport(report=report)

    # --- The run

    def _stop_where_told(self, results: Sequence[Result]) -> None:
        """End the whole run as its test has asked."""
        for result in results:
            if result.stop is None:
                continue
            if not result.stop:
                raise KeyboardInterrupt
            pytest.exit(result.stop["reason"], returncode=result.stop["status"])

    @pytest.hookimpl(optionalhook=True, tryfirst=True)
    def pytest_timeout_set_timer(self, item: pytest.Item) -> bool | None:
        """pytest-timeout: the child has a timer of its own, which knows what it interrupts."""
        return True if item.get_closest_marker(MARK) is not None else None

    @pytest.hookimpl(optionalhook=True, tryfirst=True)
    def pytest_timeout_cancel_timer(self, item: pytest.Item) -> bool | None:
        """The counterpart of `pytest_timeout_set_timer`."""
        return True if item.get_closest_marker(MARK) is not None else None

    def pytest_unconfigure(self) -> None:
        """Remove the children's temporary folders, but for those of a run that failed."""
        if self._folders is not None and not self._kept:
            shutil.rmtree(self._folders, ignore_errors=True)


def _of_its_end(item: pytest.Item, result: Result) -> Iterator[pytest.TestReport]:
    """The failure that the end of the process is, if it is one."""
    problem = result.problem()
    if problem:
        phase = TEARDOWN if result.phase == AFTER else result.phase
        yield failure(item, problem, phase, result)


def _failed_after_all(report: pytest.TestReport, text: str) -> pytest.TestReport:
    """A passed report made a failed one; where the test was expected to fail, it has."""
    failed = copy.copy(report)
    failed.longrepr = text
    failed.outcome = "skipped" if hasattr(report, "wasxfail") else "failed"
    return failed


def _gathered(report: pytest.TestReport, results: Sequence[Result]) -> pytest.TestReport:
    """A report of the first run, with the sections and durations of the same phase of all."""
    gathered = copy.copy(report)
    if type(report) is not pytest.TestReport:
        return gathered
    gathered.sections = list(report.sections)
    for result in results[1:]:
        for other in result.reports:
            if type(other) is pytest.TestReport and other.when == report.when:
                gathered.duration += other.duration
                gathered.sections += [
                    (f"{title} ({result.run.name})", text) for title, text in other.sections
                ]
    return gathered


def _account(request: Request, results: Sequence[Result]) -> str:
    """Which runs did what."""
    done = {result.run.number: result for result in results}
    lines = []
    for run in request.runs:
        verdict = done[run.number].verdict if run.number in done else "not started"
        lines.append(f"{run.name}: {verdict}")
    return "\n".join(lines)
