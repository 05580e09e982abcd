"""Why a product on a card did not happen: one sentence each, and who has to know."""

from ...errors import DeviceError


class UnavailableError(LookupError):
    """This back end cannot run here; the sentence says what is missing and what to do."""


class BuildError(UnavailableError):
    """The kernels could not be built; the compiler's own words are in the notes."""


class LaunchError(RuntimeError):
    """One tactic did not run; the card is as before, and other tactics may well run."""


def first_line(error: BaseException) -> str:
    """What an error says, without the rest of it."""
    return next(iter(str(error).splitlines()), type(error).__name__)


__all__ = ["BuildError", "DeviceError", "LaunchError", "UnavailableError", "first_line"]
