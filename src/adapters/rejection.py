"""An implementation's own no, as the adapter interface wants it."""


class Rejected(Exception):  # noqa: N818 - it is an answer, not a fault
    """`code` and `member` are the interface's words, the text is what the implementation said."""

    def __init__(self, code: str, member: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.member = member


class NotHereError(Exception):
    """What is to be adapted is not there, or is something else than the adapter knows."""
