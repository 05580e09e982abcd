"""``nvfp4-conformance explain``: a contract, or an area, in full."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from pytest_nvfp4.commands.output import width
from pytest_nvfp4.text import counted, wrap

if TYPE_CHECKING:
    from pytest_nvfp4.specification.contracts import Area, Contract, Specification

SUMMARY = "explain a contract or an area"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the contract or area."""
    parser.add_argument("contract", metavar="ID", help="a contract or an area: NDOC-8, NDOC")


def execute(options: argparse.Namespace) -> int:
    """Print a contract's text, level, capability and source, or those of all contracts of an
    area.
    """
    from pytest_nvfp4.specification import contracts

    specification = contracts.packaged()
    name = options.contract.upper()
    area = next((area for area in specification.areas if area.id == name), None)
    if area is not None:
        _explain_area(specification, area)
    else:
        _explain(specification, specification.contract(name))
    return 0


def _explain(specification: Specification, contract: Contract) -> None:
    print(f"{contract.id}  {contract.level.upper()}  capability {contract.capability}")
    print()
    _paragraph(contract.text)
    print()
    _paragraph(specification.capabilities[contract.capability])
    _paragraph(f"Source: {contract.source}")
    print(f"  Run it alone: nvfp4-conformance run IMPL --contract {contract.id}")


def _explain_area(specification: Specification, area: Area) -> None:
    count = counted(len(area.contracts), "contract")
    print(f"{area.id}  {area.title}  {count}  capability {area.capability}")
    print()
    _paragraph(specification.capabilities[area.capability])
    _paragraph(f"Source: {area.source}")
    for contract in area.contracts:
        print()
        other = contract.capability != area.capability
        print(
            f"{contract.id}  {contract.level.upper()}"
            + (f"  capability {contract.capability}" if other else "")
        )
        _paragraph(contract.text)
        if contract.source != area.source:
            _paragraph(f"Source: {contract.source}")
    print(f"\nRun them alone: nvfp4-conformance run IMPL --contract {area.id}")


def _paragraph(text: str) -> None:
    for line in wrap(text, max(min(width() or 80, 80) - 2, 20)):
        print(f"  {line}")
