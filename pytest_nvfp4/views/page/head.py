"""The top of the page: one card for each report, with its badge, its counts and its origin."""

from collections.abc import Iterator

from pytest_nvfp4.results.verdicts import Verdict, count
from pytest_nvfp4.views import badge
from pytest_nvfp4.views.comparison import Column, Comparison
from pytest_nvfp4.views.marks import UNICODE, URGENCY, in_words
from pytest_nvfp4.views.page.html import Html, cut, foreign, join, link, tag

ORDER = (Verdict.PASSED, *(verdict for verdict in URGENCY if verdict is not Verdict.PASSED))
"""Verdicts as a reader wants their counts: what passed first, then the worst."""


def glyph(verdict: Verdict) -> Html:
    """A verdict's symbol, which a screen reader leaves to the word beside it."""
    return tag("span", UNICODE.marks[verdict], class_=f"glyph {verdict.value}", aria_hidden="true")


def letter(column: Column) -> Html:
    """The letter that stands for a report all over the page."""
    return tag("span", column.letter, class_="letter")


def cards(comparison: Comparison) -> Html:
    """All cards, and the notes on what limits the comparison."""
    notes = [tag("p", note, class_="note") for note in comparison.notes]
    return tag(
        "section",
        tag("h2", "Implementations" if len(comparison.columns) > 1 else "Implementation"),
        tag("div", map(_card, comparison.columns), class_="cards"),
        notes,
    )


def _card(column: Column) -> Html:
    own = column.report["implementation"]
    who = f"{own['name']} {own['version']}"
    about: list[Html | str] = [foreign(own["language"], 60)] if own["language"] else []
    if column.label != who:
        about.insert(0, foreign(who, 120))
    if own["homepage"]:
        about.append(link(_address(own["homepage"]), own["homepage"]))
    return tag(
        "article",
        tag("h3", letter(column), " ", foreign(column.label, 120)),
        tag("p", _separated(about), class_="about"),
        tag("p", Html(badge.svg(column.badge).strip()), class_="badge"),
        _bar(column),
        _counts(column),
        tag("details", tag("summary", "How it was run"), tag("dl", *_facts(column))),
        class_="card",
    )


def _address(homepage: str) -> str:
    return cut(homepage.partition("://")[2].rstrip("/") or homepage, 60)


def _separated(parts: list[Html | str]) -> Iterator[Html | str]:
    for index, part in enumerate(parts):
        if index:
            yield " · "
        yield part


def _numbers(column: Column) -> list[tuple[Verdict, int]]:
    counts = count(result.verdict for result in column.results.values())
    return [(verdict, counts.of(verdict)) for verdict in ORDER if counts.of(verdict)]


def _bar(column: Column) -> Html:
    """How the contracts divide; decoration, since the counts follow as text."""
    total = sum(number for _, number in _numbers(column))
    parts, at = [], 0.0
    for verdict, number in _numbers(column):
        wide = 100 * number / total
        rect = tag("rect", x=f"{at:.3f}", y=0, width=f"{wide:.3f}", height=1, class_=verdict.value)
        parts.append(rect)
        at += wide
    return tag(
        "svg",
        parts,
        class_="bar",
        viewBox="0 0 100 1",
        preserveAspectRatio="none",
        aria_hidden="true",
    )


def _counts(column: Column) -> Html:
    items = [
        tag("li", glyph(verdict), f" {in_words(number, verdict)}", class_=verdict.value)
        for verdict, number in _numbers(column)
    ]
    return tag("ul", items or tag("li", "no contract was selected"), class_="counts")


def _facts(column: Column) -> Iterator[Html]:
    report, run = column.report, column.report["run"]
    cases = sum(len(result.cases) for result in column.results.values())
    suite, own = report["suite"], report["implementation"]
    accepted = len(report["deviations"])
    for name, value in (
        ("started", run["started"].replace("T", " ").replace("Z", " UTC")),
        ("took", f"{run['seconds']:,.1f} s for {cases:,} cases"),
        ("target", tag("code", cut(own["target"], 400))),
        ("selected", cut(run["selection"], 400) or "everything"),
        ("complete", "yes" if run["complete"] else "no"),
        ("seed", run["seed"]),
        ("on", f"{cut(run['platform'], 400)}, Python {cut(run['python'], 60)}"),
        ("suite", _digested(suite["version"], suite["digest"])),
        ("specification", _digested(suite["specification_version"], suite["specification_digest"])),
        ("deviations", f"{accepted} accepted" if accepted else "none accepted"),
        ("identity", _digested("", own["identity"])),
        ("report", _digested("", report["digest"])),
    ):
        yield tag("div", tag("dt", name), tag("dd", value))


def _digested(version: str, digest: str) -> Html:
    short = tag("code", f"{digest[:12]}…", title=f"SHA-256 {digest}")
    return join(f"{cut(version, 60)} " if version else None, short)
