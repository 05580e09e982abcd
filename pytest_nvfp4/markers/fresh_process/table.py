"""The table of a test's runs: how long each arm took and what it measured, and their ratios."""

from __future__ import annotations  # pytest.TerminalReporter is public from 8.4 only

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import pytest

from pytest_nvfp4.markers.fresh_process import TABLE
from pytest_nvfp4.markers.fresh_process.request import FreshRequest
from pytest_nvfp4.markers.fresh_process.result import Result

_NAME_WIDTH, _NUMBER_WIDTH = 28, 12


@dataclass(frozen=True, slots=True)
class Axis:
    """One row of the table: a mean for each arm, and the first over the second.

    `ratio` is above 1 where the first arm is the better one; None without two arms.
    """

    name: str
    unit: str
    means: tuple[float, ...]
    ratio: float | None = None
    measured: bool = True


@dataclass(frozen=True, slots=True)
class Table:
    """The runs of a test, arm by arm; as plain data, it is an attribute of the call's report."""

    test: str
    runs: int
    order: str
    arms: tuple[str, ...]
    axes: tuple[Axis, ...]
    at_least: float | None = None

    def plain(self) -> dict[str, object]:
        """As data that JSON holds."""
        return asdict(self)

    @classmethod
    def of_plain(cls, data: Mapping[str, object]) -> Table:
        """From the data of `plain`."""
        axes = tuple(
            Axis(**{**axis, "means": tuple(axis["means"])})
            for axis in data["axes"]  # type: ignore[attr-defined]
        )
        return cls(**{**data, "arms": tuple(data["arms"]), "axes": axes})  # type: ignore[arg-type]

    @property
    def below(self) -> list[Axis]:
        """The measured axes on which the first arm is not good enough."""
        if self.at_least is None:
            return []
        return [axis for axis in self.axes if axis.measured and _below(axis, self.at_least)]

    def predicate(self) -> str:
        """Such as ``39/40 axes at least 1.0``; "" without `at_least`."""
        if self.at_least is None:
            return ""
        measured = sum(axis.measured for axis in self.axes)
        return f"{measured - len(self.below)}/{measured} axes at least {self.at_least:g}"

    def lines(self) -> list[str]:
        """The table in lines of at most 80 columns."""
        letters = [chr(ord("A") + index) for index in range(len(self.arms))]
        legend = [
            f"{letter} = {arm}" for letter, arm in zip(letters, self.arms, strict=True) if arm
        ]
        count = f"{self.runs} run{'' if self.runs == 1 else 's'}"
        about = ", ".join([count, *([self.order, *legend] if legend else [])])
        ratio = len(self.arms) == 2
        heads = letters if legend else ["mean"]
        row = [f"{'':<{_NAME_WIDTH}}", *(f"{head:>{_NUMBER_WIDTH}}" for head in heads)]
        lines = [self.test, f"  {about}"]
        lines.append("  " + "".join(row) + (f"{'A to B':>10}" if ratio else ""))
        for axis in self.axes:
            name = f"{axis.name}, {axis.unit}" if axis.unit else axis.name
            row = [f"{_short(name, _NAME_WIDTH):<{_NAME_WIDTH}}"]
            row += [f"{mean:>{_NUMBER_WIDTH}.5g}" for mean in axis.means]
            if axis.ratio is not None:
                row.append(f"{axis.ratio:>10.4f}")
                if axis in self.below:
                    row.append(f"  below {self.at_least:g}")
            lines.append("  " + "".join(row))
        if self.at_least is not None:
            lines.append(f"  {self.predicate()}")
        return lines


def _below(axis: Axis, bound: float) -> bool:
    return axis.ratio is not None and axis.ratio < bound


def _short(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def make_table(test: str, request: FreshRequest, results: Sequence[Result]) -> Table:
    """The means of every arm: the duration of the call, then the measured axes in their order.

    The ratio of two arms is above 1 where the first is the better one.
    """
    arms = request.arms
    by_arm = [[result for result in results if result.run.arm == arm] for arm in arms]
    durations = tuple(statistics.fmean(_call_seconds(result) for result in one) for one in by_arm)
    axes = [_axis("call", "s", "lower", durations, measured=False)]
    for name, metric in results[0].metrics.items():
        means = tuple(
            # Exact, where the sum of two finite numbers may not be finite.
            statistics.mean(result.metrics[name].value for result in one)
            for one in by_arm
        )
        axes.append(_axis(name, metric.unit, metric.better, means))
    return Table(test, len(results), request.order, arms, tuple(axes), request.at_least)


def _call_seconds(result: Result) -> float:
    return result.call.duration if result.call is not None else 0.0


def _axis(
    name: str, unit: str, better: str, means: tuple[float, ...], *, measured: bool = True
) -> Axis:
    ratio = None
    if len(means) == 2 and min(means) > 0:
        ratio = means[0] / means[1] if better == "higher" else means[1] / means[0]
    return Axis(name, unit, means, ratio, measured)


class Tables:
    """The tables of a run, from reports wherever the tests ran."""

    def __init__(self) -> None:
        self._tables: list[Table] = []

    def add(self, report: pytest.TestReport) -> None:
        """Add the table of a report, unless the report's failure shows it."""
        if not report.failed:
            self._tables.append(Table.of_plain(getattr(report, TABLE)))

    def show(self, terminal: pytest.TerminalReporter) -> None:
        """Write the tables, in the order in which the tests ended."""
        if self._tables:
            terminal.section("fresh processes")
        for table in self._tables:
            for line in table.lines():
                terminal.write_line(line)
