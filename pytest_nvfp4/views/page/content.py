"""What the templates show of a report: counts, origins, and the cases that explain a verdict."""

import shlex
from collections.abc import Callable, Sequence

from markupsafe import Markup

from pytest_nvfp4.results.verdicts import NO_TRANSPORT, CaseResult, ContractResult, Verdict, count
from pytest_nvfp4.views.comparison import AreaRows, Column
from pytest_nvfp4.views.marks import URGENCY, worst
from pytest_nvfp4.views.page.markup import cut, foreign, link

MOST_CASES = 100
"""Failing cases of one contract and one report that are shown; the report has all of them."""


def about(column: Column) -> list[Markup]:
    """The implementation's name where the label is another, its language and its homepage."""
    own = column.report["implementation"]
    who = f"{own['name']} {own['version']}"
    parts = [] if column.label == who else [foreign(who, 120)]
    if own["language"]:
        parts.append(foreign(own["language"], 60))
    if own["homepage"]:
        short = own["homepage"].partition("://")[2].rstrip("/") or own["homepage"]
        parts.append(link(cut(short, 60), own["homepage"]))
    return parts


def numbers(column: Column) -> list[tuple[Verdict, int, float, float]]:
    """Each verdict of a report's contracts, passed first: how many have it, and the start and the
    width of their part of a bar, in per cent.
    """
    counts = count(result.verdict for result in column.results.values())
    found, start = [], 0.0
    for verdict in (Verdict.PASSED, *(v for v in URGENCY if v is not Verdict.PASSED)):
        if number := counts.of(verdict):
            width = 100 * number / counts.total
            found.append((verdict, number, start, width))
            start += width
    return found


def score(area: AreaRows, column: int) -> tuple[int, int, Verdict | None]:
    """How many contracts passed and are claimed, and the worst verdict; None where none ran."""
    verdicts = [v for row in area.rows if (v := row.verdicts[column]) is not None]
    return *area.counts(column), worst(verdicts) if verdicts else None


def failing(result: ContractResult) -> list[CaseResult]:
    """The cases with a failure or an error."""
    return [case for case in result.cases if case.verdict >= Verdict.FAILED]


def grouped(
    key: Callable[[CaseResult], str],
) -> Callable[[Sequence[CaseResult]], list[tuple[str, list[CaseResult]]]]:
    """Groups cases by a key, in the order in which the keys first occur."""

    def groups(cases: Sequence[CaseResult]) -> list[tuple[str, list[CaseResult]]]:
        return [
            (name, [case for case in cases if key(case) == name])
            for name in dict.fromkeys(map(key, cases))
        ]

    return groups


def reason(result: ContractResult) -> str:
    """Why a verdict without a failure is not a plain pass; empty where there is nothing to say."""
    if result.verdict is Verdict.NOT_CLAIMED:
        return ""
    reasons = dict.fromkeys(case.message for case in _notable(result)) or {result.reason: None}
    return "; ".join(filter(None, reasons))


def partly(result: ContractResult) -> str:
    """What comes before the reason where a contract passed and some of its cases were skipped."""
    return f"{over(_notable(result))}, skipped: " if result.verdict is Verdict.PASSED else ""


def over(cases: Sequence[CaseResult]) -> str:
    """The transports of some cases, in words."""
    transports = dict.fromkeys(case.transport for case in cases)
    return ", ".join("the run itself" if t == NO_TRANSPORT else t for t in transports)


def command(cases: Sequence[CaseResult], column: Column) -> str:
    """The command that runs the contract of some cases again, with the same data."""
    own, run = column.report["implementation"], column.report["run"]
    chosen = ("--contract", cases[0].contract, "--seed", str(run["seed"]))
    return shlex.join(["nvfp4-conformance", "run", own["target"], *chosen])


def _notable(result: ContractResult) -> list[CaseResult]:
    if result.verdict is Verdict.PASSED:
        return [case for case in result.cases if case.verdict is Verdict.SKIPPED]
    return [case for case in result.cases if case.verdict is result.verdict and case.message]
