"""A comparison in the terminal: contracts by implementations, as lines of styled segments."""

from collections.abc import Iterator
from dataclasses import dataclass

from pytest_nvfp4.results.verdicts import Verdict
from pytest_nvfp4.text import clip, pad, visible, wrap
from pytest_nvfp4.views.comparison import AreaRows, Comparison, Row
from pytest_nvfp4.views.marks import ASCII, STYLE, UNICODE, URGENCY, Glyphs, Line, Segment, worst

_CELL = 7
"""Columns for one implementation: a count such as 104/105, or a glyph."""

_HEAD = 8
"""Columns before the text of a row: a glyph and the area's id."""

_SHORTEST = 12
"""Columns below which a contract's text is not worth showing."""


def lines(
    comparison: Comparison, *, width: int = 80, ascii_only: bool = False, everything: bool = False
) -> Iterator[Line]:
    """The matrix for a terminal of `width` columns, which counts as 80 where it has fewer.

    Contracts that passed wherever they are claimed are left to their area's line, unless
    `everything`.
    """
    matrix = _Matrix(max(width, 80), ASCII if ascii_only else UNICODE, ascii_only, everything)
    return matrix.lines(comparison)


@dataclass(frozen=True, slots=True)
class _Matrix:
    width: int
    glyphs: Glyphs
    ascii_only: bool
    everything: bool

    def lines(self, comparison: Comparison) -> Iterator[Line]:
        for column in comparison.columns:
            own = column.report["implementation"]
            label = self._visible(column.label)
            who = self._visible(f"{own['name']} {own['version']} ({own['language']})")
            text = who if who.startswith(label) else f"{label}: {who}"
            yield [(f"{column.letter}  ", {"bold": True}), (self._clip(text, 3), {})]
            message = column.badge.message.replace("·", self.glyphs.dot)
            yield [(self._clip(f"   {message}"), {"light": True})]
        for note in comparison.notes:
            yield from self._wrapped(note)
        yield []
        yield [
            (" " * self._start(comparison), {}),
            ("".join(f"{column.letter:>{_CELL}}" for column in comparison.columns), {"bold": True}),
        ]
        hidden = 0
        for area in comparison.areas:
            yield self._area(area, comparison)
            for row in area.rows:
                if self.everything or not row.quiet:
                    yield self._row(row, comparison)
                else:
                    hidden += 1
        yield []
        yield from self._legend(comparison)
        yield from self._wrapped(_summary(comparison, hidden))

    def _start(self, comparison: Comparison) -> int:
        return self.width - _CELL * len(comparison.columns)

    def _area(self, area: AreaRows, comparison: Comparison) -> Line:
        verdicts = [v for row in area.rows for v in row.verdicts if v is not None]
        room = self._start(comparison) - _HEAD
        return [
            (self.glyphs.marks[worst(verdicts)] + " ", STYLE[worst(verdicts)]),
            (f"{area.id:<6}", {"bold": True}),
            (pad(clip(area.title, room, self.glyphs.ellipsis), room), {}),
            *(self._counts(area, index) for index in range(len(comparison.columns))),
        ]

    def _counts(self, area: AreaRows, column: int) -> Segment:
        verdicts = [v for row in area.rows if (v := row.verdicts[column]) is not None]
        passed, claimed = area.counts(column)
        if not claimed:
            mark = self.glyphs.marks[Verdict.NOT_CLAIMED] if verdicts else self.glyphs.none
            return (f"{mark:>{_CELL}}", {"light": True})
        return (f"{f'{passed}/{claimed}':>{_CELL}}", STYLE[worst(verdicts)])

    def _row(self, row: Row, comparison: Comparison) -> Line:
        contract = row.contract
        name = f"    {contract.id:<8}{contract.level.upper():<7}"
        room = self._start(comparison) - len(name)
        text = self._clip_to(contract.text, room - 1) if room > _SHORTEST else ""
        line: Line = [(name, {}), (pad(text, max(room, 0)), {"light": True})]
        for verdict in row.verdicts:
            if verdict is None:
                line.append((f"{self.glyphs.none:>{_CELL}}", {"light": True}))
            else:
                line.append((f"{self.glyphs.marks[verdict]:>{_CELL}}", STYLE[verdict]))
        return line

    def _legend(self, comparison: Comparison) -> Iterator[Line]:
        seen = {verdict for row in comparison.rows for verdict in row.verdicts}
        parts: list[Segment] = [
            (f"{self.glyphs.marks[verdict]} {verdict.words}", STYLE[verdict])
            for verdict in URGENCY
            if verdict in seen
        ]
        if None in seen:
            parts.append((f"{self.glyphs.none} not in the run", {"light": True}))
        if parts:
            line: Line = []
            for part in parts:
                line += [("   ", {}), part] if line else [part]
            yield line

    def _wrapped(self, sentence: str) -> Iterator[Line]:
        for line in wrap(self._visible(sentence), self.width):
            yield [(line, {})]

    def _visible(self, text: str) -> str:
        return visible(text, ascii_only=self.ascii_only)

    def _clip(self, text: str, used: int = 0) -> str:
        return self._clip_to(text, self.width - used, strip=False)

    def _clip_to(self, text: str, width: int, *, strip: bool = True) -> str:
        clean = self._visible(text)
        indent = "" if strip else text[: len(text) - len(text.lstrip())]
        return clip(indent + clean, width, self.glyphs.ellipsis)


def _summary(comparison: Comparison, hidden: int) -> str:
    rows = comparison.rows
    parts = [f"{len(rows)} contracts"]
    if len(comparison.columns) > 1:
        parts.append(f"{sum(row.differs for row in rows)} with different verdicts")
    if hidden:
        parts.append(
            f"{hidden} that passed wherever they are claimed are left out (--all shows them)"
        )
    return "; ".join(parts) + "."
