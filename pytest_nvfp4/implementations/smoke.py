"""The smoke test: does the adapter work at all? It runs before the suite and judges no contract."""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pytest_nvfp4.implementations.interface import (
    CAPABILITIES,
    Description,
    Rejected,
    SubjectError,
    UnsupportedError,
    encode_tactic,
)
from pytest_nvfp4.implementations.subject import Subject
from pytest_nvfp4.model import documents
from pytest_nvfp4.plans import TACTICS, PlanKey, PlanMap

_PLANS = PlanMap([(PlanKey(1, 256, 128), 4), (PlanKey(512, 256, 128), 24)])


@dataclass(frozen=True, slots=True)
class Check:
    """One step of the smoke test; `problem` is None where it went well."""

    operation: str
    problem: str | None


def smoke(subject: Subject, description: Description) -> list[Check]:
    """Call every operation that the claimed capabilities need, once, with good input."""
    checks = []
    with tempfile.TemporaryDirectory(prefix="nvfp4-smoke-") as folder:
        for operation, answer in _calls(subject, description, Path(folder)):
            checks.append(Check(operation, answer))
    return checks


def _calls(
    subject: Subject, description: Description, folder: Path
) -> Iterator[tuple[str, str | None]]:
    native = dict(description.native_metadata or {})
    document = documents.native(native, _PLANS) if native else {}
    path = folder / "autotune_configs.json"
    arguments: dict[str, dict[str, object]] = {
        "resolve": {"environment": {"HOME": str(folder)}, "metadata": None},
        "bucket": {"m": 300},
        "profiles": {"maximum": 300},
        "tactic_digest": {"tactics": [encode_tactic(tactic) for tactic in TACTICS]},
        "read_native": {"path": str(path), "expected": native, "session": None},
        "read_flashinfer": {
            "path": str(path),
            "expected": dict(description.import_metadata or {}),
            "session": None,
        },
        "serialize": {"document": document},
        "merge": {"prior": document, "current": document},
        "write_native": {"path": str(folder / "written.json"), "document": document},
        "open": {"environment": {"HOME": str(folder)}},
    }
    session = ""
    for capability in sorted(description.capabilities):
        for operation in CAPABILITIES[capability]:
            if operation == "read_native":
                path.write_bytes(documents.native_bytes(document))
            elif operation == "read_flashinfer":
                path.write_bytes(
                    documents.flashinfer_bytes(description.import_metadata or {}, _PLANS)
                )
            problem = None
            try:
                answer = subject.call(operation, **arguments.get(operation, {"session": session}))
                if operation == "open" and isinstance(answer, str):
                    session = answer
                if isinstance(answer, Rejected):
                    problem = f"it rejected good input: {answer.message}"
            except UnsupportedError:
                problem = f"it is missing, though the capability {capability} is claimed"
            except SubjectError as error:
                problem = str(error)
            yield operation, problem
