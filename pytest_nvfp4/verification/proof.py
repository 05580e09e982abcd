"""Prove result files: a report by what is at hand, a badge by the report that earned it.

`report.verify` says whether a report agrees with itself. `verify` also compares it with the
conformance files and the contracts of this package and, on request, with a deviations file and
with an implementation that describes itself now. A badge has no room for digests, since shields.io
refuses members that it does not know, so its report proves it.
"""

import datetime
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest_nvfp4
from pytest_nvfp4.errors import UsageError
from pytest_nvfp4.results import deviations
from pytest_nvfp4.results import report as reports
from pytest_nvfp4.results.deviations import Deviation, Deviations
from pytest_nvfp4.results.report import Implementation
from pytest_nvfp4.results.verdicts import Verdict
from pytest_nvfp4.specification.contracts import Specification, packaged
from pytest_nvfp4.verification.result_files import parse_report, read_text
from pytest_nvfp4.views import badge

__all__ = ["verify"]

_SHORT = 12
"""Hex digits of a digest in a sentence."""


def verify(
    files: Sequence[str], accepted: str | None = None, own: Implementation | None = None
) -> Iterator[tuple[str, list[str]]]:
    """Yield each file's name and what is wrong with it, one sentence each.

    `accepted` names the deviations file that the runs were given, `own` is the implementation that
    they should be of; with None the report is not compared with one. UsageError where a file cannot
    be judged at all.
    """
    texts = {file: read_text(file) for file in files}
    badges = [file for file, text in texts.items() if badge.message_of(text) is not None]
    loaded = {file: parse_report(file, text) for file, text in texts.items() if file not in badges}
    if badges and len(loaded) != 1:
        raise UsageError(
            f"a badge is proven by the one report that earned it, but with {badges[0]} there are "
            f"{len(loaded)} reports; name exactly one"
        )
    unproven = ""
    for file, data in loaded.items():
        problems = _of_report(data, accepted, own)
        unproven = file if problems else unproven
        yield file, problems
    for file in badges:
        (data,) = loaded.values()
        if unproven:
            yield file, [f"Nothing can be said of it, since {unproven} is not proven."]
        else:
            yield file, _of_badge(texts[file], data)


def _of_report(data: dict[str, Any], accepted: str | None, own: Implementation | None) -> list[str]:
    found = reports.inconsistencies(data)
    if found:
        return found
    found += reports.verify(data)
    specification = packaged()
    found += _against_suite(data, specification, pytest_nvfp4.__version__, reports.suite_digest())
    found += _own_deviations(data)
    if accepted is not None:
        # An entry counts until its date: what had expired by now may have held on that day.
        day = datetime.date.fromisoformat(data["run"]["started"][:10])
        given = deviations.read(Path(accepted), specification=specification, today=day)
        found += _against_deviations(data, given)
    if own is not None:
        found += _against_implementation(data, own)
    return list(dict.fromkeys(found))


def _of_badge(text: str, report: Mapping[str, Any]) -> list[str]:
    earned = badge.from_report(report)
    if text in (badge.svg(earned), badge.endpoint(earned)):
        return []
    shown = badge.message_of(text)
    wanted = f"{earned.label}: {earned.message}"
    if shown != wanted:
        return [f"It says {shown!r}, but the report earns {wanted!r}."]
    return ["It says what the report earns, but its colour, flags or drawing are not the report's."]


def _against_suite(
    report: Mapping[str, Any], specification: Specification, version: str, digest: str
) -> Iterator[str]:
    """How the suite that a consistent report names differs from the one at hand.

    Another text of the same version of the specification is found by `report.verify`.
    """
    suite = report["suite"]
    if suite["version"] != version:
        yield (
            f"The report was made by pytest-nvfp4 {suite['version']} and this is {version}; "
            "verify it with that version."
        )
    elif suite["digest"] != digest:
        yield (
            f"The conformance files that ran have the digest {suite['digest'][:_SHORT]}…, "
            f"but those of this package have {digest[:_SHORT]}…; one of them was edited."
        )
    if suite["specification_version"] != specification.version:
        yield (
            f"The report is about specification {suite['specification_version']}, "
            f"but this package holds {specification.version}."
        )


def _own_deviations(report: Mapping[str, Any]) -> Iterator[str]:
    """The known deviations in a consistent report that none of its listed entries accepts."""
    entries = [_entry(data) for data in report["deviations"]]
    for result in reports.contract_results(report):
        for case in result.cases:
            accepted = any(entry.covers(case.contract, case.case) for entry in entries)
            if case.verdict is Verdict.KNOWN_DEVIATION and not accepted:
                yield (
                    f"{case.contract}, case {case.case!r}, is called a known deviation, "
                    "but no deviation that the report lists accepts it."
                )


def _against_deviations(report: Mapping[str, Any], given: Deviations) -> Iterator[str]:
    """How the deviations that a run was given differ from those of a file."""
    ran = {(entry.contract, entry.case): entry for entry in map(_entry, report["deviations"])}
    held = {(entry.contract, entry.case): entry for entry in given.entries}
    for key in sorted(ran.keys() | held.keys()):
        name = f"{key[0]} (case {key[1]!r})"
        if key not in held:
            yield f"The run accepted {name}, which {given.file} does not."
        elif key not in ran:
            yield f"{given.file} accepts {name}, which the run was not given."
        elif _members(ran[key]) != _members(held[key]):
            yield f"The run was given {name} with another reason, link or date than {given.file}."


def _against_implementation(report: Mapping[str, Any], own: Implementation) -> Iterator[str]:
    """How the implementation in a consistent report differs from one that describes itself now."""
    then = report["implementation"]
    if then["identity"] == reports.identity(own):
        return
    for name in ("name", "version", "language", "homepage"):
        now = getattr(own, name)
        if then[name] != now:
            yield f"The report is of the {name} {then[name]!r}, but {own.target} says {now!r}."
    lost = sorted(set(then["capabilities"]) - set(own.capabilities))
    new = sorted(set(own.capabilities) - set(then["capabilities"]))
    if lost:
        yield f"In the report it claims {', '.join(lost)}, which {own.target} does not claim now."
    if new:
        yield f"{own.target} claims {', '.join(new)}, which it did not in the report."


def _members(entry: Deviation) -> tuple[object, ...]:
    return entry.reason, entry.link, entry.expires and str(entry.expires)


def _entry(data: Mapping[str, Any]) -> Deviation:
    """An entry of a report's list; its date stays text, which is all that is compared."""
    return Deviation(data["contract"], data["reason"], data["case"], data["link"], data["expires"])
