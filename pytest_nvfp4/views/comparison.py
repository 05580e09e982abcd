"""Several reports side by side: which contract has which verdict in which of them.

`matrix` shows a comparison in the terminal, `page` in a browser.
"""

import string
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_nvfp4.errors import UsageError
from pytest_nvfp4.results import report as reports
from pytest_nvfp4.results.verdicts import ContractResult, Verdict, count
from pytest_nvfp4.specification.contracts import Contract, Specification
from pytest_nvfp4.views import badge
from pytest_nvfp4.views.badge import Badge


@dataclass(frozen=True, slots=True)
class Column:
    """One report: its letter, its label, which no other has, and its results by contract id."""

    letter: str
    label: str
    report: Mapping[str, Any]
    results: Mapping[str, ContractResult]
    badge: Badge


@dataclass(frozen=True, slots=True)
class Row:
    """One contract, and its result in each column; None where it was not selected there."""

    contract: Contract
    results: tuple[ContractResult | None, ...]

    @property
    def verdicts(self) -> tuple[Verdict | None, ...]:
        return tuple(None if result is None else result.verdict for result in self.results)

    @property
    def differs(self) -> bool:
        """Whether two columns that have the contract give it different verdicts."""
        return len(set(self.verdicts) - {None}) > 1

    @property
    def quiet(self) -> bool:
        """Whether it passed wherever it is claimed: its area's counts say as much."""
        return set(self.verdicts) <= {None, Verdict.PASSED, Verdict.NOT_CLAIMED}


@dataclass(frozen=True, slots=True)
class AreaRows:
    """The rows of one area; the title is empty where this package does not know the area."""

    id: str
    title: str
    rows: tuple[Row, ...]

    def counts(self, column: int) -> tuple[int, int]:
        """How many contracts passed in a column, and how many were claimed there."""
        counts = count(v for row in self.rows if (v := row.verdicts[column]) is not None)
        return counts.passed, counts.total - counts.not_claimed


@dataclass(frozen=True, slots=True)
class Comparison:
    """Everything that is shown: the columns, the areas, and notes on what limits the comparison."""

    columns: tuple[Column, ...]
    areas: tuple[AreaRows, ...]
    notes: tuple[str, ...]

    @property
    def rows(self) -> tuple[Row, ...]:
        return tuple(row for area in self.areas for row in area.rows)

    @property
    def specifications(self) -> tuple[str, ...]:
        """The versions of the specification that the reports are about."""
        return tuple(
            dict.fromkeys(c.report["suite"]["specification_version"] for c in self.columns)
        )


def of(
    labelled: Sequence[tuple[str | None, Mapping[str, Any]]], specification: Specification
) -> Comparison:
    """The comparison of consistent reports, each with its label or None for its name and version.

    UsageError where two have one label.
    """
    columns = tuple(
        _column(letter, label, report)
        for letter, (label, report) in zip(string.ascii_uppercase, labelled, strict=False)
    )
    labels = [column.label for column in columns]
    for label in labels:
        if labels.count(label) > 1:
            raise UsageError(f"two reports are called {label!r}; give each a name of its own")
    contracts: dict[str, Contract] = {}
    for column in columns:
        for id_, result in column.results.items():
            contracts.setdefault(id_, result.contract)
    order = {contract.id: index for index, contract in enumerate(specification.contracts)}
    known = len(order)
    ordered = sorted(contracts.values(), key=lambda c: (order.get(c.id, known), c.area, c.number))
    titles = {area.id: area.title for area in specification.areas}
    areas = tuple(
        AreaRows(
            area,
            titles.get(area, ""),
            tuple(
                Row(contract, tuple(column.results.get(contract.id) for column in columns))
                for contract in ordered
                if contract.area == area
            ),
        )
        for area in dict.fromkeys(contract.area for contract in ordered)
    )
    return Comparison(columns, areas, tuple(_notes(columns)))


def _column(letter: str, label: str | None, report: Mapping[str, Any]) -> Column:
    own = report["implementation"]
    results = reports.contract_results(report)
    earned = badge.of(
        results,
        complete=report["run"]["complete"],
        version=report["suite"]["specification_version"],
    )
    return Column(
        letter,
        f"{own['name']} {own['version']}" if label is None else label,
        report,
        {result.contract.id: result for result in results},
        earned,
    )


def _notes(columns: Sequence[Column]) -> Iterator[str]:
    """What a reader has to know before drawing conclusions, one sentence each."""
    for member, what in (
        ("specification_version", "versions of the specification"),
        ("specification_digest", "texts of the specification"),
        ("version", "versions of the suite"),
        ("digest", "conformance files"),
    ):
        values = dict.fromkeys(column.report["suite"][member] for column in columns)
        if len(values) > 1:
            groups = (
                " and ".join(c.letter for c in columns if c.report["suite"][member] == value)
                + (f" ({value})" if member.endswith("version") else "")
                for value in values
            )
            yield f"The reports are of different {what}: {', '.join(groups)}."
            break
    for column in columns:
        if not column.report["run"]["complete"]:
            selection = column.report["run"]["selection"]
            why = f"only {selection} was selected" if selection else "it did not run to its end"
            yield f"{column.letter} is a partial run: {why}."
