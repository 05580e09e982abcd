"""A document that FlashInfer itself writes on this machine, for FIMP-11.

FlashInfer lives in another Python, behind its adapter. There its own tuner tunes on a scripted
clock and saves, and says which tactic serves each product.
"""

import os
import random
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_nvfp4.implementations.messages import Description, Rejected, SubjectError
from pytest_nvfp4.implementations.subject import Subject
from pytest_nvfp4.implementations.transports import JsonLines
from pytest_nvfp4.plans import PlanKey, PlanMap
from pytest_nvfp4.suite.sessions import NATIVE_PATH, SHAPES, SubjectSession, fastest, profile_keys

VERSION = "0.6.13"
"""The release that FIMP-11 is about."""

_MAX_TOKENS = 600
_SERVER = ("-m", "pytest_nvfp4.implementations.server", "flashinfer")


class WriterError(Exception):
    """There is no document; the message, one sentence, is for the user."""


@dataclass(frozen=True, slots=True)
class Written:
    """The bytes of the file, the environment it was written in, and the plans it must hold."""

    text: bytes
    metadata: dict[str, Any]
    plans: PlanMap

    def as_data(self) -> dict[str, Any]:
        """Plain data, for the workers of a run."""
        rows = [[*key, tactic] for key, tactic in self.plans.items()]
        return {"text": self.text.decode(), "metadata": self.metadata, "plans": rows}

    @classmethod
    def of(cls, data: dict[str, Any]) -> "Written":
        plans = PlanMap([(PlanKey(m, n, k), tactic) for m, n, k, tactic in data["plans"]])
        return cls(data["text"].encode(), data["metadata"], plans)


def write(python: str, *, seed: int, timeout: float) -> Written:
    """Let the FlashInfer of another Python write a document; WriterError where it cannot."""
    # What this process can import is of no use to another interpreter, and could be wrong there.
    environment = {name: v for name, v in os.environ.items() if name != "PYTHONPATH"}
    transport = JsonLines((python, *_SERVER), timeout=timeout, environment=environment)
    try:
        with tempfile.TemporaryDirectory(prefix="nvfp4-flashinfer-") as folder:
            subject = Subject(transport)
            return _written(subject, _known(subject, python), Path(folder), random.Random(seed))
    except (SubjectError, AssertionError, OSError) as error:
        raise WriterError(f"the FlashInfer of {python} wrote no document: {error}") from None
    finally:
        transport.close()


def _known(subject: Subject, python: str) -> Description:
    description = subject.describe()
    found = f"{description.name} {description.version}"
    if found != f"flashinfer {VERSION}":
        raise WriterError(f"FIMP-11 is about FlashInfer {VERSION}, but {python} has {found}")
    return description


def _written(
    subject: Subject, description: Description, folder: Path, rng: random.Random
) -> Written:
    path = folder / "autotune_configs.json"
    session = SubjectSession(subject, {NATIVE_PATH: str(path), "HOME": str(folder)})
    plans: dict[PlanKey, int] = {}
    for key in profile_keys(_MAX_TOKENS, SHAPES):
        answer = session.try_plan(*key, timings=fastest(rng.randrange(32)))
        assert not isinstance(answer, Rejected), answer.message
        plans[key] = answer.tactic
    session.warm_up(_MAX_TOKENS)
    session.saved()
    return Written(path.read_bytes(), dict(description.import_metadata or {}), PlanMap(plans))
