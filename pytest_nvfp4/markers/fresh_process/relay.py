"""Make a child's reports this run's own."""

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_nvfp4.markers.fresh_process.child import OPAQUE
from pytest_nvfp4.markers.fresh_process.result import CALL, Result


def restore(item: pytest.Item, data: dict[str, Any]) -> pytest.TestReport:
    """The report that a child has told of a test; what JSON made lists of are tuples again."""
    config = item.config
    opaque = data.pop(OPAQUE, False)
    report: pytest.TestReport = config.hook.pytest_report_from_serializable(
        config=config, data=data
    )
    report.nodeid = item.nodeid  # the child may have known it by a shorter one
    report.location = item.location
    if isinstance(report.longrepr, list):
        report.longrepr = tuple(report.longrepr)
    elif opaque:
        report.longrepr = _Text(str(report.longrepr))  # type: ignore[assignment]
    if "_subtest.context" in data:
        # pytest quotes the arguments of a subtest once more each time that it reads them.
        told = data["_subtest.context"]["kwargs"]
        object.__setattr__(report.context, "kwargs", told)
    report.sections = [(title, text) for title, text in report.sections]
    report.user_properties = [(name, value) for name, value in report.user_properties]
    return report


class _Text:
    """An explanation of which only the text is left; to pytest, not the same as a text."""

    def __init__(self, text: str):
        self._text = text

    def __str__(self) -> str:
        return self._text

    def toterminal(self, writer: Any) -> None:
        """Write it, as pytest's own explanations do."""
        writer.line(self._text)


def publish(item: pytest.Item, report: pytest.TestReport) -> None:
    """Give a report to everybody, as if the test had run here."""
    own = [pair for pair in item.user_properties if pair not in report.user_properties]
    report.user_properties = [*own, *report.user_properties]
    item.ihook.pytest_runtest_logreport(report=report)


def warn(item: pytest.Item, told: Iterable[Mapping[str, Any]]) -> None:
    """Give a child's warnings to everybody, each once."""
    import warnings

    seen = []
    for one in told:
        if one in seen:
            continue
        seen.append(one)
        category = _category(*one["category"])
        message = warnings.WarningMessage(
            category(one["text"]), category, one["filename"], one["lineno"]
        )
        item.config.hook.pytest_warning_recorded.call_historic(
            kwargs={
                "warning_message": message,
                "when": "runtest",
                "nodeid": item.nodeid,
                "location": None,
            }
        )


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
    item: pytest.Item, text: str, when: str = CALL, result: Result | None = None
) -> pytest.TestReport:
    """A failed report that we make ourselves; where the test is expected to fail, that it did."""
    report = pytest.TestReport(
        nodeid=item.nodeid,
        location=item.location,
        keywords=dict.fromkeys(item.keywords, 1),
        outcome="failed",
        longrepr=text,
        when=when,  # type: ignore[arg-type]
        sections=result.leftovers() if result is not None else [],
        duration=result.ended.seconds if result is not None and result.ended else 0.0,
    )
    reason = expected_to_fail(item)
    if reason is not None and (result is None or (result.began and not result.trouble)):
        report.outcome = "skipped"
        report.wasxfail = reason
    return report


def expected_to_fail(item: pytest.Item) -> str | None:
    """The reason of a marker `xfail` that holds for any way to fail, or None.

    Conditions that are text are pytest's to evaluate, in the child; with those, and with
    ``raises=``, a fault of the process is a fault.
    """
    if item.config.getoption("runxfail", False):
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
    """A name's beginning and a folder for the temporary folders of children."""
    given = config.getoption("basetemp", None)
    if given is None:
        return "pytest-fresh-", None
    # Not inside: pytest empties that one when it first uses it.
    path = Path(given).absolute()
    return f"{path.name}-fresh-", path.parent
