"""What contract tests work with: their one argument, `nvfp4`.

It is passed by the suite and is no pytest fixture, so a conftest.py has no name to override.
"""

import contextlib
import random
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from pytest_nvfp4 import oracle
from pytest_nvfp4.faults import strace
from pytest_nvfp4.implementations.loader import Target
from pytest_nvfp4.implementations.messages import NATIVE as KIND_NATIVE
from pytest_nvfp4.implementations.messages import Description
from pytest_nvfp4.implementations.smoke import open_transport
from pytest_nvfp4.implementations.subject import Subject, Transport
from pytest_nvfp4.implementations.transports import IN_PROCESS
from pytest_nvfp4.model import documents, hybrid_bucket
from pytest_nvfp4.plans import PlanKey, PlanMap
from pytest_nvfp4.suite.cases import Case
from pytest_nvfp4.suite.flashinfer_writer import Written
from pytest_nvfp4.suite.folders import Folders
from pytest_nvfp4.suite.output import Output, captured
from pytest_nvfp4.suite.probe import FLASHINFER, NATIVE, Dialect, Probe
from pytest_nvfp4.suite.record import Record
from pytest_nvfp4.suite.sessions import IMPORT_PATH, NATIVE_PATH, SubjectSession
from pytest_nvfp4.suite.watch import Watch


class Workplace:
    """What all cases of one process share: the implementation, settings, transports, folders.

    `timeout` is in seconds for one answer. `written` is the document of FIMP-11, None without one.
    """

    def __init__(
        self,
        target: Target,
        description: Description,
        folders: Folders,
        *,
        timeout: float,
        seed: int,
        written: Written | None,
    ):
        self.target = target
        self.description = description
        self.folders = folders
        self.timeout = timeout
        self.seed = seed
        self.written = written
        self._shared: dict[str, Transport] = {}

    def transport(self, name: str) -> Transport:
        """The transport that the cases share, opened at the first use."""
        if name not in self._shared:
            self._shared[name] = open_transport(self.target, name, self.timeout)
        return self._shared[name]

    def close(self) -> None:
        """End the shared subjects, and remove the folders."""
        for transport in self._shared.values():
            transport.close()
        self.folders.close()


class CaseTools:
    """The tools of one case; each part is made when the case first uses it."""

    def __init__(self, workplace: Workplace, case: Case, record: Record):
        self._workplace = workplace
        self._case = case
        self._record = record
        self._started: list[Transport] = []
        self._folder: Path | None = None

    def close(self, *, failed: bool) -> None:
        """End the processes of the case and the use of its folder."""
        for transport in self._started:
            transport.close()
        if self._folder is not None:
            self._workplace.folders.release(self._folder, failed=failed)

    # --- The implementation

    @property
    def description(self) -> Description:
        """What the implementation is and what it claims."""
        return self._workplace.description

    @cached_property
    def subject(self) -> Subject:
        """The implementation over the transport of this case."""
        transport = self._workplace.transport(self._case.transport)
        return Subject(transport, self._record.keep_request)

    def launch(self, **how: Any) -> Subject:
        """Start a fresh process of the implementation, which ends with the case.

        `how` has the keywords of `Target.json_lines`: `prefix` (command words to start it behind),
        `variables`, `folder`, `timeout`. This works for a Python object too: it is served.
        """
        transport = self._workplace.target.json_lines(**{"timeout": self._workplace.timeout} | how)
        self._started.append(transport)
        return Subject(transport, self._record.keep_request)

    def inheriting_subject(self) -> Subject:
        """A subject with the present state of the test process, such as its umask."""
        return self.subject if self._case.transport == IN_PROCESS else self.launch()

    def session(self, *, by: Subject | None = None, **variables: str) -> SubjectSession:
        """Open a session on `cache_file`: ``session(VARIABLE="value", by=another_subject)``.

        An empty variable is left out of the session's environment.
        """
        environment = {"HOME": str(self.folder), NATIVE_PATH: str(self.cache_file)} | variables
        return SubjectSession(by or self.subject, {k: v for k, v in environment.items() if v})

    @cached_property
    def watch(self) -> Watch:
        """Publish under observation of the file-system calls; skips by name without strace."""
        if self._case.transport != IN_PROCESS and (reason := strace.unavailable()):
            pytest.skip(f"needs strace: {reason}")
        return Watch(self.subject, self.launch, self.folder / "calls.log")

    def captured(self) -> contextlib.AbstractContextManager[Output]:
        """Catch what an implementation in this process writes and logs."""
        return captured()

    # --- Random data

    @cached_property
    def rng(self) -> random.Random:
        """Fresh random data for this case; it follows from the run's seed and the case's name."""
        return random.Random(f"{self._workplace.seed} {self._case.item}")

    @cached_property
    def plans(self) -> PlanMap:
        """Six random plans with every kind of bucket, in order."""
        return random_plans(self.rng, 6)

    # --- Files

    @property
    def folder(self) -> Path:
        """A temporary folder of this case alone."""
        if self._folder is None:
            self._folder = self._workplace.folders.make(self._case.function.__name__)
        return self._folder

    @cached_property
    def cache_file(self) -> Path:
        """Where sessions keep their document: alone in its directory, and not there yet."""
        directory = self.folder / "cache"
        directory.mkdir()
        return directory / "autotune_configs.json"

    def write_cache_file(self, plans: Mapping[PlanKey, int]) -> bytes:
        """Put a good document at `cache_file`, of the kind of `own`; return its bytes."""
        self.cache_file.write_bytes(self.own.text(self.own.document(PlanMap(plans))))
        return self.cache_file.read_bytes()

    def write_import_file(self, plans: Mapping[PlanKey, int]) -> dict[str, str]:
        """Write a good FlashInfer document; return the variable that names it to a session."""
        path = self.folder / "imported.json"
        metadata = self.description.import_metadata or {}
        path.write_bytes(documents.flashinfer_bytes(metadata, plans))
        return {IMPORT_PATH: str(path)}

    # --- Documents that the subject reads and writes

    @cached_property
    def native(self) -> Probe:
        """Native documents in the environment that the subject describes as its own."""
        return self._probe(NATIVE, self.plans)

    @cached_property
    def flashinfer(self) -> Probe:
        """FlashInfer documents in the environment that the subject describes as its own."""
        return self._probe(FLASHINFER, self.plans)

    @cached_property
    def own(self) -> Probe:
        """Documents of the kind that the subject keeps its own plans in."""
        kept_native = self.description.documents == KIND_NATIVE
        return self._probe(NATIVE if kept_native else FLASHINFER, self.plans)

    @property
    def oracle(self) -> oracle.Oracle:
        """The binding oracle: 64 plans and the environment that they were tuned in."""
        return oracle.load()

    @cached_property
    def binding(self) -> Probe:
        """The plans of the binding oracle, in the environment that they were tuned in.

        Where the subject reads only for its own environment, they are in that one instead.
        """
        probe = self._probe(FLASHINFER, self.oracle.plans)
        if not probe.fixed:
            probe.metadata = dict(self.oracle.metadata)
        return probe

    @property
    def binding_text(self) -> bytes:
        """The text of the binding oracle in the environment of `binding`."""
        probe = self.binding
        return probe.text(probe.document()) + b"\n" if probe.fixed else self.oracle.document

    @property
    def flashinfer_document(self) -> Written:
        """A document that FlashInfer 0.6.13 wrote on this machine; skips by name without one."""
        if self._workplace.written is None:
            pytest.skip(
                "needs FlashInfer 0.6.13 to write a document; `make flashinfer` installs it, and "
                "--nvfp4-flashinfer PYTHON names it"
            )
        return self._workplace.written

    def _probe(self, dialect: Dialect, plans: PlanMap) -> Probe:
        claimed = self.description
        metadata = claimed.native_metadata if dialect is NATIVE else claimed.import_metadata
        return Probe(
            self.subject,
            self.folder,
            dialect,
            metadata or {},
            plans,
            with_session="session" in claimed.capabilities,
            keep=self._record.keep_document,
            fixed=claimed.own_environment_only,
        )


def random_plans(rng: random.Random, count: int) -> PlanMap:
    """`count` random plans with distinct keys that both dialects can hold."""
    plans: dict[PlanKey, int] = {}
    while len(plans) < count:
        m = hybrid_bucket(rng.choice((rng.randint(1, 256), rng.randint(257, 4096), 2**20, 2**30)))
        n = rng.choice((rng.randint(1, 50_000), rng.randint(65_537, 2**31 - 1)))
        k = 16 * rng.choice((rng.randint(1, 2_000), rng.randint(4_097, 2**27 - 1)))
        plans[PlanKey(m, n, k)] = rng.randrange(32)
    return PlanMap(plans)
