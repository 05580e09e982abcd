"""A scripted timer: tuning without a device, with given times and faults.

A script is JSON: {"tactic id": value, ..., "default": value}. A value is the microseconds of one
run, or "raise", "nan", "inf" or "-inf". A tactic without a value has the default value, or 100.
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
    """The script has "raise" for this tactic."""


@dataclass(frozen=True, slots=True)
class Script:
    """A source of scripted timers, with one timing per tactic, the same for every product."""

    timings: tuple[Timing, ...]

    @classmethod
    def from_json(cls, value: object) -> Self:
        """Read a script from a JSON value; `TypeError` if it is not an object, else `ValueError`.

        Each id has one spelling, since "5" and "05" could contradict each other.
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
    """Adds scripted times. A mark is the number of runs before it.

    Times are added as fractions, so that times that differ in the last bit stay different.
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
        """Does nothing, since no work is queued."""

    def delay(self, microseconds: int) -> None:
        """Does nothing, since only runs take time."""

    def event(self) -> int:
        """The number of runs so far."""
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
