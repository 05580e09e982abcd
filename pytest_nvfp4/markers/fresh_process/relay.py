"""Give the reports and warnings of a fresh process to all plugins, as if its test had run here."""

import sys
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import pytest

from pytest_nvfp4.markers.fresh_process.result import CALL, Result
from pytest_nvfp4.upstream import reports


def publish(item: pytest.Item, report: pytest.TestReport) -> None:
    """Give a report to all plugins, as if the test had run here."""
    own = [pair for pair in item.user_properties if pair not in report.user_properties]
    report.user_properties = [*own, *report.user_properties]
    item.ihook.pytest_runtest_logreport(report=report)


def warn(item: pytest.Item, described: Iterable[Mapping[str, Any]]) -> None:
    """Give a child's warnings to all plugins, each once; see `child.describe_warning`."""
    seen = []
    for one in described:
        if one in seen:
            continue
        seen.append(one)
        category = _category(*one["category"])
        message = warnings.WarningMessage(
            category(one["text"]), category, one["filename"], one["lineno"]
        )
        reports.record_warning(item, message)


def _category(module: str, name: str) -> type[Warning]:
    """A warning's class where it is loaded here and takes a text, else one of that name."""
    found = getattr(sys.modules.get(module), name, None)
    if isinstance(found, type) and issubclass(found, Warning):
        try:
            found("")
        except TypeError:
            pass
        else:
            return found
    return type(name, (Warning,), {"__module__": module})


def failure(
    item: pytest.Item,
    text: str,
    when: Literal["setup", "call", "teardown"] = CALL,
    result: Result | None = None,
) -> pytest.TestReport:
    """A failed report that the process did not send; of an expected failure, where that holds.

    `result` is the run whose end it is about, if it is about one.
    """
    ended = result.ended if result is not None else None
    report = reports.made_report(
        item,
        text,
        when,
        sections=result.leftovers() if result is not None else (),
        duration=ended.seconds if ended is not None else 0.0,
    )
    reason = expected_to_fail(item)
    if reason is not None and (result is None or (result.began and not result.trouble)):
        reports.expect_failure(report, reason)
    return report


def expected_to_fail(item: pytest.Item) -> str | None:
    """The reason of a marker `xfail` that holds for any way to fail, or None.

    Only pytest can evaluate a condition that is text, in the child. With such a condition, and with
    ``raises=``, a process that ends badly is a failure.
    """
    if item.config.getoption("--runxfail", False):
        return None
    for mark in item.iter_markers("xfail"):
        conditions = [
            *mark.args,
            *([mark.kwargs["condition"]] if "condition" in mark.kwargs else []),
        ]
        if any(isinstance(condition, str) for condition in conditions) or "raises" in mark.kwargs:
            continue
        if all(map(bool, conditions)):
            return str(mark.kwargs.get("reason", ""))
    return None


def basetemp_beside(config: pytest.Config) -> tuple[str, Path | None]:
    """A prefix and a parent folder for the temporary folders of children; None for the default."""
    given = config.getoption("--basetemp", None)
    if given is None:
        return "pytest-fresh-", None
    # Not inside: pytest empties that one when it first uses it.
    path = Path(given).absolute()
    return f"{path.name}-fresh-", path.parent
