"""How verdicts look: one glyph and one style each, and the order of their urgency.

A segment is a text with the markup names of pytest's terminal writer, as in
`("9/9", {"green": True})`. Symbols, words and counts carry the meaning; colour only repeats it.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from pytest_nvfp4.results.verdicts import Verdict

Segment = tuple[str, dict[str, bool]]
Line = list[Segment]

STYLE: Mapping[Verdict, dict[str, bool]] = {
    Verdict.ERROR: {"red": True, "bold": True},
    Verdict.FAILED: {"red": True, "bold": True},
    Verdict.KNOWN_DEVIATION: {"yellow": True, "bold": True},
    Verdict.SKIPPED: {"yellow": True},
    Verdict.PASSED: {"green": True},
    Verdict.NOT_CLAIMED: {"light": True},
}

URGENCY = (
    Verdict.ERROR,
    Verdict.FAILED,
    Verdict.KNOWN_DEVIATION,
    Verdict.SKIPPED,
    Verdict.PASSED,
    Verdict.NOT_CLAIMED,
)
"""An area is marked with the first of these that any of its contracts has."""


_NOUNS = (Verdict.ERROR, Verdict.KNOWN_DEVIATION)
"""The verdicts whose words take a plural."""


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The few characters beyond letters that a table is drawn with."""

    marks: Mapping[Verdict, str]
    none: str
    dot: str
    ellipsis: str
    rule: str


UNICODE = Glyphs(dict(zip(URGENCY, "!✗≈○✓-", strict=True)), "·", "·", "…", "─")
ASCII = Glyphs(dict(zip(URGENCY, "!x~o+-", strict=True)), ".", "-", "...", "-")


def worst(verdicts: Collection[Verdict]) -> Verdict:
    """The most urgent of some verdicts; "not claimed" of none."""
    return next((verdict for verdict in URGENCY if verdict in verdicts), Verdict.NOT_CLAIMED)


def in_words(number: int, verdict: Verdict) -> str:
    """How many there are of a verdict, such as "2 errors" or "2 passed"."""
    return f"{number} {verdict.words}{'s' if number != 1 and verdict in _NOUNS else ''}"


def plain(styled: Iterable[Line]) -> str:
    """The lines without their styles, each ending in one line feed."""
    return "".join("".join(text for text, _ in line) + "\n" for line in styled)


_ANSI = {"bold": 1, "light": 2, "red": 31, "green": 32, "yellow": 33, "blue": 34, "cyan": 36}


def painted(line: Line) -> str:
    """A line for a terminal that shows colours."""
    return "".join(_painted(text, style) for text, style in line)


def _painted(text: str, style: Mapping[str, bool]) -> str:
    codes = ";".join(str(_ANSI[name]) for name, on in style.items() if on)
    return f"\x1b[{codes}m{text}\x1b[0m" if codes and text.strip() else text
