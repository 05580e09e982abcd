"""What a run judges: the selected contracts, their cases, and the deviations that are known."""

import datetime
from collections.abc import Collection, Iterator
from pathlib import Path

from pytest_nvfp4.errors import UsageError
from pytest_nvfp4.implementations.loader import Target
from pytest_nvfp4.implementations.messages import Description
from pytest_nvfp4.results import deviations
from pytest_nvfp4.specification import contracts
from pytest_nvfp4.specification.contracts import Specification
from pytest_nvfp4.suite.cases import Case, cases_of, suite_files
from pytest_nvfp4.suite.options import Settings


def selected_contracts(specification: Specification, settings: Settings) -> frozenset[str]:
    """The ids of the contracts that the settings select; UsageError for a name that is unknown."""
    chosen = specification.contracts
    if settings.contract is not None:
        try:
            chosen = contracts.select(specification, settings.contract)
        except ValueError as error:
            raise UsageError(f"{settings.sources['contract']}: {error}") from None
    levels = ("must",) if settings.level == "must" else ("must", "should", contracts.FUTURE)
    return frozenset(contract.id for contract in chosen if contract.level in levels)


def read_deviations(path: Path | None, specification: Specification) -> deviations.Deviations:
    """The deviations of a file, none without one; UsageError for a mistake in it."""
    if path is None:
        return deviations.Deviations()
    try:
        today = datetime.date.today()
        return deviations.read(path, specification=specification, today=today)
    except ValueError as error:
        raise UsageError(str(error)) from None


def selected_cases(
    specification: Specification,
    selected: Collection[str],
    target: Target,
    description: Description,
) -> Iterator[Case]:
    """The cases of selected contracts for which the implementation claims what they need.

    Those of a future contract are listed whatever is claimed: they skip themselves by name.
    """
    for file in suite_files():
        for case in cases_of(file, specification, target.transports):
            needed = case.needs | {case.contract.capability}
            future = case.contract.level == contracts.FUTURE
            if case.contract.id in selected and (future or needed <= description.has):
                yield case
