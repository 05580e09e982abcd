"""The ``nvfp4-conformance`` command: its subcommands, exit statuses, and how it ends.

Exit status 0: everything is as it should be. 1: something was judged and is wrong, or, with a
traceback, this package has a defect. 4: the call is wrong, as one sentence says. 130: interrupted.
141: the reader of the output ended first, as with `nvfp4-conformance list | head -1`.
"""

import argparse
import io
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, Protocol

import pytest_nvfp4
from pytest_nvfp4 import extras
from pytest_nvfp4.commands import (
    check,
    compare,
    demo,
    diff,
    explain,
    init,
    output,
    run,
    schema,
    smoke,
    verify,
)
from pytest_nvfp4.commands import list as list_contracts
from pytest_nvfp4.errors import UsageError

USAGE_ERROR, INTERRUPTED, CLOSED_PIPE = 4, 130, 141


class Command(Protocol):
    """A module of `pytest_nvfp4.commands`."""

    SUMMARY: str

    def add_arguments(self, parser: argparse.ArgumentParser, /) -> None:
        """Add the command's arguments."""

    def execute(self, options: argparse.Namespace, /) -> int:
        """Do the work and return the exit status."""


COMMANDS: Mapping[str, Command] = {
    "run": run,
    "smoke": smoke,
    "init": init,
    "demo": demo,
    "list": list_contracts,
    "explain": explain,
    "check": check,
    "diff": diff,
    "compare": compare,
    "verify": verify,
    "schema": schema,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand and return the exit status."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # for a terminal without UTF-8
    parser = _parser()
    options, rest = parser.parse_known_args(arguments)
    if rest and not options.passes_on:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    options.rest = rest
    try:
        return _execute(options)
    except UsageError as error:
        output.show(f"{parser.prog}: {error}", sys.stderr)
        return USAGE_ERROR
    except BrokenPipeError:
        # The reader of the output, such as `head`, has ended; nothing more is written to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLOSED_PIPE
    except KeyboardInterrupt:
        return INTERRUPTED


def _execute(options: argparse.Namespace) -> int:
    command: Command = options.command
    try:
        status = command.execute(options)
        if sys.stdout is not None:
            sys.stdout.flush()  # a closed pipe is noticed here and not when the process ends
    except ModuleNotFoundError as error:
        if error.name not in extras.SUITE:
            raise
        raise UsageError(extras.missing(f"`{options.name}`", [error.name])) from None
    return status


class _Parser(argparse.ArgumentParser):
    """A parser with errors of one sentence and without abbreviated options."""

    def __init__(self, **options: Any):
        super().__init__(allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        output.show(f"{self.prog}: {message}; see {self.prog} --help", sys.stderr)
        self.exit(USAGE_ERROR)


def _parser() -> _Parser:
    parser = _Parser(
        prog="nvfp4-conformance",
        description="Judge an NVFP4 plan cache, or a cache file, by the contracts of plan caches.",
        epilog="Exit status: 0 if all is well, 1 if what was judged is wrong, 4 if the call is "
        "wrong, 130 if interrupted.",
    )
    parser.add_argument("--version", action="version", version=pytest_nvfp4.__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND", title="commands")
    for name, command in COMMANDS.items():
        sub = commands.add_parser(name, help=command.SUMMARY, description=command.execute.__doc__)
        command.add_arguments(sub)
        passes_on = sub.get_default("passes_on") or False
        sub.set_defaults(name=name, command=command, passes_on=passes_on)
    return parser


if __name__ == "__main__":
    sys.exit(main())
