"""What one case leaves behind: its verdict, and what reproduces it where it failed."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from pytest_nvfp4.implementations.messages import ReportedError, SubjectError, UnsupportedError
from pytest_nvfp4.results.verdicts import Verdict

_MAX_REQUESTS = 50


@dataclass(slots=True)
class Record:
    """The last document and the last requests of a running case, kept for a reproducer."""

    document: bytes | None = None
    requests: list[dict[str, Any]] = field(default_factory=list)

    def keep_document(self, data: bytes) -> None:
        """Remember the document that is put before the subject now."""
        self.document = data

    def keep_request(self, request: dict[str, Any]) -> None:
        """Remember a request; of very many, only the latest."""
        if len(self.requests) == _MAX_REQUESTS:
            del self.requests[0]
        self.requests.append(request)

    @property
    def numbered_requests(self) -> list[dict[str, Any]]:
        """The requests as an executable adapter would be sent them."""
        return [{"seq": number, **request} for number, request in enumerate(self.requests, 1)]


def classify(call: "pytest.CallInfo[None]") -> tuple[Verdict, str]:
    """The verdict of one phase of a case, and the sentence that explains it.

    An assertion is about the contract, and so is an operation that breaks where it has to answer or
    reject. Anything else that is raised means that no verdict could be reached.
    """
    if call.excinfo is None:
        return Verdict.PASSED, ""
    error = call.excinfo.value
    if isinstance(error, pytest.skip.Exception):
        return Verdict.SKIPPED, str(error)
    if call.when == "call" and isinstance(error, AssertionError | pytest.fail.Exception):
        return Verdict.FAILED, first_line(error)
    if isinstance(error, ReportedError) and not isinstance(error, UnsupportedError):
        return Verdict.FAILED, f"it broke where it had to answer: {error}"
    if isinstance(error, SubjectError):
        return Verdict.ERROR, str(error)
    return Verdict.ERROR, f"{type(error).__name__}: {first_line(error)}"


def first_line(error: BaseException) -> str:
    """The first line of an exception's text: an assertion's own sentence, or what it compared."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
