"""``nvfp4-conformance compare``: reports side by side, in the terminal and as a page."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_nvfp4.commands import arguments, output
from pytest_nvfp4.errors import UsageError

if TYPE_CHECKING:
    from pytest_nvfp4.views.comparison import Comparison

SUMMARY = "show reports side by side, in the terminal and as a page"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the reports, the page and the colours."""
    parser.add_argument("reports", nargs="+", metavar="[NAME=]REPORT", help="1 to 8 reports")
    parser.add_argument("--html", metavar="FILE.html", help="also write one self-contained page")
    parser.add_argument(
        "--plans",
        action="append",
        default=[],
        metavar="[NAME=]FILE",
        help="a cache file to show on the page beside the oracle; repeatable",
    )
    arguments.add_all(parser, "every contract, also those on which all reports agree")
    parser.add_argument(
        "--color", choices=("auto", "always", "never"), default="auto", help="(auto)"
    )


def execute(options: argparse.Namespace) -> int:
    """Compare reports contract by contract; with --html also as a page that needs nothing else."""
    from pytest_nvfp4.commands.named_files import read_reports
    from pytest_nvfp4.specification.contracts import packaged
    from pytest_nvfp4.views import marks, matrix

    comparison = read_reports(options.reports, packaged())
    if options.html is not None:
        _write(Path(options.html), comparison, options.plans)
    elif options.plans:
        raise UsageError("--plans is shown on the page only; add --html FILE.html")
    colour = output.colour(options.color)
    shown = matrix.lines(
        comparison,
        width=output.width(),
        ascii_only=output.ascii_only(),
        everything=options.all,
    )
    for line in shown:
        print(marks.painted(line) if colour else marks.plain([line]).rstrip())
    return 0


def _write(path: Path, comparison: Comparison, plans: Sequence[str]) -> None:
    from pytest_nvfp4.commands.named_files import read_maps
    from pytest_nvfp4.views import page

    if path.suffix not in (".html", ".htm"):
        raise UsageError(f"--html is {str(path)!r}; its name must end in .html")
    maps = read_maps(plans)
    try:
        page.write(path, comparison, maps)
    except OSError as error:
        why = f"{error.strerror} ({error.filename})"
        raise UsageError(f"cannot write {path}: {why}") from None
