"""The snapshots' hooks and fixture, and the summary of snapshots at the end of a run.

The outcomes of comparisons are user properties of tests' reports: so they are the same from this
process, from an xdist worker, and from a fresh process whose reports are replayed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable
from typing import Any

import pytest

from pytest_nvfp4.snapshot import names
from pytest_nvfp4.snapshot.comparison import (
    PROPERTY,
    UNUSED,
    Circumstances,
    Comparisons,
    Mode,
    Outcome,
    PlanSnapshot,
)
from pytest_nvfp4.snapshot.storage import SnapshotFile
from pytest_nvfp4.snapshot.unclaimed import Collected, unclaimed
from pytest_nvfp4.upstream import workers
from pytest_nvfp4.upstream.reports import expected_failure

_OUTPUT = "nvfp4_snapshots_unclaimed"
_SHOWN = 20


def circumstances(config: pytest.Config) -> Circumstances:
    """What syrupy's options allow a run to write; without its plugin, nothing."""
    update = config.getoption("--snapshot-update", None)
    if update:
        mode = Mode.UPDATE
    else:
        new_only = config.getoption("--snapshot-update-new-only", None)
        mode = Mode.ADD if new_only else Mode.COMPARE
    option = "--snapshot-update" if update is not None else "-p syrupy --snapshot-update"
    return Circumstances(mode, option, config.rootpath)


def open_snapshot(request: pytest.FixtureRequest) -> Generator[PlanSnapshot]:
    """The fixture's value for a test."""
    item = request.node
    # A test that is run again starts again.
    kept = [pair for pair in item.user_properties if pair[0] not in (PROPERTY, UNUSED)]
    item.user_properties[:] = kept
    comparisons = Comparisons(
        SnapshotFile(item),
        circumstances(request.config),
        lambda name, value: item.user_properties.append((name, value)),
    )
    yield PlanSnapshot(comparisons)
    comparisons.finish()


def explanation(op: str, left: object, right: object) -> list[str] | None:
    """Why a plan map does not equal a snapshot; None where neither side is one."""
    if op == "==":
        for side in (left, right):
            if isinstance(side, PlanSnapshot):
                return side.explanation
    return None


class Snapshots:
    """A plugin that counts comparisons, and finds snapshots that no test has."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._counts: Counter[str] = Counter()
        self._passed: set[str] = set()
        self._unused: list[str] = []
        self._collected = Collected()
        self._unclaimed: list[set[str]] = []  # what each process that collected tests found

    # --- What was collected

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Add the tests that a module or class has."""
        report = yield
        self._collected.add(collector, report)
        return report

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Find files without tests; an xdist worker sends them to the controller."""
        if self._narrowed() or not self._collected.modules:
            return
        root = self._config.rootpath
        shown = [names.shown(path, root) for path in unclaimed(self._collected.modules)]
        self._unclaimed.append(set(shown))
        workers.send_to_controller(self._config, _OUTPUT, shown)

    def _narrowed(self) -> bool:
        """Whether tests were left out of what modules seem to hold, or nothing was to run."""
        return bool(
            self._config.getoption("--last-failed", False)
            or self._config.getoption("--collect-only")
        )

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Add the files without tests that an xdist worker found."""
        output = workers.returned_by(node)
        if _OUTPUT in output:
            self._unclaimed.append(set(output[_OUTPUT]))

    # --- What was compared

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count the comparisons of a test, wherever it ran."""
        if report.when == "call" and report.passed and expected_failure(report) is None:
            self._passed.add(report.nodeid)
        if report.when != "teardown":
            return
        passed = report.nodeid in self._passed
        self._passed.discard(report.nodeid)
        for name, value in report.user_properties:
            if name == PROPERTY:
                self._counts[str(value).partition(" ")[0]] += 1
            elif name == UNUSED and passed:
                self._unused.append(str(value))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Write the number of comparisons by outcome, and the snapshots that no test has."""
        if self._counts:
            counts = [
                f"{self._counts[one.value]} {one.value}"
                for one in Outcome
                if self._counts[one.value]
            ]
            terminalreporter.write_line(f"nvfp4_snapshot: {', '.join(counts)}")
        # A file that one process finds unclaimed may have its test in another.
        files = sorted(set.intersection(*self._unclaimed)) if self._unclaimed else []
        for line in _without_tests(files, sorted(self._unused)):
            terminalreporter.write_line(line)


def _without_tests(paths: list[str], unused: list[str]) -> Iterable[str]:
    many = len(paths) + len(unused)
    if not many:
        return
    yield (
        f"nvfp4_snapshot: {many} snapshot{' has' if many == 1 else 's have'} no test; "
        "delete by hand what is obsolete:"
    )
    lines = [f"  {path}" for path in paths]
    lines += [f"  {one} (its test passed without it)" for one in unused]
    yield from lines[:_SHOWN]
    if many > _SHOWN:
        yield f"  … and {many - _SHOWN} more"
