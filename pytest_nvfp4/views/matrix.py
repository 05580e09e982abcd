"""A comparison in the terminal: contracts by implementations, as lines of styled segments."""

from collections.abc import Iterator
from dataclasses import dataclass

from pytest_nvfp4.results.verdicts import Verdict
from pytest_nvfp4.text import clip, counted, pad, visible, wrap
from pytest_nvfp4.views.comparison import AreaRows, Comparison, Row
from pytest_nvfp4.views.marks import ASCII, STYLE, UNICODE, URGENCY, Glyphs, Line, Segment, worst

_CELL = 7
"""Columns for one implementation: a count such as 104/105, or a glyph."""

_HEAD = 8
"""Columns before the text of a row: a glyph and the area's id."""

_SHORTEST = 12
"""Columns below which a contract's text is not worth showing."""


def lines(
    comparison: Comparison,
    *,
    width: int | None = None,
    ascii_only: bool = False,
    everything: bool = False,
) -> Iterator[Line]:
    """The matrix for a terminal of `width` columns or, with None, for a log.

    A terminal of fewer than 80 columns counts as one of 80. In a log lines are wrapped at 80
    columns and nothing is cut. Contracts that passed wherever they are claimed are left to their
    area's line, unless `everything`.
    """
    glyphs = ASCII if ascii_only else UNICODE
    matrix = _Matrix(max(width or 80, 80), glyphs, ascii_only, everything, width is not None)
    return matrix.lines(comparison)


@dataclass(frozen=True, slots=True)
class _Matrix:
    width: int
    glyphs: Glyphs
    ascii_only: bool
    everything: bool
    cuts: bool

    def lines(self, comparison: Comparison) -> Iterator[Line]:
        for column in comparison.columns:
            own = column.report["implementation"]
            label = self._visible(column.label)
            who = self._visible(f"{own['name']} {own['version']} ({own['language']})")
            text = who if who.startswith(label) else f"{label}: {who}"
            for index, part in enumerate(self._fitted(text, self.width - 3)):
                yield [("   " if index else f"{column.letter}  ", {"bold": True}), (part, {})]
            message = column.badge.message.replace("·", self.glyphs.dot)
            for part in self._fitted(message, self.width - 3):
                yield [(f"   {part}", {"light": True})]
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
                    yield from self._row(row, comparison)
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

    def _row(self, row: Row, comparison: Comparison) -> Iterator[Line]:
        contract = row.contract
        name = f"    {contract.id:<8}{contract.level.upper():<7}"
        room = self._start(comparison) - len(name)
        text, *rest = self._fitted(contract.text, room - 1) if room > _SHORTEST else [""]
        line: Line = [(name, {}), (pad(text, max(room, 0)), {"light": True})]
        for verdict in row.verdicts:
            if verdict is None:
                line.append((f"{self.glyphs.none:>{_CELL}}", {"light": True}))
            else:
                line.append((f"{self.glyphs.marks[verdict]:>{_CELL}}", STYLE[verdict]))
        yield line
        yield from ([(" " * len(name) + text, {"light": True})] for text in rest)

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

    def _fitted(self, text: str, width: int) -> list[str]:
        """A text in lines of `width` columns: one, which is cut, on a terminal."""
        clean = self._visible(text)
        if self.cuts:
            return [clip(clean, width, self.glyphs.ellipsis)]
        return list(wrap(clean, width)) or [""]


def _summary(comparison: Comparison, hidden: int) -> str:
    rows = comparison.rows
    parts = [counted(len(rows), "contract")]
    if len(comparison.columns) > 1:
        parts.append(f"{sum(row.differs for row in rows)} with different verdicts")
    if hidden:
        they, are, them = ("it", "is", "it") if hidden == 1 else ("they", "are", "them")
        parts.append(
            f"{hidden} that passed wherever {they} {are} claimed {are} left out "
            f"(--all shows {them})"
        )
    return "; ".join(parts) + "."
