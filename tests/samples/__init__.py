"""Sample results of invented implementations, for the tests of results and how they are shown."""

import copy
import datetime
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from pytest_nvfp4.results import report
from pytest_nvfp4.results.deviations import Deviation
from pytest_nvfp4.results.verdicts import (
    IN_PROCESS,
    JSON_LINES,
    CaseResult,
    ContractResult,
    Verdict,
    aggregate,
)
from pytest_nvfp4.specification.contracts import Specification, load

SPEC = load((Path(__file__).with_name("specification.toml")).read_text(encoding="utf-8"))
"""A specification of its own: how results are counted does not change when the real one grows."""
ALL = frozenset(SPEC.capabilities)
NOTHING = "00" * 32

unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""For every property test: how fast this machine is today is not what they are about."""


def case(
    contract: str,
    verdict: Verdict = Verdict.PASSED,
    *,
    name: str = "plain",
    transport: str = IN_PROCESS,
    message: str = "",
    reproducer: str | None = None,
) -> CaseResult:
    return CaseResult(contract, name, transport, verdict, message, 0.25, reproducer)


def outcome(
    changed: Mapping[str, Verdict] | None = None,
    *,
    claimed: Collection[str] = ALL,
    selected: Collection[str] | None = None,
    specification: Specification = SPEC,
) -> tuple[ContractResult, ...]:
    """A run in which every claimed, selected contract passed over both transports, but `changed`.

    A changed contract has its verdict in process and passed over JSON lines; one that is changed
    to skipped is so over both.
    """
    cases = []
    for contract in specification.contracts:
        if contract.capability in claimed and (selected is None or contract.id in selected):
            verdict = (changed or {}).get(contract.id, Verdict.PASSED)
            other = verdict if verdict is Verdict.SKIPPED else Verdict.PASSED
            message = "" if verdict is Verdict.PASSED else f"why it is {verdict.words}"
            cases.append(case(contract.id, verdict, message=message))
            cases.append(case(contract.id, other, transport=JSON_LINES, message=message))
    return aggregate(specification, cases, claimed=claimed, selected=selected)


def implementation(
    name: str = "toy-cache", capabilities: Collection[str] = ALL
) -> report.Implementation:
    return report.Implementation(
        target="toy.adapter:make",
        name=name,
        version="0.3",
        language="C++",
        homepage="https://example.org/toy",
        capabilities=capabilities,
    )


def run(*, whole: bool = True, selection: str = "") -> report.Run:
    return report.Run(
        started=datetime.datetime(2031, 5, 4, 3, 2, 1, tzinfo=datetime.UTC),
        seconds=12.3456,
        seed=81234,
        python="3.11.9",
        platform="Linux x86_64",
        selection=selection,
        whole=whole,
    )


def report_of(
    results: tuple[ContractResult, ...],
    *,
    claimed: Collection[str] = ALL,
    whole: bool = True,
    name: str = "toy-cache",
    deviations: tuple[Deviation, ...] = (),
) -> dict[str, Any]:
    return report.build(
        SPEC,
        results,
        implementation=implementation(name, claimed),
        run=run(whole=whole),
        suite_version="0.1.0",
        suite_digest=NOTHING,
        deviations=deviations,
    )


def hostile(data: Any, text: str) -> Any:
    """Every free text of a report replaced; what the format fixes stays."""
    made = copy.deepcopy(data)
    for name in ("target", "name", "version", "language", "homepage"):
        made["implementation"][name] = text
    for name in ("python", "platform", "selection"):
        made["run"][name] = text
    made["suite"]["version"] = text
    for contract in made["contracts"]:
        contract["text"] = text
        for number, case in enumerate(contract["cases"]):
            case.update(case=f"{number}{text}", message=text, reproducer=text, reproduction=text)
    return made


@pytest.fixture(autouse=True)
def sample_specification(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports are about the sample specification, in rooms whose conftest imports this."""
    monkeypatch.setattr("pytest_nvfp4.results.report.packaged", lambda: SPEC)
