"""``nvfp4-conformance diff``: how two cache files differ."""

import argparse

from pytest_nvfp4.commands import arguments
from pytest_nvfp4.commands.check import read_cache_file
from pytest_nvfp4.commands.output import show
from pytest_nvfp4.errors import UsageError
from pytest_nvfp4.text import counted

SUMMARY = "show how two cache files differ"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the two files."""
    parser.add_argument("left", metavar="LEFT", help="a cache file of either dialect")
    parser.add_argument("right", metavar="RIGHT", help="another one")
    arguments.add_all(parser, "every row")


def execute(options: argparse.Namespace) -> int:
    """Compare the environments and plans of two cache files. The exit status is 1 where they
    differ.
    """
    from pytest_nvfp4.cache_files import description

    sides = [read_cache_file(path) for path in (options.left, options.right)]
    for side in sides:
        if not side.judgement.accepted:
            raise UsageError(f"{side.path} is rejected: {side.judgement.findings[0]}")
    lines = list(description.compare(*sides, everything=options.all))
    for line in lines:
        show(line)
    if not lines:
        print(f"the same {counted(len(sides[0].judgement.plans), 'plan')} and the same environment")
    return 1 if lines else 0
