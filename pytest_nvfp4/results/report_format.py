"""The form of a report, declared once: these types check reports and make the published schema.

`report.schema.json` is what `python -m pytest_nvfp4.results.report_format` prints. Where JSON
Schema lets 1.0 pass as an integer, reports are read more strictly.
"""

import json
import sys
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

__all__ = ["REPORT_VERSION", "malformation", "schema"]

REPORT_VERSION = 1


def _about(description: str) -> Meta:
    return Meta(description=description)


def _form(pattern: str, description: str | None = None) -> Meta:
    # Python's "$" also stands before a last line feed, which "(?!\n)" excludes.
    return Meta(pattern=rf"^{pattern}(?!\n)$", description=description)


Sha256: TypeAlias = Annotated[str, _form("[0-9a-f]{64}")]
Seconds: TypeAlias = Annotated[float, Meta(ge=0, le=10**9)]
Number: TypeAlias = Annotated[int, Meta(ge=0)]


class SuiteData(Struct, forbid_unknown_fields=True):
    version: Annotated[str, _about("The version of the package that ran.")]
    specification_version: Annotated[str, _form(r"[0-9]+\.[0-9]+", "The version of the contracts.")]
    specification_digest: Annotated[Sha256, _about("SHA-256 of the contracts' content.")]
    digest: Annotated[Sha256, _about("SHA-256 over the conformance files that ran.")]


class ImplementationData(Struct, forbid_unknown_fields=True):
    target: Annotated[str, _about("The implementation as the user named it.")]
    name: str
    version: str
    language: str
    homepage: str
    capabilities: Annotated[list[str], _about("What the implementation claims, sorted.")]
    identity: Annotated[
        Sha256,
        _about(
            "SHA-256 of the canonical JSON of name, version, language, homepage and capabilities."
        ),
    ]


class RunData(Struct, forbid_unknown_fields=True):
    started: Annotated[
        str,
        _form(
            "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z",
            "UTC, in the form of ISO 8601.",
        ),
    ]
    seconds: Seconds
    seed: Annotated[int, Meta(ge=0, le=2**53 - 1, description="The seed of the random data.")]
    python: str
    platform: str
    selection: Annotated[
        str, _about("The selected contracts, as the user named them; empty for all of them.")
    ]
    complete: Annotated[
        bool,
        _about("Whether every contract was selected and the run ended normally with every case."),
    ]


class CountsData(Struct, forbid_unknown_fields=True):
    """How many contracts have each verdict."""

    passed: Number
    failed: Number
    known_deviation: Number
    skipped: Number
    not_claimed: Number
    error: Number
    total: Number


class SummaryData(Struct, forbid_unknown_fields=True):
    must: CountsData
    should: CountsData


class CaseData(Struct, forbid_unknown_fields=True):
    case: Annotated[str, _about("The id of the case within its contract.")]
    transport: Annotated[
        Literal["in process", "JSON lines", "none"],
        _about("How the implementation was driven; none for a case about the run itself."),
    ]
    verdict: Literal["skipped", "passed", "known_deviation", "failed", "error"]
    message: Annotated[str, _about("Why the case did not pass; empty if it did.")]
    seconds: Seconds
    reproducer: Annotated[str | None, _about("The path of a file that shows the failure.")]
    reproduction: Annotated[
        str | UnsetType,
        _about(
            "What the reproducer's files hold: the requests and the document, of each the "
            "beginning and the end. Absent where there is nothing to show."
        ),
    ] = UNSET


class ContractData(Struct, forbid_unknown_fields=True):
    id: Annotated[str, _form("[A-Z]{4}-[1-9][0-9]{0,2}", "Area and number.")]
    area: Annotated[str, _form("[A-Z]{4}")]
    level: Literal["must", "should", "future"]
    capability: str
    text: str
    verdict: Literal["not_claimed", "skipped", "passed", "known_deviation", "failed", "error"]
    cases: list[CaseData]


class DeviationData(Struct, forbid_unknown_fields=True):
    contract: str
    case: Annotated[str, _about("A glob over case ids.")]
    reason: str
    link: str | None
    expires: (
        Annotated[str, _form("[0-9]{4}-[0-9]{2}-[0-9]{2}", "The last day on which it counts.")]
        | None
    )


class ReportData(Struct, forbid_unknown_fields=True):
    """One run of the conformance suite against one implementation.

    Verdicts are ordered not_claimed, skipped, passed, known_deviation, failed, error; a contract
    has the highest verdict of its cases.
    """

    report_version: Annotated[Literal[1], _about("The version of this schema.")]
    suite: SuiteData
    implementation: ImplementationData
    run: RunData
    summary: SummaryData
    contracts: Annotated[list[ContractData], _about("The selected contracts.")]
    deviations: Annotated[
        list[DeviationData], _about("The accepted failures that the run was given.")
    ]
    digest: Annotated[
        Sha256,
        _about(
            "SHA-256 of the canonical JSON (members sorted, no white space, non-ASCII escaped) of "
            "everything else."
        ),
    ]


def malformation(data: object) -> str | None:
    """The first place where data is not in the form of a report, as a sentence; None if it is."""
    try:
        msgspec.convert(data, ReportData)
    except msgspec.ValidationError as error:
        what, _, place = str(error).partition(" - at ")
        where = f" at {place.strip('`').removeprefix('$.')}" if place else ""
        return f"The report is malformed{where}: {what[0].lower()}{what[1:]}."
    return None


def schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a report."""
    made = msgspec.json.schema(ReportData)
    whole = made["$defs"].pop("ReportData")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **whole,
        "title": "Conformance report of an NVFP4 plan cache",
        "description": " ".join(whole["description"].split()),
        "$defs": made["$defs"],
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(schema(), indent=2) + "\n")
