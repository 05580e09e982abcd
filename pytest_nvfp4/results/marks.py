"""How verdicts look: one glyph and one style each, and what of several must be seen first.

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
"""What a whole area is marked with: the first of these that any of its contracts has."""


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


def plain(styled: Iterable[Line]) -> str:
    """The lines without their styles, each ending in one line feed."""
    return "".join("".join(text for text, _ in line) + "\n" for line in styled)
