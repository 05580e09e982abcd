"""The errors of the reference.

`Rejected` is an answer: a document, an option, a publication or a lookup is refused for a stated
reason. `TypeError` and `ValueError` are mistakes of the calling code. The other classes are faults
of a device or of an installation.
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


class Rejected(Exception):  # noqa: N818 - a rejection is an answer, not a fault
    """The reference refuses a document, an option, a publication or a lookup as a whole.

    `code` is the kind of reason. `member` names the place that is wrong: a member such as
    `plans[3].tactic_id`, an environment variable, a path, a session, a shape "M,N,K", or "" for
    the whole document. `str()` is one sentence: what is wrong, where, and what to do.
    """

    def __init__(self, code: Code, member: str, message: str) -> None:
        super().__init__(code, member, message)
        self.code: Code = code
        self.member = member
        self.message = message

    def __str__(self) -> str:
        return self.message


class NestedTuningError(RuntimeError):
    """A timer asked for a plan while a tuning was using it, where it could wait for itself."""


class DeviceError(RuntimeError):
    """This process can no longer use its device. The fault is not one tactic's; the tuning ends."""


class LaunchError(RuntimeError):
    """One tactic did not run. The device still works, so other tactics can run."""


class UnavailableError(LookupError):
    """A back end cannot run here; the sentence says what is missing and what to do."""


class BuildError(UnavailableError):
    """The kernels could not be built; the notes of the error hold the compiler's output."""


def first_line(error: BaseException) -> str:
    """The first line of an error's text, or the name of its type where it has no text."""
    return next(iter(str(error).splitlines()), type(error).__name__)
