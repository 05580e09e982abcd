"""Test reports: expected failures, reports of our own, and reports as data."""

import json
import warnings
from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

import pytest

__all__ = [
    "PlainReport",
    "expect_failure",
    "expected_failure",
    "fail",
    "from_data",
    "is_internal_frame",
    "is_phase",
    "made_report",
    "record_warning",
    "to_data",
]

_ONLY_TEXT = "fresh_process_only_text"
"""Attribute of a report whose explanation was an object of which only the text travels."""


def is_phase(report: pytest.TestReport) -> bool:
    """Whether this is a report of a phase of the test, and not of a subtest.

    Reason: `pytest.SubtestReport` is there from pytest 9.0 only; before, the plugin pytest-subtests
    has a class of its own. Both inherit from `pytest.TestReport`.
    """
    return type(report) is pytest.TestReport


def expected_failure(report: pytest.TestReport) -> str | None:
    """The reason of an expected failure, or of one that did not come; None of other reports.

    Reason: pytest's documented outcomes do not tell these from skipped and passed.
    """
    return getattr(report, "wasxfail", None)


def expect_failure(report: pytest.TestReport, reason: str) -> None:
    """Make a failed report that of an expected failure, as the marker `xfail` does."""
    report.outcome = "skipped"
    report.wasxfail = reason


def made_report(
    item: pytest.Item,
    text: str,
    when: Literal["setup", "call", "teardown"],
    *,
    sections: Iterable[tuple[str, str]] = (),
    duration: float = 0.0,
) -> pytest.TestReport:
    """A failed report of a test that this process did not run; `duration` is in seconds.

    Reason: the documented way, `TestReport.from_item_and_call`, needs an exception and shows where
    it was raised; the parameters of the class are not documented.
    """
    return pytest.TestReport(
        nodeid=item.nodeid,
        location=item.location,
        keywords=dict.fromkeys(item.keywords, 1),
        outcome="failed",
        longrepr=text,
        when=when,
        sections=sections,
        duration=duration,
    )


class PlainReport(NamedTuple):
    """A report as data that JSON holds, and what of it JSON cannot hold."""

    data: dict[str, Any]
    attributes: dict[str, object]
    """Attributes that are left out, other than user properties."""
    properties: list[tuple[str, object]]
    """User properties that are left out."""


def to_data(config: pytest.Config, report: pytest.TestReport) -> PlainReport:
    """A report as data; see `from_data`.

    Reason: the hooks that make data of reports are documented, and not what their data holds.
    """
    data: dict[str, Any] = config.hook.pytest_report_to_serializable(config=config, report=report)
    data[_ONLY_TEXT] = isinstance(data["longrepr"], str) and hasattr(report.longrepr, "toterminal")
    properties = [pair for pair in data["user_properties"] if not _is_json(pair)]
    data["user_properties"] = [pair for pair in data["user_properties"] if _is_json(pair)]
    attributes = {name: value for name, value in data.items() if not _is_json(value)}
    for name in attributes:
        del data[name]
    return PlainReport(data, attributes, properties)


def fail(data: dict[str, Any], text: str) -> None:
    """Make the data of a report that of a failed one."""
    data["outcome"] = "failed"
    data["longrepr"] = text


def from_data(item: pytest.Item, data: dict[str, Any]) -> pytest.TestReport:
    """The report of a test that another process made data of; what JSON made lists are tuples.

    Reason: the same as of `to_data`. And pytest quotes the arguments of a subtest once more each
    time that it reads them (subtests.py:68, from 9.0 on), in an object that is frozen.
    """
    config = item.config
    only_text = data.pop(_ONLY_TEXT, False)
    report: pytest.TestReport = config.hook.pytest_report_from_serializable(
        config=config, data=data
    )
    report.nodeid = item.nodeid  # the other process may have a shorter one
    report.location = item.location
    if isinstance(report.longrepr, list):
        report.longrepr = tuple(report.longrepr)
    elif only_text:
        report.longrepr = _Text(str(report.longrepr))  # type: ignore[assignment]
    if "_subtest.context" in data:
        arguments = data["_subtest.context"]["kwargs"]
        object.__setattr__(report.context, "kwargs", arguments)
    report.sections = [(title, text) for title, text in report.sections]
    report.user_properties = [(name, value) for name, value in report.user_properties]
    return report


def record_warning(item: pytest.Item, message: warnings.WarningMessage) -> None:
    """Give a warning of a test to all plugins.

    Reason: `warnings.warn` would give it this process's place in the source. The hook is historic,
    which pytest's documentation of it does not say, so that pluggy refuses an ordinary call.
    """
    item.config.hook.pytest_warning_recorded.call_historic(
        kwargs={
            "warning_message": message,
            "when": "runtest",
            "nodeid": item.nodeid,
            "location": None,
        }
    )


def is_internal_frame(path: str) -> bool:
    """Whether a file of a traceback is pytest's or pluggy's own.

    Reason: faulthandler writes every frame, and those say nothing about the test.
    """
    return "/_pytest/" in path or "/pluggy/" in path


class _Text:
    """An explanation of which only the text is left; to pytest, not the same as a text."""

    def __init__(self, text: str):
        self._text = text

    def __str__(self) -> str:
        return self._text

    def toterminal(self, writer: Any) -> None:
        """Write it, as pytest's own explanations do."""
        writer.line(self._text)


def _is_json(value: object) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        return False
    return True
