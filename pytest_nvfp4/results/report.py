"""The JSON report of a conformance run: what was tested, by what, and with which outcome.

A report stands alone: it carries every contract's text and verdict, every case, and digests that
tie it to the specification, to the suite's files, to the implementation and to its own content.
`report_format` declares its form; `verify` checks that a report is consistent. A digest shows an
accident or a careless edit; it is no signature.
"""

import datetime
import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from pytest_nvfp4.errors import UsageError
from pytest_nvfp4.results.deviations import Deviation
from pytest_nvfp4.results.files import publish
from pytest_nvfp4.results.report_format import REPORT_VERSION, malformation
from pytest_nvfp4.results.verdicts import CaseResult, ContractResult, Verdict, count, judge
from pytest_nvfp4.specification.contracts import LEVELS, Contract, Specification, packaged

__all__ = [
    "REPORT_VERSION",
    "Implementation",
    "Run",
    "build",
    "contract_results",
    "dumps",
    "identity",
    "inconsistencies",
    "loads",
    "suite_digest",
    "verify",
    "write",
]

_IDENTITY = ("name", "version", "language", "homepage", "capabilities")


@dataclass(frozen=True, slots=True, kw_only=True)
class Implementation:
    """What was tested: `target` as the user named it, and what it reports of itself."""

    target: str
    name: str
    version: str
    language: str
    homepage: str
    capabilities: Collection[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """How it was tested.

    `started` is an aware time; `seconds` the wall time; `seed` lies in 0 to 2^53 - 1, so that every
    JSON reader keeps it; `selection` are the contracts as the user named them, empty for all;
    `whole` is true where every case of the selected contracts ran to its end: none was deselected,
    and the run was not stopped.
    """

    started: datetime.datetime
    seconds: float
    seed: int
    python: str
    platform: str
    selection: str = ""
    whole: bool


def build(
    specification: Specification,
    results: Sequence[ContractResult],
    *,
    implementation: Implementation,
    run: Run,
    suite_version: str,
    suite_digest: str,
    deviations: Iterable[Deviation] = (),
) -> dict[str, Any]:
    """The report as JSON data, in a fixed order of members; seconds are rounded to milliseconds.

    ValueError if it would not satisfy its own schema, as with a seed out of range.
    """
    if run.started.tzinfo is None:
        raise ValueError("The start of the run has no time zone; give an aware time.")
    complete = run.whole and [r.contract for r in results] == list(specification.contracts)
    own = _own(implementation)
    report: dict[str, Any] = {
        "report_version": REPORT_VERSION,
        "suite": {
            "version": suite_version,
            "specification_version": specification.version,
            "specification_digest": specification.digest,
            "digest": suite_digest,
        },
        "implementation": {
            "target": implementation.target,
            **own,
            "identity": digest(own),
        },
        "run": {
            "started": run.started.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "seconds": round(run.seconds, 3),
            "seed": run.seed,
            "python": run.python,
            "platform": run.platform,
            "selection": run.selection,
            "complete": complete,
        },
        "summary": {level: _summary(results, level) for level in LEVELS},
        "contracts": [_contract(result) for result in results],
        "deviations": [_deviation(deviation) for deviation in deviations],
    }
    report = _plain(report)
    report["digest"] = _own_digest(report)
    problem = malformation(report)
    if problem is not None:
        raise ValueError(problem)
    return report


def identity(implementation: Implementation) -> str:
    """The digest of what an implementation reports of itself, as in a report's `identity`."""
    return digest(_own(implementation))


def _own(implementation: Implementation) -> dict[str, Any]:
    own: dict[str, Any] = _plain({name: getattr(implementation, name) for name in _IDENTITY})
    own["capabilities"] = sorted(set(own["capabilities"]))
    return own


def dumps(report: Mapping[str, Any]) -> str:
    """The report as text: two-space indent, members in the report's order, one final LF."""
    return json.dumps(report, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def write(path: Path, report: Mapping[str, Any]) -> None:
    """Write the report to a file in one step."""
    publish(path, dumps(report).encode("utf-8"))


def loads(text: str) -> Any:
    """JSON text as data; UsageError where it is not JSON or repeats a member."""

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        data = dict(pairs)
        if len(data) != len(pairs):
            raise ValueError("a member name occurs twice")
        return data

    def number(literal: str) -> float:
        raise ValueError(f"{literal} is not a JSON number")

    try:
        return json.loads(text, object_pairs_hook=members, parse_constant=number)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"The report is not valid JSON: {error}.") from error


def verify(report: object) -> list[str]:
    """Everything that is inconsistent in a report, one sentence each; an empty list if nothing is.

    Any JSON data may be given. After what `inconsistencies` finds come the contracts against this
    package's specification, where the report names its version.
    """
    found = inconsistencies(report)
    if isinstance(report, dict) and malformation(report) is None:
        found += _against(packaged(), report)
    return found


def inconsistencies(report: object) -> list[str]:
    """Where a report disagrees with itself, whatever suite it was made by.

    Any JSON data may be given. The format comes first, and nothing else is looked at before that
    is right; then the digests, the verdicts against the cases, and the counts.
    """
    problem = malformation(report)
    if problem is not None:
        return [problem]
    assert isinstance(report, dict)
    found = []
    if report["digest"] != _own_digest(report):
        found.append("The report's digest does not match its content; it was altered.")
    try:
        datetime.datetime.fromisoformat(report["run"]["started"])
    except ValueError:
        found.append(f"The run cannot have started at {report['run']['started']}.")
    own = report["implementation"]
    if own["identity"] != digest({name: own[name] for name in _IDENTITY}):
        found.append("The implementation's identity does not match its description in the report.")
    results = contract_results(report)
    for result in results:
        found += _problems_of(result, own["capabilities"])
    ids = [result.contract.id for result in results]
    found += [f"{id_} is listed twice." for id_ in sorted({i for i in ids if ids.count(i) > 1})]
    for level in LEVELS:
        if report["summary"][level] != _summary(results, level):
            found.append(f"The summary of {level} does not add up.")
    return found


def contract_results(report: Mapping[str, Any]) -> tuple[ContractResult, ...]:
    """The results in a report that satisfies the schema; a contract's source is not in a report."""
    return tuple(
        ContractResult(
            Contract(
                id=entry["id"],
                area=entry["area"],
                number=int(entry["id"].rpartition("-")[2]),
                level=entry["level"],
                capability=entry["capability"],
                text=entry["text"],
                source="",
            ),
            Verdict(entry["verdict"]),
            tuple(
                CaseResult.from_json({**case, "contract": entry["id"]}) for case in entry["cases"]
            ),
        )
        for entry in report["contracts"]
    )


def digest(data: object) -> str:
    """The SHA-256, 64 hex digits, of data's canonical JSON: sorted, no white space, ASCII."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def suite_digest(folder: Traversable | None = None) -> str:
    """The SHA-256 over the names and bytes of the conformance files: the tests and contracts.toml.

    `folder` is the packaged suite unless given. What an interpreter or an editor leaves there
    does not count.
    """
    folder = folder or resources.files("pytest_nvfp4.conformance")
    files = {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in folder.iterdir()
        if file.is_file() and (file.name.endswith(".py") or file.name == "contracts.toml")
    }
    return digest(files)


def _own_digest(report: Mapping[str, Any]) -> str:
    return digest({name: value for name, value in report.items() if name != "digest"})


def _summary(results: Iterable[ContractResult], level: str) -> dict[str, int]:
    counts = count(result.verdict for result in results if result.contract.level == level)
    return {**asdict(counts), "total": counts.total}


def _contract(result: ContractResult) -> dict[str, Any]:
    contract = result.contract
    return {
        "id": contract.id,
        "area": contract.area,
        "level": contract.level,
        "capability": contract.capability,
        "text": contract.text,
        "verdict": result.verdict.value,
        "cases": [_case(case) for case in result.cases],
    }


def _case(case: CaseResult) -> dict[str, Any]:
    data = {
        "case": case.case,
        "transport": case.transport,
        "verdict": case.verdict.value,
        "message": case.message,
        "seconds": round(case.seconds, 3),
        "reproducer": case.reproducer,
    }
    return data | ({"reproduction": case.reproduction} if case.reproduction else {})


def _deviation(deviation: Deviation) -> dict[str, Any]:
    return {
        "contract": deviation.contract,
        "case": deviation.case,
        "reason": deviation.reason,
        "link": deviation.link,
        "expires": deviation.expires and deviation.expires.isoformat(),
    }


def _plain(data: Any) -> Any:
    """Data whose texts UTF-8 can hold: a lone surrogate, as in an odd path, becomes visible."""
    if isinstance(data, str):
        return data.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(data, dict):
        return {name: _plain(value) for name, value in data.items()}
    if isinstance(data, Collection):
        return [_plain(value) for value in data]
    return data


def _problems_of(result: ContractResult, claimed: Collection[str]) -> list[str]:
    contract = result.contract
    found = []
    if contract.area != contract.id.partition("-")[0]:
        found.append(f"{contract.id} is listed under the area {contract.area}.")
    made = judge(contract, result.cases, claimed=contract.capability in claimed).verdict
    if result.verdict is not made:
        found.append(
            f"{contract.id} is called {result.verdict.words}, but its cases make it {made.words}."
        )
    return found


def _against(specification: Specification, report: Mapping[str, Any]) -> list[str]:
    suite = report["suite"]
    if suite["specification_version"] != specification.version:
        return []
    if suite["specification_digest"] != specification.digest:
        return [f"The report was made with another text of specification {specification.version}."]
    known = {contract.id: contract for contract in specification.contracts}
    found = []
    for entry in report["contracts"]:
        contract = known.get(entry["id"])
        if contract is None or any(
            entry[name] != getattr(contract, name) for name in ("level", "capability", "text")
        ):
            found.append(f"{entry['id']} is not as specification {specification.version} has it.")
    missing = sorted(set(known) - {entry["id"] for entry in report["contracts"]})
    if report["run"]["complete"] and missing:
        found.append(f"The report calls itself complete, but it lacks {', '.join(missing)}.")
    return found
