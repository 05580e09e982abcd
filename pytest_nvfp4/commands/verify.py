"""``nvfp4-conformance verify``: prove reports and badges."""

import argparse

from pytest_nvfp4.commands.output import show
from pytest_nvfp4.extras import require_suite

SUMMARY = "prove reports and badges"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the files, and what else to compare them with."""
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="reports; or one report and its badges"
    )
    parser.add_argument(
        "--deviations", metavar="FILE.toml", help="compare with the deviations of the run"
    )
    parser.add_argument("--impl", metavar="IMPL", help="compare with this implementation")


def execute(options: argparse.Namespace) -> int:
    """Prove reports: their own digests and verdicts, the suite and contracts of this package, and
    on request the deviations and the implementation; prove badges by the report among the files.
    The exit status is 1 where a file is not proven.
    """
    from pytest_nvfp4.verification import proof

    own = None
    if options.impl is not None:
        require_suite("--impl")
        from pytest_nvfp4.implementations.smoke import description_of
        from pytest_nvfp4.results.report import Implementation

        description = description_of(options.impl)
        names = ("name", "version", "language", "homepage", "capabilities")
        members = {name: getattr(description, name) for name in names}
        own = Implementation(target=options.impl, **members)
    status = 0
    for name, problems in proof.verify(options.files, options.deviations, own):
        for problem in problems:
            show(f"{name}: {problem}")
        show(f"{name} is {'not ' * bool(problems)}proven")
        status = max(status, bool(problems))
    return status
