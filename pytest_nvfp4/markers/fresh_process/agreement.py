"""Whether several runs of one test agree, in what they recorded and in what they measured."""

from collections.abc import Iterable, Sequence

from pytest_nvfp4.markers.fresh_process.observations import describe_difference
from pytest_nvfp4.markers.fresh_process.request import EQUAL, IGNORE, WITHIN_ARMS, FreshRequest
from pytest_nvfp4.markers.fresh_process.result import Result


def disagreements(request: FreshRequest, results: Sequence[Result]) -> list[str]:
    """A paragraph for each recorded name that differs where it must not; of runs that passed."""
    outcomes = {result.verdict for result in results}
    if len(outcomes) > 1:
        each = ", ".join(f"{result.run.name} {result.verdict}" for result in results)
        return [f"the runs of one test had different outcomes: {each}"]
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
    """Whether the runs came to the test's end, so that what they recorded must be complete."""
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
    shown = "\n".join(f"  {line}" for line in lines)
    return [f"{name!r} differs between {names[0]} and {names[1]}{more}\n{shown}"]


def measured_differently(request: FreshRequest, results: Sequence[Result]) -> list[str]:
    """A sentence for each reason that the measured axes cannot be compared."""
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
        found.append(
            "at_least compares what fresh.measure was given, and it was given nothing; measure an "
            "axis, or leave at_least out"
        )
    return found
