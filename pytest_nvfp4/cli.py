"""The ``nvfp4-conformance`` command: the suite for people who do not live in pytest."""

import argparse
import gc
import io
import os
import re
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest_nvfp4

USAGE_ERROR = 4
MOST_PROCESSES = 64


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand; return the exit status: 0 good, 1 not, 4 a mistake in the call."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # an ASCII terminal is no reason to stop
    parser = _parser()
    options, rest = parser.parse_known_args(arguments)
    if rest and options.command is not run:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    options.rest = rest
    command: Callable[[argparse.Namespace], int] = options.command
    try:
        return command(options)
    except ValueError as error:
        print(_shown(f"nvfp4-conformance: {error}"), file=sys.stderr)
        return USAGE_ERROR
    except BrokenPipeError:
        # The reader, such as `head`, has had enough; there is nobody left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130


def _shown(line: str) -> str:
    """A line as a terminal may see it: what would command the terminal is escaped, and not sent."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f]", lambda m: f"\\x{ord(m[0]):02x}", line)


def _seconds(text: str) -> float:
    """A number of seconds that one can wait for."""
    number = float(text)
    if not 0 < number <= 86400:
        raise argparse.ArgumentTypeError(f"{text} is no number of seconds between 0 and a day")
    return number


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
    sub.add_argument("--timeout", type=_seconds, default=60.0, help="seconds for one answer")
    sub = command("init", init, "write an adapter to start from")
    sub.add_argument("language", help="python, cpp or shell")
    sub.add_argument("folder", nargs="?", default=".", help="where to write it (here)")
    sub = command("demo", demo, "show what tuning in every process does, and what freezing does")
    sub.add_argument("impl", nargs="?", default="reference", help="as for run (reference)")
    sub.add_argument("--processes", type=int, default=4, metavar="N", help="how many (4)")
    sub.add_argument("--timeout", type=_seconds, default=120.0, help="seconds for one answer")
    sub = command("list", list_contracts, "list the contracts")
    sub.add_argument("contracts", nargs="?", help="areas or ids, such as PUBL,NDOC-4")
    sub = command("explain", explain, "say everything about one contract")
    sub.add_argument("contract", help="an id, such as NDOC-8")
    sub = command("check", check, "judge a cache file and show what it covers")
    sub.add_argument("file")
    sub.add_argument("--all", action="store_true", help="every row, however many")
    sub.add_argument(
        "--expect", metavar="FILE|oracle", help="the environment: another cache file's"
    )
    sub = command("diff", diff, "show how two cache files differ")
    sub.add_argument("left")
    sub.add_argument("right")
    sub.add_argument("--all", action="store_true", help="every row, however many")
    sub = command("compare", compare, "lay reports side by side, in the terminal and as a page")
    sub.add_argument("reports", nargs="+", metavar="[NAME=]REPORT", help="1 to 8 reports")
    sub.add_argument("--html", metavar="FILE.html", help="write one self-contained page")
    sub.add_argument(
        "--plans",
        action="append",
        default=[],
        metavar="[NAME=]FILE",
        help="a cache file to show on the page beside the oracle; repeatable",
    )
    sub.add_argument("--all", action="store_true", help="every contract, however dull")
    sub.add_argument("--color", choices=("auto", "always", "never"), default="auto")
    sub = command("verify", verify, "prove reports and badges")
    sub.add_argument("files", nargs="+", metavar="FILE", help="a report, or badges with theirs")
    sub.add_argument("--deviations", metavar="FILE.toml", help="the run was given these")
    sub.add_argument("--impl", metavar="IMPL", help="the report is of this implementation")
    return parser


def run(options: argparse.Namespace) -> int:
    """Run the suite; options such as --contract and --report are its own, others go to pytest."""
    import pytest

    from pytest_nvfp4.suite.options import RUN_SETTINGS

    names = {f"--{setting.name}" for setting in RUN_SETTINGS}
    rest = [
        f"--nvfp4-{word[2:]}" if word.partition("=")[0] in names else word for word in options.rest
    ]
    # What the surrounding project has configured is none of this run's business.
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    with tempfile.TemporaryDirectory(prefix="nvfp4-") as folder:
        ini = Path(folder, "pytest.ini")
        ini.write_text("[pytest]\n", encoding="ascii")
        workers = ["-n", options.workers] if options.workers else []
        status = int(
            pytest.main(
                [
                    *("-p", "xdist", "-p", "nvfp4", "-p", "no:cacheprovider"),
                    *("-c", str(ini), "--rootdir", os.getcwd(), "--noconftest", "--tb=no", "-rN"),
                    *("--nvfp4-conformance", "--nvfp4-impl", options.impl, *workers, *rest),
                ]
            )
        )
    left = [
        t.name for t in threading.enumerate() if t is not threading.main_thread() and not t.daemon
    ]
    if left:
        print(_shown(f"the adapter left threads running: {', '.join(left)}"), file=sys.stderr)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)  # they would keep this process alive for ever
    return status


def smoke(options: argparse.Namespace) -> int:
    """Call every operation that the adapter claims once; this judges no contract."""
    from pytest_nvfp4.implementations import smoke as examination
    from pytest_nvfp4.implementations.loader import TargetError, load

    worst = 0
    try:
        target = load(options.impl)
        for name in target.transports:
            result = examination.examine(target, name, options.timeout)
            who = result.description
            print(
                _shown(f"{name}: {who.name} {who.version} ({who.language})" if who else f"{name}:")
            )
            if who is not None:
                print(f"  claims {', '.join(sorted(who.capabilities)) or 'nothing'}")
            for step in result.checks:
                mark, problem = ("✗", f": {step.problem}") if step.problem else ("✓", "")
                print(_shown(f"  {mark} {step.operation}{problem}"))
                worst = max(worst, step.problem is not None)
            if result.failing:
                print(f"  claimed, but failing: {', '.join(result.failing)}")
        answering = examination.unclaimed(target, who, options.timeout) if who is not None else []
        if answering:
            print(f"not claimed, but answering: {', '.join(answering)}")
    except TargetError as error:
        raise ValueError(error) from None
    return worst


def init(options: argparse.Namespace) -> int:
    """Write an adapter in which no operation is claimed yet, and say how to go on."""
    from pytest_nvfp4.commands import init as templates

    path = templates.write(options.language, Path(options.folder))
    template = templates.of(options.language)
    print(_shown(f"wrote {path}; nothing is claimed in it yet. Next, in its folder:"))
    for line in filter(None, [template.build, f"nvfp4-conformance smoke {template.target}"]):
        print(f"  {line}")
    return 0


def demo(options: argparse.Namespace) -> int:
    """Tune in N fresh processes and count the tactics that agree; then again with a frozen map."""
    from pytest_nvfp4.commands import demo as phenomenon
    from pytest_nvfp4.implementations.loader import TargetError, load
    from pytest_nvfp4.implementations.messages import SubjectError

    if not 2 <= options.processes <= MOST_PROCESSES:
        raise ValueError(
            f"--processes is {options.processes}; take 2 to {MOST_PROCESSES}, each tunes for long"
        )
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))  # leave nothing behind
    try:
        return phenomenon.run(load(options.impl), options.processes, options.timeout, sys.stdout)
    except (TargetError, SubjectError) as error:
        raise ValueError(error) from None


def list_contracts(options: argparse.Namespace) -> int:
    """List contracts, one line each: id, level, the capability they belong to, and the text."""
    import textwrap

    from pytest_nvfp4.specification import contracts

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

    from pytest_nvfp4.specification import contracts

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
    from pytest_nvfp4 import oracle
    from pytest_nvfp4.cache_files import description, reader

    gc.disable()  # a large document is millions of small values, and this process ends soon
    expected: dict[str, object] | None = None
    if options.expect == "oracle":
        expected = dict(oracle.load().metadata)
    elif options.expect is not None:
        other = reader.check(options.expect)
        if not other.metadata:
            raise ValueError(f"{options.expect} has no metadata to take the environment from")
        expected = dict(other.metadata)
    checked = reader.check(options.file, expected)
    for line in description.describe(checked, everything=options.all):
        print(_shown(line))
    return 0 if checked.judgement.accepted else 1


def diff(options: argparse.Namespace) -> int:
    """Compare the environments and plans of two files; exit status 1 where they differ."""
    from pytest_nvfp4.cache_files import description, reader

    sides = [reader.check(path) for path in (options.left, options.right)]
    for side in sides:
        if not side.judgement.accepted:
            raise ValueError(f"{side.path} is rejected: {side.judgement.findings[0]}")
    lines = list(description.compare(*sides, everything=options.all))
    for line in lines:
        print(_shown(line))
    if not lines:
        print(f"the same {len(sides[0].judgement.plans)} plans and the same environment")
    return 1 if lines else 0


def compare(options: argparse.Namespace) -> int:
    """Compare reports contract by contract; with --html also as a page that needs nothing else."""
    from pytest_nvfp4.commands import compare as comparing

    encoding = (getattr(sys.stdout, "encoding", None) or "ascii").lower().replace("-", "")
    watched = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    for line in comparing.lines(
        options.reports,
        options.plans,
        options.html,
        everything=options.all,
        colour=options.color == "always" or (options.color == "auto" and watched),
        ascii_only=encoding != "utf8",
    ):
        print(line)
    return 0


def verify(options: argparse.Namespace) -> int:
    """Prove reports: their own digests and verdicts, the suite and contracts of this package, and
    on request the deviations and the implementation; prove badges by the report among the files.
    """
    from pytest_nvfp4.implementations.smoke import description_of
    from pytest_nvfp4.results.report import Implementation
    from pytest_nvfp4.verification import proof as verifying

    own = None
    if options.impl is not None:
        told = description_of(options.impl)
        names = ("name", "version", "language", "homepage", "capabilities")
        own = Implementation(target=options.impl, **{name: getattr(told, name) for name in names})
    status = 0
    for name, problems in verifying.verify(options.files, options.deviations, own):
        for problem in problems:
            print(_shown(f"{name}: {problem}"))
        print(_shown(f"{name} is {'not ' * bool(problems)}proven"))
        status = max(status, bool(problems))
    return status


if __name__ == "__main__":
    sys.exit(main())
