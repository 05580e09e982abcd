"""The smoke test: does the adapter work at all? It runs before the suite and judges no contract."""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pytest_nvfp4.implementations.interface import (
    CAPABILITIES,
    OPERATIONS,
    Description,
    Rejected,
    ReportedError,
    SubjectError,
    UnsupportedError,
    encode_tactic,
)
from pytest_nvfp4.implementations.subject import Subject
from pytest_nvfp4.model import documents
from pytest_nvfp4.plans import TACTICS, PlanKey, PlanMap

_OF_A_SESSION = ("plans", "stats", "trace", "times", "fingerprint", "close")
_PLANS = PlanMap([(PlanKey(1, 256, 128), 4), (PlanKey(512, 256, 128), 24)])


@dataclass(frozen=True, slots=True)
class Check:
    """One step of the smoke test; `problem` is None where it went well.

    `in_step` is false where the adapter did not even report its failure: it hung, died or babbled.
    """

    operation: str
    problem: str | None
    in_step: bool = True


def smoke(subject: Subject, description: Description) -> list[Check]:
    """Call every operation that the claimed capabilities need, once, with good input."""
    with tempfile.TemporaryDirectory(prefix="nvfp4-smoke-") as folder:
        return list(_calls(subject, description, Path(folder)))


def failing(description: Description, checks: list[Check]) -> list[str]:
    """The claimed capabilities of which an operation failed its step, in the interface's order."""
    failed = {check.operation for check in checks if check.problem}
    return [
        name
        for name, operations in CAPABILITIES.items()
        if name in description.capabilities and failed.intersection(operations)
    ]


def answering(subject: Subject, description: Description) -> list[str]:
    """The capabilities that are not claimed although all their operations answer good input.

    Only those with an operation of their own: that `warm_up` answers says nothing about frozen
    mode. Asking ends where the adapter falls out of step.
    """
    found = []
    for name in candidates(description):
        checks = smoke(subject, replace(description, capabilities=frozenset({name})))
        if not all(check.in_step for check in checks):
            break
        if all(check.problem is None for check in checks):
            found.append(name)
    return found


def candidates(description: Description) -> list[str]:
    """The unclaimed capabilities that good input can be made for from the description."""
    shared = [operation for operations in CAPABILITIES.values() for operation in operations]
    without: set[str] = set(description.capabilities)
    if description.native_metadata is None:
        without |= {"native-document", "merge", "publication"}
    if description.import_metadata is None:
        without.add("flashinfer-import")
    if not (description.native_metadata or {}).get("architecture"):
        without.add("device")  # there is none
    return [
        name
        for name, operations in CAPABILITIES.items()
        if name not in without and any(shared.count(operation) == 1 for operation in operations)
    ]


def _calls(subject: Subject, description: Description, folder: Path) -> Iterator[Check]:
    arguments = _arguments(description, folder)
    for operation, capability in _needed(description.capabilities).items():
        problem, in_step = None, True
        try:
            answer = subject.call(operation, **arguments[operation])
        except UnsupportedError:
            problem = f"it is missing, though the capability {capability} is claimed"
        except SubjectError as error:
            problem, in_step = str(error), isinstance(error, ReportedError)
        else:
            if operation == "open" and isinstance(answer, str):
                for given in arguments.values():
                    if given.get("session") == "":
                        given["session"] = answer
            # A session that has completed has nothing to abandon, and may say so.
            if isinstance(answer, Rejected) and (operation, answer.code) != (
                "abandon",
                "lifecycle",
            ):
                problem = f"it rejected good input: {answer.message}"
        yield Check(operation, problem, in_step)


def _needed(claims: frozenset[str]) -> dict[str, str]:
    """Operation → the claimed capability that needs it, in an order that works."""
    by = {op: claim for claim in sorted(claims) for op in CAPABILITIES[claim]}
    if any("session" in OPERATIONS[op][:1] for op in by):
        by.setdefault("open", by[next(op for op in by if "session" in OPERATIONS[op][:1])])
    return {operation: by[operation] for operation in OPERATIONS if operation in by}


def _arguments(description: Description, folder: Path) -> dict[str, dict[str, Any]]:
    """Good arguments for every operation; an empty session is filled in once one is open."""
    native = dict(description.native_metadata or {})
    document = documents.native(native, _PLANS) if native else {}
    imported, own = folder / "import.json", folder / "native.json"
    imported.write_bytes(documents.flashinfer_bytes(description.import_metadata or {}, _PLANS))
    own.write_bytes(documents.native_bytes(document))
    variables = {"HOME": str(folder)}
    product, clock = {"m": 1, "n": 256, "k": 128}, {"default": 100}
    return {
        "resolve": {"environment": variables, "metadata": None},
        "bucket": {"m": 300},
        "profiles": {"maximum": 300},
        "tactic_digest": {"tactics": [encode_tactic(tactic) for tactic in TACTICS]},
        "read_native": {"path": str(own), "expected": native, "session": None},
        "read_flashinfer": {
            "path": str(imported),
            "expected": dict(description.import_metadata or {}),
            "session": None,
        },
        "serialize": {"document": document},
        "merge": {"prior": document, "current": document},
        "write_native": {"path": str(folder / "written.json"), "document": document},
        "open": {"environment": variables},
        "warm_up": {"session": "", "max_tokens": 1, "shapes": [[256, 128]], "timings": clock},
        "complete": {"session": ""},
        "abandon": {"session": ""},
        "plan": {"session": "", **product, "capturing": False, "timings": clock},
        "plan_many": {"session": "", "requests": [[1, 256, 128]], "load": None, "timings": clock},
        **{name: {"session": ""} for name in _OF_A_SESSION},
        "gemm": {"m": 1, "n": 16, "k": 16, "tactic": 0, "seed": 0, "direct_sf": True},
        "replay": {"m": 1, "n": 16, "k": 32, "tactic": 0, "seed": 0},
    }
