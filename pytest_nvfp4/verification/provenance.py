"""Prove where a report or a badge comes from: which suite, contracts, deviations and subject.

`report.verify` says whether a report agrees with itself. This says whether it was made with what
is at hand: the conformance files and contracts of this package, a deviations file, an
implementation that describes itself now. A badge has no room for digests, since shields.io refuses
members that it does not know; it is proven by the report that earned it.
"""

import json
import re
from collections.abc import Iterator, Mapping
from html import unescape
from typing import Any

from pytest_nvfp4.results import report as reports
from pytest_nvfp4.results.deviations import Deviation, Deviations
from pytest_nvfp4.results.report import Implementation
from pytest_nvfp4.results.verdicts import Verdict
from pytest_nvfp4.specification.contracts import Specification
from pytest_nvfp4.views import badge

_SHORT = 12
"""Hex digits of a digest in a sentence."""


def against_suite(
    report: Mapping[str, Any], specification: Specification, version: str, digest: str
) -> Iterator[str]:
    """What differs between the suite that a consistent report names and the one at hand.

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
            f"The conformance files that ran have the digest {_short(suite['digest'])}, "
            f"but those of this package have {_short(digest)}; one of them was edited."
        )
    if suite["specification_version"] != specification.version:
        yield (
            f"The report is about specification {suite['specification_version']}, "
            f"but this package holds {specification.version}."
        )


def own_deviations(report: Mapping[str, Any]) -> Iterator[str]:
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


def against_deviations(report: Mapping[str, Any], given: Deviations) -> Iterator[str]:
    """What differs between the deviations that a run was given and those of a file."""
    ran = {_key(entry): entry for entry in map(_entry, report["deviations"])}
    held = {_key(entry): entry for entry in given.entries}
    for key in sorted(ran.keys() | held.keys()):
        name = f"{key[0]} (case {key[1]!r})"
        if key not in held:
            yield f"The run accepted {name}, which {given.file} does not."
        elif key not in ran:
            yield f"{given.file} accepts {name}, which the run was not given."
        elif _members(ran[key]) != _members(held[key]):
            yield f"The run was given {name} with another reason, link or date than {given.file}."


def against_implementation(report: Mapping[str, Any], own: Implementation) -> Iterator[str]:
    """What differs between the subject of a consistent report and one that describes itself now."""
    told = report["implementation"]
    if told["identity"] == reports.identity(own):
        return
    for name in ("name", "version", "language", "homepage"):
        now = getattr(own, name)
        if told[name] != now:
            yield f"The report is of the {name} {told[name]!r}, but {own.target} says {now!r}."
    lost = sorted(set(told["capabilities"]) - set(own.capabilities))
    new = sorted(set(own.capabilities) - set(told["capabilities"]))
    if lost:
        yield f"In the report it claims {', '.join(lost)}, which {own.target} does not claim now."
    if new:
        yield f"{own.target} claims {', '.join(new)}, which it did not in the report."


def of_badge(text: str, report: Mapping[str, Any]) -> list[str]:
    """What is wrong with a badge, SVG or JSON, if it is to be the one that a report earns."""
    earned = badge.from_report(report)
    if text in (badge.svg(earned), badge.endpoint(earned)):
        return []
    said = badge_message(text)
    wanted = f"{earned.label}: {earned.message}"
    if said is None:
        return ["It is no badge of this package."]
    if said != wanted:
        return [f"It says {said!r}, but the report earns {wanted!r}."]
    return ["It says what the report earns, but its colour, flags or drawing are not the report's."]


def badge_message(text: str) -> str | None:
    """The label and message of a badge, SVG or JSON; None of anything else."""
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


def _short(digest: str) -> str:
    return f"{digest[:_SHORT]}…"


def _key(entry: Deviation) -> tuple[str, str]:
    return entry.contract, entry.case


def _members(entry: Deviation) -> tuple[object, ...]:
    return entry.reason, entry.link, entry.expires and str(entry.expires)


def _entry(data: Mapping[str, Any]) -> Deviation:
    """An entry of a report's list; its date stays text, which is all that is compared."""
    return Deviation(data["contract"], data["reason"], data["case"], data["link"], data["expires"])
