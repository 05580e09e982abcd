"""The badge: one line that says which profile a report earns, for a README or a web page.

Two forms of the same badge: the JSON of a shields.io endpoint, and a drawing that needs nothing
but itself. The colour repeats what the counts and the symbol say, so it need not be seen.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape, unescape
from pathlib import Path
from typing import Any

from pytest_nvfp4.errors import UsageError
from pytest_nvfp4.results import report as reports
from pytest_nvfp4.results.files import publish
from pytest_nvfp4.results.profile import Claim, earned
from pytest_nvfp4.results.verdicts import ContractResult, Verdict
from pytest_nvfp4.text import columns, visible

LABEL = "nvfp4 plan cache"

COLOURS = {
    "green": "#1a7f37",  # every MUST and SHOULD passed
    "yellowgreen": "#58720f",  # every MUST passed
    "yellow": "#8a6100",  # nothing is known to be wrong, but a MUST was skipped
    "orange": "#b34700",  # a known deviation
    "red": "#c9242f",  # a MUST failed, or the suite did
    "blue": "#0b63c5",  # everything that is claimed passed, but it makes no profile
    "lightgrey": "#656d76",  # nothing can be said
}
"""shields.io's names, and the tones drawn here, on which white text has a contrast above 4.5."""

_SYMBOLS = {
    "green": "M1 5.5 4 8.5 9.5 2",
    "yellowgreen": "M1 5.5 4 8.5 9.5 2",
    "yellow": "M1 5.3H9.5",
    "orange": "M5.2 1V6M5.2 8.8V9",
    "red": "M1.5 1.5 9 9M9 1.5 1.5 9",
    "blue": "M1 5.5 4 8.5 9.5 2",
    "lightgrey": "M1 5.3H9.5",
}
"""Strokes in a 10.5 square: a check, a dash, an exclamation mark, a cross."""


@dataclass(frozen=True, slots=True)
class Badge:
    """What a badge says; `colour` is a name in `COLOURS`, `is_error` that it makes no claim."""

    message: str
    colour: str
    is_error: bool = False
    label: str = LABEL


def from_report(report: Mapping[str, Any]) -> Badge:
    """The badge that a report earns; ValueError if the report does not verify."""
    problems = reports.verify(report)
    if problems:
        raise ValueError(f"A badge needs a report that verifies: {problems[0]}")
    return of(
        reports.contract_results(report),
        complete=report["run"]["complete"],
        version=report["suite"]["specification_version"],
    )


def of(results: Sequence[ContractResult], *, complete: bool, version: str) -> Badge:
    """The badge that results earn under a version of the specification.

    `complete` says that every contract was selected and that the run ended normally; without it,
    and where nothing ran, the badge makes no claim.
    """
    claim = earned(results)
    silent = None
    if not results:
        silent = "empty run"
    elif not complete:
        silent = "partial run"
    elif not claim.areas:
        silent = "nothing claimed"
    elif claim.must.skipped + claim.should.skipped == claim.must.total + claim.should.total:
        silent = "everything skipped"
    if silent:
        return Badge(f"{silent} · v{version}", "lightgrey", is_error=True)
    return Badge(claim.words(version), _colour(claim))


def _colour(claim: Claim) -> str:
    if claim.must.failed or claim.has(Verdict.ERROR):
        return "red"
    if claim.has(Verdict.KNOWN_DEVIATION):
        return "orange"
    if claim.must.skipped:
        return "yellow"
    if claim.should.passed < claim.should.total:
        return "yellowgreen"
    return "green" if claim.profile else "blue"


def form(path: Path) -> str:
    """The form that a file name asks for, "svg" or "json"; UsageError for any other suffix.

    Call it before the run, so that a typing mistake does not cost one.
    """
    if path.suffix.lower() in (".svg", ".json"):
        return path.suffix[1:].lower()
    raise UsageError(f"The badge {str(path)!r} must end in .svg or .json; give one of these names.")


def write(path: Path, badge: Badge) -> None:
    """Write the badge in the form that the file name asks for, in one step."""
    text = svg(badge) if form(path) == "svg" else endpoint(badge)
    publish(path, text.encode("utf-8"))


def endpoint(badge: Badge) -> str:
    """The badge as the JSON of a shields.io endpoint, ending in one line feed."""
    data: dict[str, Any] = {
        "schemaVersion": 1,
        "label": badge.label,
        "message": badge.message,
        "color": badge.colour,
    }
    if badge.is_error:
        data["isError"] = True
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def svg(badge: Badge) -> str:
    """The badge as a self-contained SVG, ending in one line feed.

    It has no ids and no style sheet, so several fit into one page, and an edge that shows on a
    light page as on a dark one. Each text states its length, so that it fills its half in
    whatever font the reader has.
    """
    label, message = visible(badge.label), visible(badge.message)
    name = escape(f"{label}: {message}")
    first, second = text_width(label), text_width(message)
    left, right = first + 20, second + 36
    full = left + right
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" width="{full}" height="22" \
viewBox="0 0 {full} 22" role="img" aria-label="{name}">
  <title>{name}</title>
  <path fill="#32383f" d="M4 0H{left}V22H4a4 4 0 0 1-4-4V4a4 4 0 0 1 4-4z"/>
  <path fill="{COLOURS[badge.colour]}" \
d="M{left} 0H{full - 4}a4 4 0 0 1 4 4V18a4 4 0 0 1-4 4H{left}z"/>
  <rect x=".5" y=".5" width="{full - 1}" height="21" rx="3.5" fill="none" \
stroke="#9aa4af" stroke-opacity=".45"/>
  <path transform="translate({left + 9} 5.8)" d="{_SYMBOLS[badge.colour]}" fill="none" \
stroke="#fff" stroke-width="1.8" stroke-linecap="round" stroke-linejoin="round"/>
  <g fill="#fff" font-family="Verdana,DejaVu Sans,Geneva,sans-serif" font-size="11">
    <text x="10" y="15" textLength="{first}" lengthAdjust="spacingAndGlyphs">{escape(label)}</text>
    <text x="{left + 26}" y="15" textLength="{second}" \
lengthAdjust="spacingAndGlyphs">{escape(message)}</text>
  </g>
</svg>
"""


def message_of(text: str) -> str | None:
    """The label and message of a badge in either form, `label: message`; None of any other text."""
    if text.startswith("<svg"):
        found = re.search(r'aria-label="([^"]*)"', text)
        return unescape(found[1]) if found else None
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict) or "schemaVersion" not in data:
        return None
    return f"{data.get('label')}: {data.get('message')}"


# Advance widths of Verdana, in 1/2048 of the font size, by character.
_ADVANCES = {
    char: width
    for width, chars in (
        (550, "'"),
        (562, "il"),
        (705, "j"),
        (720, " f·"),
        (745, ",."),
        (807, "t"),
        (862, "I"),
        (874, "r"),
        (930, "!()-/:;[\\]|J"),
        (1067, "cs"),
        (1076, "z"),
        (1140, "L"),
        (1212, "kvxy"),
        (1230, "ae"),
        (1276, "bdgpqo"),
        (1296, "hnu"),
        (1302, "$*0123456789_`"),
        (1177, "F"),
        (1235, "P"),
        (1260, "TY"),
        (1295, "E"),
        (1300, "{}"),
        (1400, "ABSVXZ"),
        (1419, "KCR"),
        (1499, "U"),
        (1560, "DHNGOQ"),
        (1676, "#+<=>^~w"),
        (1726, "M&"),
        (1992, "m"),
        (2040, "W@%"),
    )
    for char in chars
}


def text_width(text: str) -> int:
    """The estimated width of text in 11-pixel Verdana, in pixels; wide characters count double."""
    advances = (_ADVANCES.get(char, 1280 * columns(char)) for char in text)
    return max(1, round(sum(advances) * 11 / 2048))
