"""The terminal summary of a conformance run, as lines of styled segments."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from pytest_nvfp4.results.report import Implementation, Run
from pytest_nvfp4.results.verdicts import (
    IN_PROCESS,
    JSON_LINES,
    NO_TRANSPORT,
    CaseResult,
    ContractResult,
    Verdict,
    count,
)
from pytest_nvfp4.specification.contracts import LEVELS, Specification
from pytest_nvfp4.text import clip, columns, counted, pad, visible, wrap
from pytest_nvfp4.views import badge
from pytest_nvfp4.views.marks import (
    ASCII,
    STYLE,
    UNICODE,
    URGENCY,
    Glyphs,
    Line,
    Segment,
    in_words,
    worst,
)

_CASES_SHOWN = 5
_MESSAGE_LINES = 6
"""A longer message is cut: the report has all of it."""

_TITLE = 22
_CELLS = (7, 8, 9, 8)
"""Columns of the four counts: MUST and SHOULD in process, then over JSON lines."""

_BADGE = {"green": {"green": True}, "blue": {"blue": True}, "red": {"red": True}}
"""The terminal's name of a badge's colour, where that is not yellow."""


def lines(
    specification: Specification,
    results: Sequence[ContractResult],
    *,
    implementation: Implementation,
    run: Run,
    width: int | None = None,
    ascii_only: bool = False,
) -> list[Line]:
    """The whole summary, for a terminal of `width` columns or, with None, for a log.

    A terminal of fewer than 80 columns counts as one of 80. No line is wider, except that the path
    of a reproducer stays whole; long descriptions are cut, instructions are not. In a log lines are
    wrapped at 80 columns and nothing is cut. `ascii_only` draws with ASCII and escapes everything
    else, for a terminal that cannot show more.
    """
    glyphs = ASCII if ascii_only else UNICODE
    table = _Table(max(width or 80, 80), glyphs, ascii_only=ascii_only, cuts=width is not None)
    return list(table.lines(specification, results, implementation, run))


@dataclass(frozen=True, slots=True)
class _Table:
    width: int
    glyphs: Glyphs
    ascii_only: bool
    cuts: bool

    def lines(
        self,
        specification: Specification,
        results: Sequence[ContractResult],
        implementation: Implementation,
        run: Run,
    ) -> Iterator[Line]:
        own = implementation
        subject = f"{own.name} {own.version} ({own.language})"
        yield from self._text(f"{subject} against specification {specification.version}", _bold())
        yield []
        yield from self._head()
        for area in specification.areas:
            part = [result for result in results if result.contract.area == area.id]
            if part:
                yield from self._row(area.id, area.title, part, notes=True)
        yield [(self.glyphs.rule * (8 + _TITLE + sum(_CELLS)), {})]
        number = counted(len(results), "contract")
        yield from self._row("all", number, results, notes=False)
        yield []
        yield from self._counts(specification, results, run)
        yield from self._skipped(results)
        yield from self._brief("Known deviations", results, Verdict.KNOWN_DEVIATION)
        yield from self._failures(results)

    def _head(self) -> Iterator[Line]:
        start = " " * (8 + _TITLE)
        names = "".join(
            f"{transport:>{first + second}}"
            for transport, first, second in ((IN_PROCESS, *_CELLS[:2]), (JSON_LINES, *_CELLS[2:]))
        )
        yield [(start + names, {"light": True})]
        levels = [f"{LEVELS[index % 2].upper():>{cell}}" for index, cell in enumerate(_CELLS)]
        yield [(start + "".join(levels), {"light": True})]

    def _row(
        self, name: str, title: str, part: Sequence[ContractResult], *, notes: bool
    ) -> Iterator[Line]:
        verdicts = [result.verdict for result in part]
        most_urgent = worst(verdicts)
        row: Line = [
            (self.glyphs.marks[most_urgent] + " ", STYLE[most_urgent]),
            (f"{name:<6}", _bold()),
            (pad(clip(title, _TITLE, self.glyphs.ellipsis) if self.cuts else title, _TITLE), {}),
        ]
        cells = iter(_CELLS)
        for transport in (IN_PROCESS, JSON_LINES):
            for level in LEVELS:
                found = [
                    _over(result, transport) for result in part if result.contract.level == level
                ]
                row.append(self._cell([v for v in found if v is not None], next(cells)))
        margin = [
            (_note(count(verdicts).of(verdict), verdict, len(part)), STYLE[verdict])
            for verdict in URGENCY
            if notes and verdict is not Verdict.PASSED and verdict in verdicts
        ]
        # One note stands beside the counts, further ones below it.
        indent = " " * sum(columns(text) for text, _ in row)
        for text, style in margin or [("", {})]:
            yield [*row, (f"  {text}", style)] if text else row
            row = [(indent, {})]

    def _cell(self, verdicts: Sequence[Verdict], width: int) -> Segment:
        if not verdicts:
            return (f"{self.glyphs.none:>{width}}", {"light": True})
        passed = verdicts.count(Verdict.PASSED)
        return (f"{f'{passed}/{len(verdicts)}':>{width}}", STYLE[worst(verdicts)])

    def _counts(
        self, specification: Specification, results: Sequence[ContractResult], run: Run
    ) -> Iterator[Line]:
        counts = count(result.verdict for result in results)
        parts: Line = []
        for verdict in (Verdict.PASSED, *(v for v in URGENCY if v is not Verdict.PASSED)):
            if counts.of(verdict):
                parts += [(", ", {})] if parts else []
                parts.append((in_words(counts.of(verdict), verdict), STYLE[verdict]))
        cases = sum(len(result.cases) for result in results)
        facts = f"{counted(cases, 'case')} in {run.seconds:.1f} s, seed {run.seed}"
        parts = parts or [("no contract was selected", {})]
        if sum(columns(text) for text, _ in parts) + 2 + len(facts) <= self.width:
            yield [*parts, (f"; {facts}", {})]
        else:
            yield parts
            yield [(facts, {})]
        complete = run.whole and len(results) == len(specification.contracts)
        made = badge.of(results, complete=complete, version=specification.version)
        message = made.message.replace("·", self.glyphs.dot)
        style = {"bold": True, **_BADGE.get(made.colour, {"yellow": True})}
        yield from self._text(f"Badge: {message} ({made.colour})", style)

    def _skipped(self, results: Sequence[ContractResult]) -> Iterator[Line]:
        yield from self._brief("Skipped", results, Verdict.SKIPPED)
        # What ran over one transport but not over the other, once for each reason.
        partly: dict[str, list[str]] = {}
        for result in results:
            for transport in (IN_PROCESS, JSON_LINES):
                if result.verdict > Verdict.SKIPPED and result.over(transport) is Verdict.SKIPPED:
                    reason = next(c.message for c in result.cases if c.transport == transport)
                    partly.setdefault(f"{transport}: {reason}", []).append(result.contract.id)
        if partly:
            yield []
            yield [("Skipped over one transport only", _bold())]
        for reason, ids in partly.items():
            name = ids[0] if len(ids) == 1 else f"{ids[0]} and {len(ids) - 1} more"
            yield from self._entry(name, reason, Verdict.SKIPPED)

    def _brief(
        self, title: str, results: Sequence[ContractResult], verdict: Verdict
    ) -> Iterator[Line]:
        """The reason of each contract that has the verdict, under a title."""
        found = [result for result in results if result.verdict is verdict]
        if found:
            yield []
            yield [(title, _bold())]
        for result in found:
            reason = result.reason or next(c.message for c in result.cases if c.verdict is verdict)
            yield from self._entry(result.contract.id, reason, verdict)

    def _entry(self, name: str, reason: str, verdict: Verdict) -> Iterator[Line]:
        start: Line = [(f"  {self.glyphs.marks[verdict]} ", STYLE[verdict]), (f"{name:<7} ", {})]
        # The reason of a skip says what to install or to set: it is never cut.
        yield from self._text(reason, {}, start, cuts=verdict is not Verdict.SKIPPED)

    def _failures(self, results: Sequence[ContractResult]) -> Iterator[Line]:
        for result in results:
            if result.verdict < Verdict.FAILED:
                continue
            contract = result.contract
            mark = self.glyphs.marks[result.verdict]
            yield []
            yield [
                (f"{mark} {contract.id} {result.verdict.words}", STYLE[result.verdict]),
                (f"  {contract.level.upper()}", {"light": True}),
            ]
            yield from self._wrapped(contract.text, 2)
            bad = [case for case in result.cases if case.verdict >= Verdict.FAILED]
            for case in bad[:_CASES_SHOWN]:
                yield from self._case(case)
            if len(bad) > _CASES_SHOWN:
                yield [(f"    and {len(bad) - _CASES_SHOWN} more", {})]

    def _case(self, case: CaseResult) -> Iterator[Line]:
        about = f"{case.transport}: " if case.transport != NO_TRANSPORT else ""
        start: Line = [(f"    {self.glyphs.marks[case.verdict]} ", STYLE[case.verdict])]
        yield from self._text(f"{about}{case.case}", _bold(), start)
        # The suite's own sentence, as on a stale deviation, ends in what to do.
        whole = not self.cuts or case.transport == NO_TRANSPORT
        yield from self._wrapped(case.message, 6, most=None if whole else _MESSAGE_LINES)
        if case.reproducer is not None:
            # A path is for copying: it is never cut or wrapped.
            path = visible(case.reproducer, ascii_only=self.ascii_only)
            yield [("      reproducer: ", {}), (path, _cyan())]

    def _wrapped(self, text: str, indent: int, most: int | None = None) -> Iterator[Line]:
        clean = visible(text, ascii_only=self.ascii_only)
        found = wrap(clean, self.width - indent)
        for line in islice(found, most):
            yield [(" " * indent + line, {})]
        if next(found, None) is not None:
            yield [(" " * indent + self.glyphs.ellipsis, {})]

    def _text(
        self, text: str, style: dict[str, bool], start: Line | None = None, *, cuts: bool = True
    ) -> Iterator[Line]:
        """A text after the start of its line: cut to the terminal, or wrapped below its start."""
        start = start or []
        indent = sum(columns(part) for part, _ in start)
        clean = visible(text, ascii_only=self.ascii_only)
        if cuts and self.cuts:
            yield [*start, (clip(clean, self.width - indent, self.glyphs.ellipsis), style)]
            return
        for line in wrap(clean, self.width - indent) if clean.strip() else [""]:
            yield [*start, (line, style)]
            start = [(" " * indent, {})]


def _over(result: ContractResult, transport: str) -> Verdict | None:
    """The verdict to count in a transport's column; None where the contract is not for it.

    A claimed contract of which nothing ran is missing over JSON lines, which every subject has.
    """
    if result.verdict is Verdict.SKIPPED and not result.cases:
        return Verdict.SKIPPED if transport == JSON_LINES else None
    return None if result.verdict is Verdict.NOT_CLAIMED else result.over(transport)


def _note(number: int, verdict: Verdict, total: int) -> str:
    """A count beside the table, short enough for its margin."""
    if verdict is Verdict.NOT_CLAIMED and number == total:
        return "not claimed"
    if verdict is Verdict.KNOWN_DEVIATION:
        return f"{number} known dev."
    return in_words(number, verdict)


def _bold() -> dict[str, bool]:
    return {"bold": True}


def _cyan() -> dict[str, bool]:
    return {"cyan": True}
