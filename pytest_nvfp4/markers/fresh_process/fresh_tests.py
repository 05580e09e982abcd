"""Run the tests that are marked with `fresh_process` in interpreters of their own.

In the parent, such a test is not set up at all: its process does everything, and its reports are
given to all plugins. Those of a single run are, as they come; those of several runs are merged.
"""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import pytest

from pytest_nvfp4.markers.fresh_process import MARK, processes
from pytest_nvfp4.markers.fresh_process.launch import Launcher
from pytest_nvfp4.markers.fresh_process.merging import merged, reports_of_end
from pytest_nvfp4.markers.fresh_process.processes import Ended, Start, run_all
from pytest_nvfp4.markers.fresh_process.relay import basetemp_beside, failure, publish, warn
from pytest_nvfp4.markers.fresh_process.request import (
    FreshRequest,
    FreshRun,
    environment_of,
    read_request,
    side_by_side,
)
from pytest_nvfp4.markers.fresh_process.result import SETUP, TEARDOWN, Result
from pytest_nvfp4.markers.requests import RequestError
from pytest_nvfp4.upstream import runs
from pytest_nvfp4.upstream.reports import from_data


class Guard(Protocol):
    """What a test holds around all its runs, such as a lock."""

    def begin(self, item: pytest.Item) -> None:
        """Take it, or raise what the test's setup is to fail with."""

    def finish(self, item: pytest.Item) -> str:
        """Release it where it was taken; return what was wrong with it, as a message, or ""."""


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
        """What is wrong with a test's markers, or ""."""
        try:
            self.request(item)
        except RequestError as error:
            return str(error)
        return ""

    def request(self, item: pytest.Item) -> FreshRequest:
        """What a test asks for; raises RequestError."""
        marks = [(mark.args, mark.kwargs) for mark in item.iter_markers(MARK)]
        return read_request(marks, self._timeout)

    def prepare(self) -> None:
        """Note how processes are started in this run, before a test can change that."""
        self._launcher = Launcher.of(self._config)

    # --- One test

    def run(self, item: pytest.Item, nextitem: pytest.Item | None, guard: Guard | None) -> None:
        """Run a test's whole protocol, with `guard` around all its runs if there is one."""
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        results = self._run(item, guard)
        self._tear_down_here(item, nextitem)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        self._stop_where_asked(results)

    def _run(self, item: pytest.Item, guard: Guard | None) -> list[Result]:
        try:
            request = self.request(item)
        except RequestError as error:  # the marker was added after collection
            publish(item, failure(item, str(error), SETUP))
            return []
        if guard is None:
            return self._run_unguarded(item, request, side_by_side(os.environ))
        reraise = (KeyboardInterrupt, pytest.exit.Exception)
        call = pytest.CallInfo.from_call(lambda: guard.begin(item), SETUP, reraise)
        if call.excinfo is not None:
            guard.finish(item)
            report = item.ihook.pytest_runtest_makereport(item=item, call=call)
            item.ihook.pytest_runtest_logreport(report=report)
            return []
        # The last report is published after the release, whose problem it has to show.
        last: list[pytest.TestReport] = []
        problem = ""
        try:
            results = self._run_unguarded(item, request, 1, last)
        finally:
            problem = guard.finish(item)
        if problem:  # instead of a teardown that went well, or after what did not
            last[:] = [report for report in last if not report.passed]
            last.append(failure(item, problem, TEARDOWN))
        for report in last:
            publish(item, report)
        return results

    def _run_unguarded(
        self,
        item: pytest.Item,
        request: FreshRequest,
        together: int,
        last: list[pytest.TestReport] | None = None,
    ) -> list[Result]:
        """Run all runs and publish their reports, the last one only if `last` does not take it."""
        results = [Result(run, request.timeout) for run in request.runs]
        try:
            starts = [self._start(item, run, request) for run in request.runs]
        except OSError as error:
            results[0].ended = Ended(1, error=str(error))
            publish(item, *reports_of_end(item, results[0]))
            return results[:1]
        single = len(results) == 1
        held: list[pytest.TestReport] = []  # a teardown, until it is known that no rerun follows

        def receive(number: int, message: tuple[str, object]) -> None:
            kind, value = message
            result = results[number]
            if kind != "report":
                result.receive(kind, value)
                return
            report = from_data(item, value)  # type: ignore[arg-type]
            result.reports.append(report)
            if single:
                held.append(report)
                while held and (len(held) > 1 or held[0].when != TEARDOWN):
                    publish(item, held.pop(0))

        going_on = True
        running = run_all(starts, together, receive, lambda: going_on)
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
            reports = [*held, *reports_of_end(item, results[0])]
        else:
            reports = merged(item, request, results)
            self._kept |= any(report.failed for report in reports)
        *now, final = reports
        for report in now:
            publish(item, report)
        if last is None:
            publish(item, final)
        else:
            last.append(final)
        return results

    def _start(self, item: pytest.Item, run: FreshRun, request: FreshRequest) -> Start:
        if self._launcher is None:  # the marker was added after collection
            self.prepare()
        launcher = self._launcher
        assert launcher is not None
        message = launcher.message(item)
        message["run"] = {"number": run.number, "runs": len(request.runs), "arm": run.arm}
        message["basetemp"] = str(self._folder())
        return Start(
            command=launcher.command,
            folder=str(launcher.folder),
            environment=environment_of(run, os.environ),
            message=message,
            timeout=request.timeout,
            shown=self._config.getoption("--capture", "fd") == "no",
        )

    def _folder(self) -> Path:
        """The path of a temporary folder for one child, which pytest creates there."""
        if self._folders is None:
            prefix, above = basetemp_beside(self._config)
            self._folders = Path(tempfile.mkdtemp(prefix=prefix, dir=above))
        self._count += 1
        return self._folders / str(self._count)

    # --- What this process has set up itself

    def note_set_up(self) -> None:
        """Note that a test runs in this process, whose fixtures may outlive it."""
        self._set_up_here = True

    def _tear_down_here(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        """Tear down what earlier tests left for this one, and the next test does not need.

        pytest does that at the end of every test, and this one has no end here.
        """
        if not self._set_up_here:
            return
        reraise = (KeyboardInterrupt, pytest.exit.Exception)
        call = pytest.CallInfo.from_call(lambda: runs.tear_down(item, nextitem), TEARDOWN, reraise)
        if call.excinfo is not None:
            report = item.ihook.pytest_runtest_makereport(item=item, call=call)
            item.ihook.pytest_runtest_logreport(report=report)

    # --- The run

    def _stop_where_asked(self, results: Sequence[Result]) -> None:
        """End the whole run where the test has ended that of its process."""
        for result in results:
            if result.stop is None:
                continue
            if not result.stop:
                raise KeyboardInterrupt
            pytest.exit(**result.stop)

    @pytest.hookimpl(optionalhook=True, tryfirst=True)
    def pytest_timeout_set_timer(self, item: pytest.Item) -> bool | None:
        """No timer of pytest-timeout here: the child has one, which shows what it interrupts."""
        return True if item.get_closest_marker(MARK) is not None else None

    @pytest.hookimpl(optionalhook=True, tryfirst=True)
    def pytest_timeout_cancel_timer(self, item: pytest.Item) -> bool | None:
        """The counterpart of `pytest_timeout_set_timer`."""
        return True if item.get_closest_marker(MARK) is not None else None

    def pytest_unconfigure(self) -> None:
        """Remove the children's temporary folders, unless a test has failed."""
        if self._folders is not None and not self._kept:
            shutil.rmtree(self._folders, ignore_errors=True)
