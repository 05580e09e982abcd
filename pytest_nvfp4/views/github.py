"""A run on GitHub Actions: annotations for what failed, and the summary page of the job.

Both are made only where GitHub's environment variables ask for them. They hold texts from
implementations, so every character that could be a command or markup is escaped.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_nvfp4.results.report import Implementation, Run
from pytest_nvfp4.results.verdicts import NO_TRANSPORT, CaseResult, ContractResult, Verdict, count
from pytest_nvfp4.specification.contracts import MUST, Specification
from pytest_nvfp4.text import clip, counted, visible
from pytest_nvfp4.views import badge

MOST_ANNOTATIONS = 10
"""GitHub shows ten errors and ten warnings of a step and silently drops the rest."""

SUMMARY_LIMIT = 1024 * 1024
"""Bytes that GitHub accepts as the summary of one step; a longer one is not shown."""

_CASES_SHOWN = 5
_LONGEST_MESSAGE = 500

_COLUMNS = (
    Verdict.PASSED,
    Verdict.FAILED,
    Verdict.ERROR,
    Verdict.KNOWN_DEVIATION,
    Verdict.SKIPPED,
    Verdict.NOT_CLAIMED,
)


@dataclass(frozen=True, slots=True)
class Place:
    """Where annotations belong: the adapter's source, relative to the repository."""

    file: str
    line: int = 1


# --- Annotations


def annotations(results: Iterable[ContractResult], place: Place | None) -> list[str]:
    """Workflow commands, one line each: an error for each MUST that failed, a warning for a SHOULD.

    No more than GitHub shows; the last then says how many are left out.
    """
    bad = [result for result in results if result.verdict >= Verdict.FAILED]
    lines = []
    for level in ("error", "warning"):
        of_level = [result for result in bad if _level(result) == level]
        shown = of_level if len(of_level) <= MOST_ANNOTATIONS else of_level[: MOST_ANNOTATIONS - 1]
        lines += [_annotation(level, place, *_annotated(result)) for result in shown]
        if len(shown) < len(of_level):
            ids = ", ".join(result.contract.id for result in of_level[len(shown) :])
            title = counted(len(of_level) - len(shown), "more contract")
            lines.append(_annotation(level, place, title, ids))
    return lines


def _level(result: ContractResult) -> str:
    must = result.contract.level == MUST or result.verdict is Verdict.ERROR
    return "error" if must else "warning"


def _annotated(result: ContractResult) -> tuple[str, str]:
    """The title and the message of a contract's annotation."""
    bad = [case for case in result.cases if case.verdict >= Verdict.FAILED]
    title = f"{result.contract.id} {result.verdict.words}"
    if not bad:
        return title, result.contract.text
    more = f" (and {counted(len(bad) - 1, 'more case')})" if len(bad) > 1 else ""
    return title, f"{result.contract.text}\n{_case(bad[0])}{more}"


def _case(case: CaseResult) -> str:
    about = "" if case.transport == NO_TRANSPORT else f"{case.transport}: "
    return clip(visible(f"{about}{case.case}: {case.message}"), _LONGEST_MESSAGE)


def _annotation(level: str, place: Place | None, title: str, message: str) -> str:
    properties = {"title": title}
    if place is not None:
        properties = {"file": place.file, "line": str(place.line), **properties}
    joined = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{level} {joined}::{_data(message)}"


def _data(text: str) -> str:
    """Text in the message of a workflow command: it cannot end the line it stands in."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    """Text in a property of a workflow command: it can end neither the line nor the property."""
    return _data(text).replace(":", "%3A").replace(",", "%2C")


# --- The summary of the job


def append_summary(path: Path, text: str) -> None:
    """Add a summary to the file that GitHub collects; OSError where that cannot be written to."""
    with path.open("ab") as file:
        file.write(text.encode())


def room(path: Path) -> int:
    """Bytes that the summary of this step may still take."""
    used = path.stat().st_size if path.exists() else 0
    return max(SUMMARY_LIMIT - 1 - used, 0)


def summary(
    specification: Specification,
    results: Sequence[ContractResult],
    *,
    implementation: Implementation,
    run: Run,
    limit: int = SUMMARY_LIMIT - 1,
) -> str:
    """The run as Markdown of at most `limit` bytes: a table of the areas, and what did not pass.

    What does not fit is left out from the end and counted. Empty where not even the table fits.
    """
    complete = run.whole and len(results) == len(specification.contracts)
    made = badge.of(results, complete=complete, version=specification.version)
    who = f"{implementation.name} {implementation.version} ({implementation.language})"
    head = f"### {_markdown(badge.LABEL)}: {_markdown(who)}\n\n**{_markdown(made.message)}**\n\n"
    parts = [head + "\n".join(_table(specification, results)) + "\n", *_details(results)]
    reserve = len(_left_out(len(parts)).encode())
    text, size = "", 0
    for number, part in enumerate(parts):
        more = len(part.encode())
        needed = reserve if number + 1 < len(parts) else 0
        if size + more + needed > limit:
            return text + _left_out(len(parts) - number) if text else ""
        text, size = text + part, size + more
    return text


def _table(specification: Specification, results: Sequence[ContractResult]) -> Iterator[str]:
    yield "| area | " + " | ".join(verdict.words for verdict in _COLUMNS) + " |"
    yield "|---|" + "---:|" * len(_COLUMNS)
    for area in specification.areas:
        part = [result for result in results if result.contract.area == area.id]
        if part:
            yield _row(f"{area.id} {_markdown(area.title)}", part)
    yield _row("**all**", results)


def _row(name: str, part: Sequence[ContractResult]) -> str:
    counts = count(result.verdict for result in part)
    return f"| {name} | " + " | ".join(str(counts.of(v) or "") for v in _COLUMNS) + " |"


def _details(results: Sequence[ContractResult]) -> Iterator[str]:
    """A paragraph for each contract that is neither passed nor unclaimed, the worst first."""
    for verdict in (Verdict.ERROR, Verdict.FAILED, Verdict.KNOWN_DEVIATION, Verdict.SKIPPED):
        for result in results:
            if result.verdict is verdict:
                yield "\n" + "\n".join(_paragraph(result)) + "\n"


def _paragraph(result: ContractResult) -> Iterator[str]:
    contract, verdict = result.contract, result.verdict
    reason = f": {_markdown(result.reason)}" if verdict is Verdict.SKIPPED else ""
    yield f"**{contract.id}** {verdict.words} ({contract.level.upper()}){reason}"
    if verdict is Verdict.SKIPPED:
        return
    yield f"> {_markdown(contract.text)}"
    yield ""
    cases = [case for case in result.cases if case.verdict is verdict]
    for case in cases[:_CASES_SHOWN]:
        yield f"- {_markdown(_case(case))}"
    if len(cases) > _CASES_SHOWN:
        yield f"- and {counted(len(cases) - _CASES_SHOWN, 'more case')}"


def _left_out(number: int) -> str:
    what = counted(number, "more contract is", "more contracts are")
    return f"\n{what} in the report; this page has no room for {'it' if number == 1 else 'them'}.\n"


_PLAIN = frozenset(" ,;=/'\"%?")


def _markdown(text: str) -> str:
    """Text in Markdown: every ASCII character that could be markup is a numeric entity."""
    return "".join(
        char if char.isalnum() or char in _PLAIN or not char.isascii() else f"&#{ord(char)};"
        for char in visible(text)
    )


def wanted(environment: Mapping[str, str]) -> tuple[bool, Path | None]:
    """Whether GitHub wants annotations, and the file of the summary or None, by the environment."""
    path = environment.get("GITHUB_STEP_SUMMARY")
    return environment.get("GITHUB_ACTIONS") == "true", Path(path) if path else None
