"""``nvfp4-conformance check``: judge a cache file and show what it covers."""

from __future__ import annotations

import argparse
import gc
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pytest_nvfp4.commands import arguments
from pytest_nvfp4.commands.output import show
from pytest_nvfp4.errors import UsageError

if TYPE_CHECKING:
    from pytest_nvfp4.cache_files.reader import CacheFile

SUMMARY = "judge a cache file and show what it covers"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the file and the environment."""
    parser.add_argument("file", metavar="FILE", help="a native or a FlashInfer document")
    parser.add_argument(
        "--expect",
        metavar="FILE|oracle",
        help="judge it under the environment of another cache file (its own)",
    )
    arguments.add_all(parser, "every row and every line in full")


def execute(options: argparse.Namespace) -> int:
    """Judge a cache file of either dialect and show what it covers. The exit status is 1 where it
    is rejected.
    """
    from pytest_nvfp4 import oracle
    from pytest_nvfp4.cache_files import description

    gc.disable()  # a large document is millions of small values, and this process ends soon
    expected: dict[str, object] | None = None
    if options.expect == "oracle":
        expected = dict(oracle.load().metadata)
    elif options.expect is not None:
        other = read_cache_file(options.expect)
        if not other.metadata:
            raise UsageError(
                f"{options.expect} has no metadata to take the environment from; name a cache file"
            )
        expected = dict(other.metadata)
    checked = read_cache_file(options.file, expected)
    for line in description.describe(checked, everything=options.all):
        show(line)
    return 0 if checked.judgement.accepted else 1


def read_cache_file(path: str, expected: Mapping[str, object] | None = None) -> CacheFile:
    """Read and judge a cache file; UsageError where it cannot be opened or read at all."""
    from pytest_nvfp4.cache_files import reader

    checked = reader.check(path, expected)
    for finding in checked.judgement.findings:
        if "unreadable" in finding.codes:
            raise UsageError(f"{finding.message}; name a file that can be read")
    return checked
