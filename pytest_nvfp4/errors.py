"""The one error that is shown to a user as a sentence."""


class UsageError(ValueError):
    """A mistake in the call or in a file that the user named.

    The text is one sentence: what is wrong, where, and what to do. The command line prints it and
    ends with exit status 4; every other exception is a defect of this package and keeps its
    traceback.
    """
