"""A timer that plays a script: tuning without a device, with the times and faults one wants.

A script is JSON: {"tactic id": value, ..., "default": value}. A value is the microseconds of one
run, or "raise", "nan", "inf", "-inf". A tactic that is not named takes the default, or 100.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Self

from .members import shown
from .profiling import Microseconds
from .tactics import TACTIC_IDS

DEFAULT_MICROSECONDS = 100

_KEYS = {str(tactic): tactic for tactic in TACTIC_IDS}
_WORDS = ("raise", "nan", "inf", "-inf")

Timing = int | float | str


class ScriptedError(RuntimeError):
    """The script says that this tactic raises."""


@dataclass(frozen=True, slots=True)
class Script:
    """The back end of a script: the same times for every product; one timing for each tactic."""

    timings: tuple[Timing, ...]

    @classmethod
    def from_json(cls, value: object) -> Self:
        """Take a script from JSON. A malformed one is a ValueError, or a TypeError if no object.

        Ids have one spelling each: "5" and "05" could contradict each other.
        """
        if not isinstance(value, dict):
            raise TypeError(f"timings is {shown(value)}; give an object of tactic ids, or null.")
        for key, timing in value.items():
            if key != "default" and key not in _KEYS:
                raise ValueError(
                    f"timings has the key {shown(key)}; "
                    'name a tactic from "0" to "31", or "default".'
                )
            if not _is_timing(timing):
                raise ValueError(
                    f"timings[{shown(key)}] is {shown(timing)}; "
                    'give finite microseconds, or "raise", "nan", "inf" or "-inf".'
                )
        timings: dict[str, Timing] = value
        default = timings.get("default", DEFAULT_MICROSECONDS)
        return cls(tuple(timings.get(key, default) for key in _KEYS))

    def timer(self, m: int, n: int, k: int) -> "ScriptedTimer":
        """A timer for any product."""
        return ScriptedTimer(self.timings)


class ScriptedTimer:
    """Adds up scripted times. A mark is how many runs came before it.

    Times are added as fractions, so that two that differ in their last bit stay different.
    """

    def __init__(self, timings: tuple[Timing, ...]) -> None:
        self._timings = timings
        self._runs: list[int | float] = []

    def run(self, tactic: int) -> None:
        """Add the tactic's time, or raise."""
        timing = self._timings[tactic]
        if timing == "raise":
            raise ScriptedError(f"the script says that tactic {tactic} raises.")
        self._runs.append(float(timing) if isinstance(timing, str) else timing)

    def synchronize(self) -> None:
        """Nothing is ever queued."""

    def delay(self, microseconds: int) -> None:
        """No time passes outside of runs."""

    def event(self) -> int:
        """The place in the sequence of runs."""
        return len(self._runs)

    def elapsed_microseconds(self, start: int, end: int) -> Microseconds:
        """The sum of the runs between two marks."""
        total = Fraction()
        for timing in self._runs[start:end]:
            if not _is_finite(timing):
                return float(timing)
            total += Fraction(timing)
        return total


def _is_timing(value: object) -> bool:
    if isinstance(value, str):
        return value in _WORDS
    return isinstance(value, int | float) and not isinstance(value, bool) and _is_finite(value)


def _is_finite(value: int | float) -> bool:
    return isinstance(value, int) or math.isfinite(value)
