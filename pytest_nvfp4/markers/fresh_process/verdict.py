"""Several runs of one test make one result: what differs between them, and a table of the arms."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from pytest_nvfp4.markers.fresh_process.observations import describe_difference
from pytest_nvfp4.markers.fresh_process.request import EQUAL, IGNORE, WITHIN_ARMS, Request
from pytest_nvfp4.markers.fresh_process.result import Result

TABLE = "nvfp4_fresh_table"
"""The attribute under which a report carries its test's table, as plain data."""

_NAME_WIDTH, _NUMBER_WIDTH = 28, 12


def disagreements(request: Request, results: Sequence[Result]) -> list[str]:
    """Every recorded name that differs where it must not, as paragraphs; runs without faults."""
    outcomes = {result.verdict for result in results}
    if len(outcomes) > 1:
        told = ", ".join(f"{result.run.name} {result.verdict}" for result in results)
        return [f"the runs of one test had different outcomes: {told}"]
    if not compared(results):
        return []
    found = []
    names = dict.fromkeys(name for result in results for name in result.observed)
    for name in names:
        rule = request.compare.get(name, request.compare[""])
        for group in _groups(rule, results):
            found += _differing(name, group)
    for name in request.compare:
        if name and name not in names:
            found.append(f"compare names {name!r}, which no run has recorded")
    return found


def compared(results: Sequence[Result]) -> bool:
    """Whether the runs came to their end, so that what they noted must be there and agree."""
    return results[0].verdict not in ("skipped", "xfailed")


def _groups(rule: str, results: Sequence[Result]) -> Iterable[Sequence[Result]]:
    if rule == IGNORE:
        return []
    if rule == EQUAL:
        return [results]
    assert rule == WITHIN_ARMS
    arms = dict.fromkeys(result.run.arm for result in results)
    return [[result for result in results if result.run.arm == arm] for arm in arms]


def _differing(name: str, results: Sequence[Result]) -> list[str]:
    without = [result.run.name for result in results if name not in result.observed]
    if without:
        return (
            [f"{name!r} was not recorded by {', '.join(without)}"]
            if len(without) < len(results)
            else []
        )
    first = results[0]
    others = [one for one in results[1:] if one.observed[name] != first.observed[name]]
    if not others:
        return []
    names = (first.run.name, others[0].run.name)
    more = f" (and from {len(others) - 1} more)" if len(others) > 1 else ""
    lines = describe_difference(first.observed[name], others[0].observed[name], names)
    told = "\n".join(f"  {line}" for line in lines)
    return [f"{name!r} differs between {names[0]} and {names[1]}{more}\n{told}"]


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
    """The runs of a test, arm by arm; it travels with the report of its call as plain data."""

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
    def of_plain(cls, told: Mapping[str, object]) -> "Table":
        """From data that a report brought."""
        axes = tuple(
            Axis(**{**axis, "means": tuple(axis["means"])})
            for axis in told["axes"]  # type: ignore[attr-defined]
        )
        return cls(**{**told, "arms": tuple(told["arms"]), "axes": axes})  # type: ignore[arg-type]

    @property
    def below(self) -> list[Axis]:
        """The measured axes on which the first arm is not good enough."""
        if self.at_least is None:
            return []
        return [axis for axis in self.axes if axis.measured and _below(axis, self.at_least)]

    def predicate(self) -> str:
        """Such as ``39/40 axes at least 1.0``; nothing where nobody asked."""
        if self.at_least is None:
            return ""
        measured = sum(axis.measured for axis in self.axes)
        return f"{measured - len(self.below)}/{measured} axes at least {self.at_least:g}"

    def lines(self) -> list[str]:
        """For the terminal, 80 columns."""
        letters = [chr(ord("A") + index) for index in range(len(self.arms))]
        legend = [
            f"{letter} = {arm}" for letter, arm in zip(letters, self.arms, strict=True) if arm
        ]
        told = ", ".join([f"{self.runs} runs", *([self.order, *legend] if legend else [])])
        ratio = len(self.arms) == 2
        heads = letters if legend else ["mean"]
        row = [f"{'':<{_NAME_WIDTH}}", *(f"{head:>{_NUMBER_WIDTH}}" for head in heads)]
        lines = [self.test, f"  {told}"]
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


def make_table(test: str, request: Request, results: Sequence[Result]) -> Table:
    """The means of every arm: the duration of the call, then what was measured, in that order.

    The ratio of two arms is turned so that more than 1 speaks for the first.
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


def measured_differently(request: Request, results: Sequence[Result]) -> list[str]:
    """What keeps the measured axes from being compared, one sentence each."""
    first = results[0]
    found = []
    for result in results[1:]:
        if result.metrics.keys() != first.metrics.keys():
            odd = sorted(result.metrics.keys() ^ first.metrics.keys())
            found.append(
                f"{first.run.name} and {result.run.name} did not measure the same: {', '.join(odd)}"
            )
            continue
        for name, metric in result.metrics.items():
            if (metric.unit, metric.better) != (
                first.metrics[name].unit,
                first.metrics[name].better,
            ):
                found.append(
                    f"{first.run.name} and {result.run.name} measured {name!r} in another unit or "
                    "direction"
                )
    if request.at_least is not None and not first.metrics:
        found.append("at_least compares what fresh.measure was given, and it was given nothing")
    return found
