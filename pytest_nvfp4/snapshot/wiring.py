"""Where pytest meets the snapshots: cheap hooks, and what a run's end says about snapshots.

What tests did travels in their reports, as user properties: so it is the same in this process, in
an xdist worker, and in a child whose reports are replayed.
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
from pytest_nvfp4.snapshot.unclaimed import Collected, unclaimed

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
    from syrupy.location import PyTestLocation

    from pytest_nvfp4.snapshot.extension import Shelf

    item = request.node
    # A test that is run again starts again.
    kept = [pair for pair in item.user_properties if pair[0] not in (PROPERTY, UNUSED)]
    item.user_properties[:] = kept
    comparisons = Comparisons(
        Shelf(PyTestLocation(item)),
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
    """A plugin that hears of snapshots, and of the tests that could have some."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._counts: Counter[str] = Counter()
        self._passed: set[str] = set()
        self._unused: list[str] = []
        self._collected = Collected()
        self._told: list[set[str]] = []  # what each process that collected found unclaimed

    # --- What was collected

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Note which tests there are."""
        report = yield
        self._collected.add(collector, report)
        return report

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Find files without tests; an xdist worker leaves telling of them to the controller."""
        if self._narrowed() or not self._collected.modules:
            return
        root = self._config.rootpath
        shown = [names.shown(path, root) for path in unclaimed(self._collected.modules)]
        self._told.append(set(shown))
        output = getattr(self._config, "workeroutput", None)
        if output is not None:
            output[_OUTPUT] = shown

    def _narrowed(self) -> bool:
        """Whether tests were left out of what modules seem to hold, or nothing was to run."""
        return bool(
            self._config.getoption("--last-failed", False) or self._config.option.collectonly
        )

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Hear from an xdist worker what it found unclaimed."""
        output = getattr(node, "workeroutput", {})
        if _OUTPUT in output:
            self._told.append(set(output[_OUTPUT]))

    # --- What was compared

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Hear what a test compared, wherever it ran."""
        if report.when == "call" and report.passed and not hasattr(report, "wasxfail"):
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
        """Say what was compared, and which snapshots nobody asked for."""
        if self._counts:
            told = [
                f"{self._counts[one.value]} {one.value}"
                for one in Outcome
                if self._counts[one.value]
            ]
            terminalreporter.write_line(f"nvfp4_snapshot: {', '.join(told)}")
        nobodys = sorted(set.intersection(*self._told)) if self._told else []
        for line in _nobodys(nobodys, sorted(self._unused)):
            terminalreporter.write_line(line)


def _nobodys(paths: list[str], unused: list[str]) -> Iterable[str]:
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
