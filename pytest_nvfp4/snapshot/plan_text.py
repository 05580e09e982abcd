"""The canonical text of a test's plan maps: one row for each plan, and no digest or count of rows.

So a changed tactic is one changed line, and two branches that change different plans merge. Only
text that is exactly what `render` writes is read: a conflict marker, a moved row, or a name that is
not the tactic's is an error.
"""

import itertools
import re
from collections.abc import Mapping

from pytest_nvfp4.plans import TACTICS, PlanKey, PlanMap, by_shape, tactic_name

_TITLE = "# plan maps of "
_COLUMNS = f"{'N':>6} {'K':>6} {'M':>5}  tactic"
_ROW = re.compile(r" *([1-9][0-9]{0,17}) +([1-9][0-9]{0,17}) +([1-9][0-9]{0,17})  +([0-9]{1,2}) .*")
_SECTION = re.compile(r"\[(.+)\]")
_CONFLICT = ("<<<<<<<", "=======", ">>>>>>>", "|||||||")
_LONGEST = 60


class TextError(ValueError):
    """Text that is not canonical; the message has the place and the reason, not the file's name."""


def rows(plans: Mapping[PlanKey, int]) -> str:
    """The rows of one map under their columns' names."""
    lines = [_COLUMNS]
    for key in sorted(plans, key=by_shape):
        tactic = plans[key]
        shape = f"{key.n:>6} {key.k:>6} {key.m:>5}"
        lines.append(f"{shape}  {tactic:>2} {tactic_name(tactic)}")
    return "".join(f"{line}\n" for line in lines)


def parse_rows(text: str) -> PlanMap:
    """The map that rows describe; other lines are skipped, and `parse` rejects them."""
    plans = {}
    for line in text.splitlines():
        found = _ROW.fullmatch(line)
        if found and int(found[4]) < len(TACTICS):
            n, k, m, tactic = map(int, found.groups())
            plans[PlanKey(m, n, k)] = tactic
    return PlanMap(plans)


def render(test: str, maps: Mapping[str, PlanMap]) -> str:
    """The text of a test's maps by their labels: numbers first, then names."""
    sections = (f"\n[{label}]\n{rows(maps[label])}" for label in sorted(maps, key=_order))
    return f"{_TITLE}{printable(test)}\n{''.join(sections)}"


def parse(content: bytes, test: str) -> dict[str, PlanMap]:
    """The maps of a test by label; TextError for text that `render` does not write for it."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise TextError(f"byte {error.start + 1} is not UTF-8") from None
    title, *lines = text.split("\n")
    if title.startswith(_TITLE) and title != f"{_TITLE}{printable(test)}":
        owner = title.removeprefix(_TITLE)
        raise TextError(f"it belongs to {_shown(owner)}, not to {_shown(printable(test))}")
    sections: dict[str, list[str]] = {}
    label = None
    for line in lines:
        found = _SECTION.fullmatch(line)
        if found:
            label = found[1]
            sections.setdefault(label, [])
        elif label is not None:
            sections[label].append(line)
    maps = {label: parse_rows("\n".join(content)) for label, content in sections.items()}
    canonical = render(test, maps)
    if canonical != text:
        raise TextError(_first_difference(text, canonical))
    return maps


def printable(text: str) -> str:
    """The text on one line, with escapes for what cannot be seen."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in text
    )


def _order(label: str) -> tuple[bool, int, str]:
    number = label.isdecimal()
    return not number, len(label) if number else 0, label


def _first_difference(text: str, canonical: str) -> str:
    pairs = itertools.zip_longest(text.split("\n"), canonical.split("\n"))
    number, (line, wanted) = next(
        (number, pair) for number, pair in enumerate(pairs, 1) if pair[0] != pair[1]
    )
    if line is None:
        return f"it ends before line {number}"
    if line.startswith(_CONFLICT):
        return f"line {number} is a merge conflict"
    if wanted is None:
        return f"line {number} is {_shown(line)!r}, after the end"
    return f"line {number} is {_shown(line)!r}, not {_shown(wanted)!r}"


def _shown(line: str) -> str:
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"
