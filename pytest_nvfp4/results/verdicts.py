"""Outcomes of single cases, and the verdict of each contract that they make.

Verdicts are ordered: not claimed < skipped < passed < known deviation < failed < error. A
contract's verdict is the highest of its cases', so one failure is never outvoted, and a contract
of which nothing ran can only be skipped or not claimed.
"""

import enum
import functools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_nvfp4.specification.contracts import FUTURE, Contract, Specification, unknown

IN_PROCESS = "in process"
JSON_LINES = "JSON lines"
NO_TRANSPORT = "none"
"""The transport of a case about the run itself, such as a stale deviation."""

TRANSPORTS = (IN_PROCESS, JSON_LINES, NO_TRANSPORT)


@functools.total_ordering
class Verdict(enum.Enum):
    """The outcome of a case or a contract; the greater one decides.

    A passed verdict is greater than a skipped one: a case that ran decides over those that could
    not run. `value` is the name in reports.
    """

    NOT_CLAIMED = "not_claimed"
    SKIPPED = "skipped"
    PASSED = "passed"
    KNOWN_DEVIATION = "known_deviation"
    FAILED = "failed"
    ERROR = "error"

    @property
    def rank(self) -> int:
        """The position in the order, from 0."""
        return list(Verdict).index(self)

    @property
    def words(self) -> str:
        """The verdict in plain English."""
        return self.value.replace("_", " ")

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, Verdict):
            return NotImplemented
        return self.rank < other.rank


@dataclass(frozen=True, slots=True)
class CaseResult:
    """The outcome of one case of one contract over one transport.

    `case` is the parameter id, `message` the reason of anything but a pass, `seconds` the wall
    time, `reproducer` the path of a file that shows the failure, `reproduction` the beginning and
    the end of what that file holds. Not-claimed is a verdict about a contract and no case can have
    it.
    """

    contract: str
    case: str
    transport: str
    verdict: Verdict
    message: str = ""
    seconds: float = 0.0
    reproducer: str | None = None
    reproduction: str = ""

    def __post_init__(self) -> None:
        where = f"Case {self.case!r} of {self.contract}"
        if self.transport not in TRANSPORTS:
            raise ValueError(f"{where} has the unknown transport {self.transport!r}.")
        if self.verdict is Verdict.NOT_CLAIMED:
            raise ValueError(f"{where} ran or was skipped, so it cannot be 'not claimed'.")
        if not (math.isfinite(self.seconds) and self.seconds >= 0):
            raise ValueError(f"{where} has the impossible duration {self.seconds!r}.")

    def to_json(self) -> dict[str, Any]:
        """The case as plain data that survives JSON and process borders."""
        return {
            "contract": self.contract,
            "case": self.case,
            "transport": self.transport,
            "verdict": self.verdict.value,
            "message": self.message,
            "seconds": self.seconds,
            "reproducer": self.reproducer,
            "reproduction": self.reproduction,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "CaseResult":
        """The inverse of `to_json`; TypeError or ValueError for any other data."""
        return cls(**{**data, "verdict": Verdict(data["verdict"])})


@dataclass(frozen=True, slots=True)
class ContractResult:
    """A contract, its verdict and the cases behind it, in a deterministic order."""

    contract: Contract
    verdict: Verdict
    cases: tuple[CaseResult, ...]

    def over(self, transport: str) -> Verdict | None:
        """The verdict of the cases over one transport; None where there is no such case."""
        return join(case.verdict for case in self.cases if case.transport == transport)

    @property
    def reason(self) -> str:
        """Why the contract is skipped or not claimed; empty for any other verdict."""
        if self.verdict is Verdict.NOT_CLAIMED:
            return f"the implementation does not claim {self.contract.capability!r}"
        if self.verdict is not Verdict.SKIPPED:
            return ""
        reasons = dict.fromkeys(case.message for case in self.cases if case.message)
        return "; ".join(reasons) or "no case of it ran"


@dataclass(frozen=True, slots=True)
class Counts:
    """How many contracts have each verdict."""

    passed: int = 0
    failed: int = 0
    known_deviation: int = 0
    skipped: int = 0
    not_claimed: int = 0
    error: int = 0

    @property
    def total(self) -> int:
        """All of them, the skipped and the not claimed included."""
        return sum(self.of(verdict) for verdict in Verdict)

    def of(self, verdict: Verdict) -> int:
        """How many have this verdict."""
        count: int = getattr(self, verdict.value)
        return count


def join(verdicts: Iterable[Verdict]) -> Verdict | None:
    """The highest verdict; None of nothing."""
    return max(verdicts, default=None)


def count(verdicts: Iterable[Verdict]) -> Counts:
    """Count verdicts."""
    found = [verdict.value for verdict in verdicts]
    return Counts(**{verdict.value: found.count(verdict.value) for verdict in Verdict})


def aggregate(
    specification: Specification,
    cases: Iterable[CaseResult],
    *,
    claimed: Collection[str],
    selected: Collection[str] | None = None,
) -> tuple[ContractResult, ...]:
    """One result for each selected contract, in the specification's order.

    `claimed` holds the implementation's capabilities; `selected` the ids of the selected
    contracts, or None for all. A contract without a case is skipped where its capability is
    claimed, else not claimed. ValueError for a case of an unknown or unselected contract, since
    its verdict would be lost.
    """
    by_contract: dict[str, list[CaseResult]] = {
        contract.id: []
        for contract in specification.contracts
        if selected is None or contract.id in selected
    }
    for case in cases:
        if case.contract not in by_contract:
            known = any(case.contract == contract.id for contract in specification.contracts)
            raise ValueError(
                f"Case {case.case!r} belongs to {case.contract}, which was not selected."
                if known
                else f"Case {case.case!r}: {unknown(specification, case.contract)}"
            )
        by_contract[case.contract].append(case)
    return tuple(
        judge(contract, by_contract[contract.id], claimed=contract.capability in claimed)
        for contract in specification.contracts
        if contract.id in by_contract
    )


def judge(contract: Contract, cases: Sequence[CaseResult], *, claimed: bool) -> ContractResult:
    """The result of one contract from its cases.

    Cases that only skipped do not turn an unclaimed contract into a skipped one; a case that ran
    counts whether the capability was claimed or not.
    """
    listed = contract.level == FUTURE and bool(cases)
    without = Verdict.SKIPPED if claimed or listed else Verdict.NOT_CLAIMED
    ran = [case.verdict for case in cases if case.verdict > Verdict.SKIPPED]
    return ContractResult(contract, join(ran) or without, tuple(sorted(cases, key=_order)))


def _order(case: CaseResult) -> tuple[str, int, int, str]:
    return (case.case, TRANSPORTS.index(case.transport), case.verdict.rank, case.message)
