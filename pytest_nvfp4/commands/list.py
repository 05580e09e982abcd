"""``nvfp4-conformance list``: the contracts, one line each."""

import argparse

from pytest_nvfp4.commands.output import width
from pytest_nvfp4.text import clip

SUMMARY = "list the contracts"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the selection."""
    parser.add_argument("contracts", nargs="?", metavar="IDS", help="such as PUBL,NDOC-4 (all)")


def execute(options: argparse.Namespace) -> int:
    """List contracts, one line each: id, level, the capability they belong to, and the text, which
    is cut to the width of a terminal.
    """
    from pytest_nvfp4.specification import contracts

    specification = contracts.packaged()
    chosen = specification.contracts
    if options.contracts is not None:
        chosen = contracts.select(specification, options.contracts)
    widest = max(map(len, specification.capabilities))
    columns = width()
    for contract in chosen:
        capability = f"{contract.capability:<{widest}}"
        line = f"{contract.id:<8} {contract.level.upper():<6} {capability} {contract.text}"
        print(line if columns is None else clip(line, columns))
    return 0
