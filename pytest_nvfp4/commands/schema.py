"""``nvfp4-conformance schema``: the adapter interface, for people who write adapters."""

import argparse

SUMMARY = "print the adapter interface as JSON Schema"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "--table", action="store_true", help="a Markdown table of the operations instead"
    )


def execute(options: argparse.Namespace) -> int:
    """Print the JSON Schema of every request, reply and answer of the adapter interface."""
    from pytest_nvfp4.implementations import schema, stubs

    print(stubs.table() if options.table else schema.text(), end="")
    return 0
