"""The errors that an adapter raises.

`Rejected` repeats the name and the attributes of the reference's class because the adapter
interface recognizes a rejection by its attributes; the two packages do not import each other.
"""


class Rejected(Exception):  # noqa: N818 - a rejection is an answer of the implementation
    """The implementation refuses a document, an option or a call.

    `code` and `member` are words of the adapter interface; the text is the implementation's own.
    """

    def __init__(self, code: str, member: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.member = member


class MissingImplementationError(Exception):
    """The implementation is not installed here, or in a version that the adapter does not know."""


class ImplementationError(Exception):
    """The implementation raised an error that its documentation does not promise."""


class BlockedRequestError(Exception):
    """A request or a load waited for a tuning of another plan."""
