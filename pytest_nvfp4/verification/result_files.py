"""Reports and badges as files that a user names: read, with one sentence where that fails."""

import os
import stat
from typing import Any

from pytest_nvfp4.errors import UsageError
from pytest_nvfp4.results import report as reports
from pytest_nvfp4.views import badge

__all__ = ["parse_report", "read_report", "read_text"]

_MAX_BYTES = 256 * 2**20


def read_report(path: str) -> dict[str, Any]:
    """The JSON data of a report that agrees with itself; UsageError for any other file."""
    text = read_text(path)
    if badge.message_of(text) is not None:
        raise UsageError(f"{path} is a badge; give the report that earned it")
    data = parse_report(path, text)
    problems = reports.inconsistencies(data)
    if problems:
        rest = len(problems) - 1
        more = f" (and {rest} more, which verify lists)" if rest else ""
        raise UsageError(f"{path} is not a report that can be trusted: {problems[0]}{more}")
    return data


def parse_report(path: str, text: str) -> dict[str, Any]:
    """A file's text as JSON data that calls itself a report of this form, consistent or not.

    UsageError, with the path, for any other text.
    """
    try:
        data = reports.loads(text)
    except UsageError as error:
        raise UsageError(f"{path} is no report: {error}") from None
    version = data.get("report_version") if isinstance(data, dict) else None
    if version is None:
        raise UsageError(f"{path} is no conformance report; it has no member report_version")
    if version is True or version != reports.REPORT_VERSION:  # true equals 1 to Python
        raise UsageError(
            f"{path} has report version {version!r:.40}, but this is a reader of version "
            f"{reports.REPORT_VERSION}; use the pytest-nvfp4 that wrote it"
        )
    assert isinstance(data, dict)
    return data


def read_text(path: str) -> str:
    """The text of a regular file of UTF-8; UsageError where there is none."""
    try:
        # A FIFO without a writer must not block this.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise UsageError(f"{path} is not a regular file")
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    if len(data) > _MAX_BYTES:
        raise UsageError(f"{path} is larger than {_MAX_BYTES >> 20} MiB, so it is no result file")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text: {error.reason} at {error.start}") from None
