"""Examine an implementation before anything is judged: who is it, and does its adapter work?"""

from dataclasses import dataclass
from typing import Any

from pytest_nvfp4.implementations.interface import Description, SubjectError, decode_description
from pytest_nvfp4.implementations.loader import Target, TargetError, load
from pytest_nvfp4.implementations.smoke import Check, answering, candidates, failing, smoke
from pytest_nvfp4.implementations.subject import Subject, Transport
from pytest_nvfp4.implementations.transports import IN_PROCESS

PROBE_SECONDS = 10.0
"""Seconds for one answer of an operation that nobody claims: no run has to wait for it."""


@dataclass(frozen=True, slots=True)
class Examined:
    """What was found: the description, None where there is none, as value and as data."""

    description: Description | None
    data: Any
    checks: list[Check]

    @property
    def problem(self) -> str | None:
        """The first thing that is wrong with the adapter as a sentence, and what else fails."""
        bad = [check for check in self.checks if check.problem]
        if not bad:
            return None
        others = ", ".join(check.operation for check in bad[1:])
        return f"{bad[0].operation}: {bad[0].problem}" + (
            f" (also failing: {others})" if others else ""
        )

    @property
    def failing(self) -> list[str]:
        """The capabilities that are claimed although an operation of theirs fails good input."""
        return failing(self.description, self.checks) if self.description else []


def open_transport(target: Target, name: str, timeout: float) -> Transport:
    """A transport to a fresh subject; raises TargetError where a Python adapter cannot be made."""
    return target.in_process() if name == IN_PROCESS else target.json_lines(timeout=timeout)


def describe(text: str, timeout: float = 60.0) -> Description:
    """What the implementation named by `text` says of itself; ValueError, one sentence."""
    try:
        target = load(text)
        transport = open_transport(target, target.transports[0], timeout)
        try:
            kind, data = transport.call("describe", {})
        finally:
            transport.close()
        return decode_description(data if kind == "ok" else None)
    except (TargetError, SubjectError, ValueError) as error:
        raise ValueError(f"{text} does not describe itself: {error}") from None


def unclaimed(target: Target, description: Description, timeout: float) -> list[str]:
    """The capabilities that answer in a process of their own, though nobody claims them."""
    if not candidates(description):
        return []  # nothing to start a process for
    transport = target.json_lines(timeout=min(timeout, PROBE_SECONDS))
    try:
        return answering(Subject(transport), description)
    finally:
        transport.close()


def examine(target: Target, name: str, timeout: float) -> Examined:
    """Ask for the description over one transport, then call what it claims."""
    transport = open_transport(target, name, timeout)
    try:
        try:
            kind, data = transport.call("describe", {})
            if kind != "ok":
                return Examined(None, None, [Check("describe", f"it was rejected: {data!r:.200}")])
            description = decode_description(data)
        except (SubjectError, ValueError) as error:
            return Examined(None, None, [Check("describe", str(error))])
        checks = [Check("describe", None), *smoke(Subject(transport), description)]
        return Examined(description, data, checks)
    finally:
        transport.close()
