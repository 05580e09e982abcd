"""``nvfp4-conformance smoke``: whether an adapter works at all."""

import argparse

from pytest_nvfp4.commands import arguments
from pytest_nvfp4.commands.output import show
from pytest_nvfp4.extras import require_suite

SUMMARY = "call every operation that an adapter claims"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the implementation and the time limit."""
    parser.add_argument("impl", metavar="IMPL", help=arguments.IMPL)
    arguments.add_timeout(parser, 60.0)


def execute(options: argparse.Namespace) -> int:
    """Call every operation that the adapter claims once; this judges no contract."""
    require_suite("the smoke test")
    from pytest_nvfp4.implementations import smoke
    from pytest_nvfp4.implementations.loader import load

    worst = 0
    target = load(options.impl)
    for name in target.transports:
        result = smoke.examine(target, name, options.timeout)
        who = result.description
        show(f"{name}: {who.name} {who.version} ({who.language})" if who else f"{name}:")
        if who is not None:
            print(f"  claims {', '.join(sorted(who.capabilities)) or 'nothing'}")
        for step in result.checks:
            mark, problem = ("✗", f": {step.problem}") if step.problem else ("✓", "")
            show(f"  {mark} {step.operation}{problem}")
            worst = max(worst, step.problem is not None)
        if result.failing:
            print(f"  claimed, but failing: {', '.join(result.failing)}")
    answering = smoke.unclaimed(target, who, options.timeout) if who is not None else []
    if answering:
        print(f"not claimed, but answering: {', '.join(answering)}")
    return worst
