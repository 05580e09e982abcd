"""The middle of the page: every contract's verdict in every report, and each failure's story.

One `details` for each area holds a table; a contract is a `tbody` of its own, so that what belongs
to it is filtered with it.
"""

import shlex
from collections.abc import Iterator, Sequence

from pytest_nvfp4.results.verdicts import NO_TRANSPORT, CaseResult, ContractResult, Verdict
from pytest_nvfp4.views.comparison import AreaRows, Column, Comparison, Row
from pytest_nvfp4.views.marks import URGENCY, worst
from pytest_nvfp4.views.page.head import glyph, letter
from pytest_nvfp4.views.page.html import Child, Html, cut, foreign, join, prose, tag

_CASES = 100
"""Failing cases of one contract and one report that are shown; the report has all of them."""

_WORDY = 4
"""Columns that have room for words; with more there are glyphs alone."""

_TEXT = 6000
"""Characters of one reproduction; a report of this package holds fewer."""


def section(comparison: Comparison) -> Html:
    """The filters and all areas."""
    return tag(
        "section",
        tag("h2", "Contracts"),
        _filters(comparison),
        [_area(area, comparison) for area in comparison.areas],
        tag("p", "No contract passes these filters.", id="none", class_="note", hidden=True),
        id="contracts",
    )


def _filters(comparison: Comparison) -> Html:
    """Controls that only the script can serve: hidden until it runs."""
    levels = list(dict.fromkeys(row.contract.level for row in comparison.rows))
    seen = {verdict for row in comparison.rows for verdict in row.verdicts}
    choices = [
        tag(
            "label",
            tag("input", type="radio", name="level", value=value, checked=value == "all"),
            tag("span", text),
        )
        for value, text in (("all", "all"), *((level, level.upper()) for level in levels))
    ]
    verdicts = [
        tag(
            "button",
            glyph(v),
            f" {v.words}",
            type="button",
            data_verdict=v.value,
            aria_pressed="true",
        )
        for v in URGENCY
        if v in seen
    ]
    words = tag(
        "input",
        type="search",
        id="words",
        aria_label="words to look for",
        placeholder="find words",
        autocomplete="off",
    )
    differing = tag(
        "label",
        tag("input", type="checkbox", id="differing"),
        tag("span", "only where they differ"),
    )
    return tag(
        "div",
        tag("fieldset", tag("legend", "level"), tag("div", choices, class_="segments")),
        tag("fieldset", tag("legend", "verdict"), verdicts, class_="verdicts"),
        tag(
            "fieldset",
            tag("legend", "contracts"),
            words,
            differing if len(comparison.columns) > 1 else None,
        ),
        tag(
            "fieldset",
            tag("legend", "areas"),
            tag("button", "open all", type="button", id="open"),
            tag("button", "close all", type="button", id="close"),
        ),
        tag(
            "p",
            tag("span", id="shown", role="status"),
            tag("button", "reset filters", type="button", id="reset", hidden=True),
            class_="outcome",
        ),
        class_="filters",
        role="search",
        aria_label="Filter the contracts",
        hidden=True,
    )


def _area(area: AreaRows, comparison: Comparison) -> Html:
    counts = [
        tag(
            "span",
            letter(column) if len(comparison.columns) > 1 else None,
            " ",
            *_score(area, index),
            class_="score",
        )
        for index, column in enumerate(comparison.columns)
    ]
    head = tag(
        "tr",
        tag("th", "contract", scope="col"),
        [
            tag(
                "th",
                letter(column),
                " ",
                tag("span", foreign(column.label, 60), class_="word"),
                scope="col",
            )
            for column in comparison.columns
        ],
    )
    table = tag(
        "table",
        tag("caption", f"Contracts of {area.id} {area.title}", class_="unseen"),
        tag("thead", head),
        [_contract(row, comparison) for row in area.rows],
        class_="many" if len(comparison.columns) > _WORDY else None,
    )
    return tag(
        "details",
        tag(
            "summary",
            tag("span", tag("b", area.id), f" {area.title}", class_="area-name"),
            tag("span", counts, class_="scores"),
        ),
        tag("div", table, class_="scroll", tabindex=0, role="group", aria_label=f"{area.id} table"),
        class_="area",
        id=area.id,
        open=any(not row.quiet for row in area.rows),
    )


def _score(area: AreaRows, column: int) -> Iterator[Html | str]:
    verdicts = [v for row in area.rows if (v := row.verdicts[column]) is not None]
    passed, claimed = area.counts(column)
    if not verdicts:
        yield tag("span", "not in the run", class_="absent")
    elif not claimed:
        yield glyph(Verdict.NOT_CLAIMED)
        yield tag("span", " not claimed", class_="word")
    else:
        yield glyph(worst(verdicts))
        yield f" {passed}/{claimed}"


def _contract(row: Row, comparison: Comparison) -> Html:
    contract = row.contract
    name = tag(
        "th",
        tag(
            "span",
            tag("a", contract.id, href=f"#{contract.id}"),
            " ",
            tag("span", contract.level.upper(), class_=f"level {contract.level}"),
            class_="id",
        ),
        tag("span", prose(contract.text), class_="text"),
        scope="row",
    )
    stories = [
        story
        for column, result in zip(comparison.columns, row.results, strict=True)
        if result is not None and (story := _story(column, result)) is not None
    ]
    width = 1 + len(comparison.columns)
    told = tag("tr", tag("td", stories, colspan=width), class_="stories") if stories else None
    return tag(
        "tbody",
        tag("tr", name, map(_verdict, row.results)),
        told,
        id=contract.id,
        data_level=contract.level,
        data_verdicts=" ".join(sorted({v.value for v in row.verdicts if v is not None})),
        data_differs=row.differs,
    )


def _verdict(result: ContractResult | None) -> Html:
    if result is None:
        cell: Child = tag("span", "not in the run", class_="absent")
        return tag("td", cell)
    bad = sum(case.verdict >= Verdict.FAILED for case in result.cases)
    of = f"{bad} of {len(result.cases)} cases" if bad else None
    return tag(
        "td",
        glyph(result.verdict),
        tag("span", f" {result.verdict.words}", class_="word"),
        tag("span", of, class_="cases") if of else None,
        class_=f"verdict {result.verdict.value}",
    )


def _story(column: Column, result: ContractResult) -> Html | None:
    """Why a verdict is not a pass; None where there is nothing to say."""
    if result.verdict is Verdict.NOT_CLAIMED:
        return None
    bad = [case for case in result.cases if case.verdict >= Verdict.FAILED]
    if bad:
        return _failures(column, result, bad)
    notable = [case for case in result.cases if case.verdict is result.verdict and case.message]
    if result.verdict is Verdict.PASSED:
        notable = [case for case in result.cases if case.verdict is Verdict.SKIPPED]
    reasons = dict.fromkeys(case.message for case in notable) or {result.reason: None}
    text = "; ".join(filter(None, reasons))
    if not text:
        return None
    partly = ""
    if result.verdict is Verdict.PASSED:
        partly = f"{_over(notable)}, skipped: "
    return tag("p", letter(column), " ", partly, foreign(text), class_="reason")


def _failures(column: Column, result: ContractResult, bad: Sequence[CaseResult]) -> Html:
    cases: dict[str, list[CaseResult]] = {}
    for case in bad:
        cases.setdefault(case.case, []).append(case)
    shown = [_case(column, name, group) for name, group in list(cases.items())[:_CASES]]
    more = len(cases) - len(shown)
    first = next((case.message for case in bad if case.message), "")
    return tag(
        "details",
        tag(
            "summary",
            letter(column),
            " ",
            glyph(result.verdict),
            tag("b", f" {result.verdict.words}"),
            f", {len(bad)} of {len(result.cases)} cases: ",
            foreign(first, 240),
        ),
        tag("ol", shown, class_="failures"),
        tag("p", f"{more} more cases are in the report.", class_="reason") if more else None,
        class_="failure",
    )


def _case(column: Column, name: str, group: Sequence[CaseResult]) -> Html:
    """One case: the sentence over each transport, and what reproduces it."""
    sentences: dict[str, list[CaseResult]] = {}
    for case in group:
        sentences.setdefault(case.message, []).append(case)
    said = [
        tag(
            "p",
            tag("span", f"{_over(same)}: ", class_="over"),
            foreign(message or "no reason given"),
        )
        for message, same in sentences.items()
    ]
    return tag("li", tag("code", cut(name, 300), class_="case"), said, _reproduction(column, group))


def _over(cases: Sequence[CaseResult]) -> str:
    transports = dict.fromkeys(case.transport for case in cases)
    return ", ".join("the run itself" if t == NO_TRANSPORT else t for t in transports)


def _reproduction(column: Column, group: Sequence[CaseResult]) -> Html | None:
    paths = [case.reproducer for case in group if case.reproducer]
    text = next((case.reproduction for case in group if case.reproduction), "")
    if not paths and not text:
        return None
    own, run = column.report["implementation"], column.report["run"]
    chosen = ("--contract", group[0].contract, "--seed", str(run["seed"]))
    command = shlex.join(["nvfp4-conformance", "run", own["target"], *chosen])
    return tag(
        "details",
        tag("summary", "Reproduce it"),
        tag("pre", tag("code", cut(command, 1000)), class_="command"),
        [tag("p", "file: ", tag("code", cut(path, 1000))) for path in paths],
        tag("pre", tag("code", join(cut(text, _TEXT))), class_="bytes", tabindex=0)
        if text
        else None,
        class_="reproduction",
    )
