"""The one exception with which the reference says no.

A rejection is an answer and not an accident: a document, an option, a publication or a lookup was
refused for a stated reason. Anything else that is raised here (`TypeError`, `ValueError`) is a
mistake in the calling code.
"""

from typing import Literal

Code = Literal[
    "not-regular",
    "unreadable",
    "too-large",
    "encoding",
    "syntax",
    "shape",
    "duplicate-member",
    "missing-field",
    "wrong-type",
    "unknown-format",
    "foreign-environment",
    "indeterminate-environment",
    "bad-plan",
    "unknown-runner",
    "unknown-tactic",
    "duplicate-plan",
    "configuration",
    "publication",
    "lifecycle",
    "frozen-miss",
    "capture-miss",
    "no-valid-tactic",
]


class Rejected(Exception):  # noqa: N818 - it is an answer, not a fault
    """The reference refuses a document, an option, a publication or a lookup as a whole.

    `code` is the kind of reason; `member` names the offending place: a member such as
    `plans[3].tactic_id`, an environment variable, a path, a session or a shape "M,N,K", and ""
    for the document as a whole. `str()` is one sentence: what was wrong, where, what to do.
    """

    def __init__(self, code: Code, member: str, message: str) -> None:
        super().__init__(code, member, message)
        self.code: Code = code
        self.member = member
        self.message = message

    def __str__(self) -> str:
        return self.message


class NestedTuningError(RuntimeError):
    """A timer asked for a plan while it was being used to tune one; it could wait for itself."""


class DeviceError(RuntimeError):
    """This process can no longer use its device: no fault of one tactic, so it ends the tuning."""
