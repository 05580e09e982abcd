"""The ``nvfp4-conformance`` command: the suite for people who do not live in pytest."""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest_nvfp4

USAGE_ERROR = 4


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand; return the exit status: 0 good, 1 not, 4 a mistake in the call."""
    parser = _parser()
    options, rest = parser.parse_known_args(arguments)
    if rest and options.command is not run:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    options.rest = rest
    command: Callable[[argparse.Namespace], int] = options.command
    try:
        return command(options)
    except ValueError as error:
        print(f"nvfp4-conformance: {error}", file=sys.stderr)
        return USAGE_ERROR
    except BrokenPipeError:
        # The reader, such as `head`, has had enough; there is nobody left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]
        self.exit(USAGE_ERROR, f"{self.prog}: {message}; see {self.prog} --help\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="nvfp4-conformance",
        description="Say whether an NVFP4 plan cache, or a cache file, keeps its contracts.",
    )
    parser.add_argument("--version", action="version", version=pytest_nvfp4.__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=_Parser)

    def command(name: str, function: Callable[[argparse.Namespace], int], summary: str) -> _Parser:
        sub: _Parser = commands.add_parser(name, help=summary, description=function.__doc__)
        sub.set_defaults(command=function)
        return sub

    sub = command("run", run, "run the suite against an implementation")
    sub.add_argument("impl", help="reference, package.module:attribute, or exec:COMMAND")
    sub.add_argument("-n", dest="workers", metavar="N", help="worker processes, or auto")
    sub = command("smoke", smoke, "does an adapter work at all?")
    sub.add_argument("impl", help="reference, package.module:attribute, or exec:COMMAND")
    sub.add_argument("--timeout", type=float, default=60.0, help="seconds for one answer")
    sub = command("list", list_contracts, "list the contracts")
    sub.add_argument("contracts", nargs="?", help="areas or ids, such as PUBL,NDOC-4")
    sub = command("explain", explain, "say everything about one contract")
    sub.add_argument("contract", help="an id, such as NDOC-8")
    sub = command("check", check, "judge a cache file and show what it covers")
    sub.add_argument("file")
    sub.add_argument(
        "--expect", metavar="FILE|oracle", help="the environment: another cache file's"
    )
    sub = command("diff", diff, "show how two cache files differ")
    sub.add_argument("left")
    sub.add_argument("right")
    sub = command("verify", verify, "prove that a report is consistent")
    sub.add_argument("report")
    return parser


def run(options: argparse.Namespace) -> int:
    """Run the suite; options such as --contract and --report are its own, others go to pytest."""
    import pytest

    from pytest_nvfp4.suite.options import KNOBS

    names = {f"--{knob.name}" for knob in KNOBS}
    rest = [
        f"--nvfp4-{word[2:]}" if word.partition("=")[0] in names else word for word in options.rest
    ]
    # What the surrounding project has configured is none of this run's business.
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    with tempfile.TemporaryDirectory(prefix="nvfp4-") as folder:
        ini = Path(folder, "pytest.ini")
        ini.write_text("[pytest]\n", encoding="ascii")
        workers = ["-n", options.workers] if options.workers else []
        return int(
            pytest.main(
                [
                    *("-p", "xdist", "-p", "nvfp4", "-p", "no:cacheprovider"),
                    *("-c", str(ini), "--rootdir", os.getcwd(), "--noconftest", "--tb=no", "-rN"),
                    *("--nvfp4-conformance", "--nvfp4-impl", options.impl, *workers, *rest),
                ]
            )
        )


def smoke(options: argparse.Namespace) -> int:
    """Call every operation that the adapter claims once; this judges no contract."""
    from pytest_nvfp4.implementations import examine
    from pytest_nvfp4.implementations.loader import TargetError, load

    try:
        target = load(options.impl)
    except TargetError as error:
        raise ValueError(error) from None
    worst = 0
    for name in target.transports:
        result = examine.examine(target, name, options.timeout)
        if result.description is not None:
            who = result.description
            print(f"{name}: {who.name} {who.version} ({who.language})")
            print(f"  claims {', '.join(sorted(who.capabilities)) or 'nothing'}")
        else:
            print(f"{name}:")
        for step in result.checks:
            print(
                f"  {'✗' if step.problem else '✓'} {step.operation}"
                + (f": {step.problem}" if step.problem else "")
            )
            worst = max(worst, step.problem is not None)
    return worst


def list_contracts(options: argparse.Namespace) -> int:
    """List contracts, one line each: id, level, the capability they belong to, and the text."""
    import textwrap

    from pytest_nvfp4.results import contracts

    specification = contracts.packaged()
    chosen = specification.contracts
    if options.contracts is not None:
        chosen = contracts.select(specification, options.contracts)
    for contract in chosen:
        text = textwrap.shorten(contract.text, 63, placeholder=" …")
        print(f"{contract.id:<8} {contract.level.upper():<6} {text}")
    return 0


def explain(options: argparse.Namespace) -> int:
    """Print a contract's text, level, capability and source."""
    import textwrap

    from pytest_nvfp4.results import contracts

    specification = contracts.packaged()
    contract = specification.contract(options.contract.upper())
    print(f"{contract.id}  {contract.level.upper()}  capability {contract.capability}\n")
    print(textwrap.fill(contract.text, 78, initial_indent="  ", subsequent_indent="  "))
    print(f"\n  {specification.capabilities[contract.capability]}")
    print(f"  Source: {contract.source}")
    print(f"  Run it alone: nvfp4-conformance run IMPL --contract {contract.id}")
    return 0


def check(options: argparse.Namespace) -> int:
    """Judge a file of either dialect; exit status 1 where it is rejected."""
    from pytest_nvfp4 import checking, oracle

    expected: dict[str, object] | None = None
    if options.expect == "oracle":
        expected = dict(oracle.load().metadata)
    elif options.expect is not None:
        other = checking.check(options.expect)
        if not other.metadata:
            raise ValueError(f"{options.expect} has no metadata to take the environment from")
        expected = dict(other.metadata)
    checked = checking.check(options.file, expected)
    for line in checking.report(checked):
        print(line)
    return 0 if checked.judgement.accepted else 1


def diff(options: argparse.Namespace) -> int:
    """Compare the environments and plans of two files; exit status 1 where they differ."""
    from pytest_nvfp4 import checking

    sides = [checking.check(path) for path in (options.left, options.right)]
    for side in sides:
        if not side.judgement.accepted:
            raise ValueError(f"{side.path} is rejected: {side.judgement.findings[0]}")
    lines = list(checking.compare(*sides))
    for line in lines:
        print(line)
    if not lines:
        print(f"the same {len(sides[0].judgement.plans)} plans and the same environment")
    return 1 if lines else 0


def verify(options: argparse.Namespace) -> int:
    """Check a report against its schema, its own digests and this package's specification."""
    from pytest_nvfp4.results import report

    try:
        text = Path(options.report).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"cannot read {options.report}: {error}") from None
    problems = report.verify(report.loads(text))
    for problem in problems:
        print(problem)
    if not problems:
        print(f"{options.report} is consistent")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
