"""The smoke test: does the adapter work at all? It runs before the suite and judges no contract."""

import json
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_nvfp4.implementations.loader import Target, TargetError, load
from pytest_nvfp4.implementations.messages import (
    Description,
    Rejected,
    ReportedError,
    SubjectError,
    UnsupportedError,
)
from pytest_nvfp4.implementations.operations import CAPABILITIES, OPERATIONS, Operation, Sample
from pytest_nvfp4.implementations.plain_data import encode
from pytest_nvfp4.implementations.subject import Subject, Transport, describe
from pytest_nvfp4.implementations.transports import IN_PROCESS
from pytest_nvfp4.model import documents
from pytest_nvfp4.plans import TACTICS, PlanKey, PlanMap

PROBE_SECONDS = 10.0
"""Seconds for one answer of an operation that is not claimed: no run has to wait for it."""

_PLANS = PlanMap([(PlanKey(1, 256, 128), 4), (PlanKey(512, 256, 128), 24)])


@dataclass(frozen=True, slots=True)
class Check:
    """One step of the smoke test; `problem` is None where it went well.

    `in_step` is false where the adapter did not even report its failure: it hung, died, or wrote
    something else than a reply.
    """

    operation: str
    problem: str | None
    in_step: bool = True


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
        """The claimed capabilities of which an operation failed, in the interface's order."""
        failed = {check.operation for check in self.checks if check.problem}
        claimed = self.description.capabilities if self.description else frozenset()
        return [
            name
            for name, operations in CAPABILITIES.items()
            if name in claimed and failed.intersection(operations)
        ]


def open_transport(target: Target, name: str, timeout: float) -> Transport:
    """A transport to a fresh subject; raises TargetError where a Python adapter cannot be made."""
    return target.in_process() if name == IN_PROCESS else target.json_lines(timeout=timeout)


def description_of(text: str, timeout: float = 60.0) -> Description:
    """The description of the implementation named by `text`; TargetError where there is none."""
    target = load(text)
    transport = open_transport(target, target.transports[0], timeout)
    try:
        return describe(transport)[0]
    except SubjectError as error:
        raise TargetError(f"{text} does not describe itself: {error}") from None
    finally:
        transport.close()


def examine(target: Target, name: str, timeout: float) -> Examined:
    """Ask for the description over one transport, then call each operation that it claims."""
    transport = open_transport(target, name, timeout)
    try:
        description, data = describe(transport)
        return Examined(
            description, data, [Check("describe", None), *smoke(Subject(transport), description)]
        )
    except SubjectError as error:
        return Examined(None, None, [Check("describe", str(error))])
    finally:
        transport.close()


def smoke(
    subject: Subject, description: Description, claims: frozenset[str] | None = None
) -> list[Check]:
    """Call every operation that the claims need, once, with good arguments.

    `claims` are those of the description unless given.
    """
    claims = description.capabilities if claims is None else claims
    with tempfile.TemporaryDirectory(prefix="nvfp4-smoke-") as folder:
        return list(_calls(subject, description, claims, Path(folder)))


def unclaimed(target: Target, description: Description, timeout: float) -> list[str]:
    """The unclaimed capabilities that answer in a process of their own."""
    if not candidates(description):
        return []  # nothing to start a process for
    transport = target.json_lines(timeout=min(timeout, PROBE_SECONDS))
    try:
        return answering(Subject(transport), description)
    finally:
        transport.close()


def answering(subject: Subject, description: Description) -> list[str]:
    """The capabilities that are not claimed although all their operations answer good arguments.

    Only those with an operation of their own count: that `warm_up` answers says nothing about
    frozen mode. The calls end where the adapter falls out of step.
    """
    found = []
    for name in candidates(description):
        checks = smoke(subject, description, frozenset({name}))
        if not all(check.in_step for check in checks):
            break
        if all(check.problem is None for check in checks):
            found.append(name)
    return found


def candidates(description: Description) -> list[str]:
    """The unclaimed capabilities that good arguments can be made for from the description."""
    without: set[str] = set(description.capabilities)
    if description.native_metadata is None:
        without |= {"native-document", "merge", "publication"}
    if description.import_metadata is None:
        without.add("flashinfer-import")
    if not (description.native_metadata or {}).get("architecture"):
        without.add("device")  # there is none
    own = {operation.capabilities[0] for operation in OPERATIONS.values() if operation.capabilities}
    return [name for name in CAPABILITIES if name in own - without]


def _calls(
    subject: Subject, description: Description, claims: frozenset[str], folder: Path
) -> Iterator[Check]:
    samples = _samples(description, folder)
    for operation, capability in _needed(claims).items():
        arguments = {
            name: samples[value] if isinstance(value, Sample) else value
            for name, value in operation.example.items()
        }
        problem, in_step = None, True
        try:
            answer = subject.call(operation.name, **arguments)
        except UnsupportedError:
            problem = f"it is missing, though the capability {capability} is claimed"
        except SubjectError as error:
            problem, in_step = str(error), isinstance(error, ReportedError)
        else:
            if operation.name == "open" and not isinstance(answer, Rejected):
                samples[Sample.SESSION] = answer.session
            # A session that has completed has nothing to abandon, and may say so.
            if isinstance(answer, Rejected) and (operation.name, answer.code) != (
                "abandon",
                "lifecycle",
            ):
                problem = f"it rejected good input: {answer.message}"
        yield Check(operation.name, problem, in_step)


def _needed(claims: frozenset[str]) -> dict[Operation, str]:
    """Operation → the claimed capability that needs it, in an order that works."""
    needed = {
        operation: next(name for name in sorted(claims) if name in operation.capabilities)
        for operation in OPERATIONS.values()
        if claims.intersection(operation.capabilities)
    }
    if first := next((claim for op, claim in needed.items() if op.of_a_session), None):
        needed.setdefault(OPERATIONS["open"], first)
    return {op: needed[op] for op in OPERATIONS.values() if op in needed}


def _samples(description: Description, folder: Path) -> dict[Sample, Any]:
    """Good arguments; the session is there once one is open."""
    native: Mapping[str, Any] = description.native_metadata or {}
    imported: Mapping[str, Any] = description.import_metadata or {}
    document = documents.native(native, _PLANS) if native else {}
    files = {
        Sample.NATIVE_FILE: documents.native_bytes(document),
        Sample.FLASHINFER_FILE: documents.flashinfer_bytes(imported, _PLANS),
    }
    paths = {sample: folder / f"{sample.name.lower()}.json" for sample in files}
    for sample, content in files.items():
        paths[sample].write_bytes(content)
    return {
        **{sample: str(path) for sample, path in paths.items()},
        Sample.NEW_FILE: str(folder / "written.json"),
        Sample.DOCUMENT: document or json.loads(files[Sample.FLASHINFER_FILE]),
        Sample.NATIVE_METADATA: dict(native),
        Sample.IMPORT_METADATA: dict(imported),
        Sample.VARIABLES: {"HOME": str(folder)},
        Sample.SESSION: "",
        Sample.TACTICS: encode(TACTICS),
    }
