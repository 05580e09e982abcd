"""The fixtures that contract tests are written with."""

import random
from collections.abc import Callable, Iterator, Mapping
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
from pytest_nvfp4.suite.flashinfer_writer import Written
from pytest_nvfp4.suite.probe import FLASHINFER, NATIVE, Dialect, Probe
from pytest_nvfp4.suite.record import Record
from pytest_nvfp4.suite.sessions import IMPORT_PATH, NATIVE_PATH, Session
from pytest_nvfp4.suite.watch import Watch

RECORD = pytest.StashKey[Record]()


class Fixtures:
    """A plugin that carries the fixtures of one run against one implementation."""

    def __init__(
        self,
        target: Target,
        description: Description,
        *,
        timeout: float,
        seed: int,
        written: Written | None,
    ):
        self._written = written
        self._target = target
        self._description = description
        self._timeout = timeout
        self._seed = seed
        self._shared: dict[str, Transport] = {}

    @pytest.hookimpl
    def pytest_unconfigure(self) -> None:
        """End the shared subjects."""
        for transport in self._shared.values():
            transport.close()

    def _transport(self, name: str) -> Transport:
        """The transport that cases share, as long as they leave its subject alive."""
        if name not in self._shared:
            self._shared[name] = open_transport(self._target, name, self._timeout)
        return self._shared[name]

    @pytest.fixture
    def description(self) -> Description:
        """Who the implementation is and what it claims."""
        return self._description

    @pytest.fixture
    def record(self, request: pytest.FixtureRequest) -> Record:
        """What this case leaves behind for a reproducer."""
        return request.node.stash.setdefault(RECORD, Record())  # type: ignore[no-any-return]

    @pytest.fixture
    def subject(self, request: pytest.FixtureRequest, record: Record) -> Subject:
        """The implementation, once over each transport that the test makes sense for."""
        return Subject(self._transport(request.param), record.keep_request)

    @pytest.fixture
    def launch(self, record: Record) -> Iterator[Callable[..., Subject]]:
        """Start fresh processes of the implementation: ``launch(prefix=…, variables=…, folder=…)``.

        They are ended with the test. This works for a Python object too: it is served.
        """
        started: list[Subject] = []

        def start(**how: Any) -> Subject:
            transport = self._target.json_lines(**{"timeout": self._timeout} | how)
            started.append(Subject(transport, record.keep_request))
            return started[-1]

        yield start
        for subject in started:
            subject.transport.close()

    @pytest.fixture
    def fresh(self, subject: Subject, launch: Callable[..., Subject]) -> Callable[[], Subject]:
        """Make the subject anew: what it has inherited from the test process is of this moment."""
        return lambda: subject if subject.transport.name == IN_PROCESS else launch()

    @pytest.fixture
    def watch(self, subject: Subject, launch: Callable[..., Subject], tmp_path: Path) -> Watch:
        """Publish under observation of the file-system calls; skips by name without strace."""
        if subject.transport.name != IN_PROCESS and (reason := strace.unavailable()):
            pytest.skip(f"needs strace: {reason}")
        return Watch(subject, launch, tmp_path / "calls.log")

    @pytest.fixture
    def cache_file(self, tmp_path: Path) -> Path:
        """Where sessions keep their native document: alone in its directory, not there yet."""
        folder = tmp_path / "cache"
        folder.mkdir()
        return folder / "autotune_configs.json"

    @pytest.fixture
    def native_file(self, cache_file: Path, own: Probe) -> Callable[[Mapping[PlanKey, int]], bytes]:
        """Put a good document where sessions look: ``native_file(plans)`` gives its bytes."""

        def write(plans: Mapping[PlanKey, int]) -> bytes:
            cache_file.write_bytes(own.text(own.document(PlanMap(plans))))
            return cache_file.read_bytes()

        return write

    @pytest.fixture
    def imported_file(
        self, tmp_path: Path, description: Description
    ) -> Callable[[Mapping[PlanKey, int]], dict[str, str]]:
        """Write a good FlashInfer document, and give the variable that names it to a session."""

        def write(plans: Mapping[PlanKey, int]) -> dict[str, str]:
            path = tmp_path / "imported.json"
            path.write_bytes(documents.flashinfer_bytes(description.import_metadata or {}, plans))
            return {IMPORT_PATH: str(path)}

        return write

    @pytest.fixture
    def session(self, subject: Subject, cache_file: Path, tmp_path: Path) -> Callable[..., Session]:
        """Open sessions on `cache_file`: ``session(FROZEN="1", by=another_subject)``."""

        def open_session(*, by: Subject | None = None, **variables: str) -> Session:
            environment = {"HOME": str(tmp_path), NATIVE_PATH: str(cache_file)} | variables
            return Session(by or subject, {k: v for k, v in environment.items() if v})

        return open_session

    @pytest.fixture
    def rng(self, request: pytest.FixtureRequest) -> random.Random:
        """Fresh random data for this case; it follows from the run's seed and the case's name."""
        return random.Random(f"{self._seed} {request.node.name}")

    @pytest.fixture
    def plans(self, rng: random.Random) -> PlanMap:
        """A few random plans with every kind of bucket, in order."""
        return random_plans(rng, 6)

    def _probe(
        self, subject: Subject, folder: Path, record: Record, dialect: Dialect, plans: PlanMap
    ) -> Probe:
        claimed = self._description
        metadata = claimed.native_metadata if dialect is NATIVE else claimed.import_metadata
        return Probe(
            subject,
            folder,
            dialect,
            metadata or {},
            plans,
            with_session="session" in claimed.capabilities,
            keep=record.keep_document,
            fixed=claimed.own_environment_only,
        )

    @pytest.fixture
    def native(self, subject: Subject, tmp_path: Path, record: Record, plans: PlanMap) -> Probe:
        """Native documents for the subject, under the environment that it says it runs in."""
        return self._probe(subject, tmp_path, record, NATIVE, plans)

    @pytest.fixture
    def flashinfer(self, subject: Subject, tmp_path: Path, record: Record, plans: PlanMap) -> Probe:
        """FlashInfer documents for the subject, under the environment that it says it runs in."""
        return self._probe(subject, tmp_path, record, FLASHINFER, plans)

    @pytest.fixture
    def own(self, subject: Subject, tmp_path: Path, record: Record, plans: PlanMap) -> Probe:
        """Documents of the kind that the subject keeps its own plans in."""
        dialect = NATIVE if self._description.documents == KIND_NATIVE else FLASHINFER
        return self._probe(subject, tmp_path, record, dialect, plans)

    @pytest.fixture
    def written(self) -> Written:
        """A document that FlashInfer 0.6.13 wrote on this machine; skips by name without one."""
        if self._written is None:
            pytest.skip(
                "needs FlashInfer 0.6.13 to write a document; `make flashinfer` installs it, and "
                "--nvfp4-flashinfer PYTHON names it"
            )
        return self._written

    @pytest.fixture
    def binding(self, subject: Subject, tmp_path: Path, record: Record) -> Probe:
        """The binding oracle for the subject, in the environment that it was tuned in.

        Where the subject can only read for its own environment, as if it had been tuned there.
        """
        probe = self._probe(subject, tmp_path, record, FLASHINFER, oracle.load().plans)
        if not probe.fixed:
            probe.metadata = dict(oracle.load().metadata)
        return probe

    @pytest.fixture
    def binding_text(self, binding: Probe) -> bytes:
        """The text of the oracle in the environment of `binding`."""
        return binding.text(binding.document()) + b"\n" if binding.fixed else oracle.load().document


def random_plans(rng: random.Random, count: int) -> PlanMap:
    """`count` random plans with distinct keys that both dialects can hold."""
    plans: dict[PlanKey, int] = {}
    while len(plans) < count:
        m = hybrid_bucket(rng.choice((rng.randint(1, 256), rng.randint(257, 4096), 2**20, 2**30)))
        n = rng.choice((rng.randint(1, 50_000), rng.randint(65_537, 2**31 - 1)))
        k = 16 * rng.choice((rng.randint(1, 2_000), rng.randint(4_097, 2**27 - 1)))
        plans[PlanKey(m, n, k)] = rng.randrange(32)
    return PlanMap(plans)
