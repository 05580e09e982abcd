"""Read result files that somebody names, with one clear sentence for each that cannot be used."""

import os
import stat
from typing import Any

from pytest_nvfp4.results import report as reports
from pytest_nvfp4.verification.provenance import badge_message

MAX_BYTES = 256 * 2**20


def read_text(path: str) -> str:
    """The text of a regular file; ValueError, one sentence, where there is none."""
    try:
        # A FIFO that nobody writes to must not block this.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ValueError(f"{path} is not a regular file")
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise ValueError(f"{path} is larger than {MAX_BYTES >> 20} MiB, so it is no result file")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text: {error.reason} at {error.start}") from None


def read_report(path: str) -> dict[str, Any]:
    """A report that agrees with itself; ValueError, one sentence, for anything else."""
    text = read_text(path)
    if badge_message(text) is not None:
        raise ValueError(f"{path} is a badge; give the report that earned it")
    try:
        data = reports.loads(text)
    except ValueError as error:
        raise ValueError(f"{path} is no report: {error}") from None
    refuse_another_version(path, data)
    problems = reports.inconsistencies(data)
    if problems:
        rest = len(problems) - 1
        more = f" (and {rest} more, which verify lists)" if rest else ""
        raise ValueError(f"{path} is not a report that can be trusted: {problems[0]}{more}")
    assert isinstance(data, dict)
    return data


def refuse_another_version(path: str, data: object) -> None:
    """ValueError, one sentence, for data that does not even call itself a report of this form."""
    version = data.get("report_version") if isinstance(data, dict) else None
    if version is None:
        raise ValueError(f"{path} is no conformance report; it has no member report_version")
    if version is True or version != reports.REPORT_VERSION:  # true equals 1 to Python
        raise ValueError(
            f"{path} has report version {version!r:.40}, but this is a reader of version "
            f"{reports.REPORT_VERSION}; use the pytest-nvfp4 that wrote it"
        )
