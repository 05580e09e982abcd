"""One run of the conformance suite inside pytest: select, parametrise, record, conclude.

With xdist, workers do the same, less the conclusion: the controller hears of every case through
the user properties of its reports, which also end up in JUnit files.
"""

from __future__ import annotations  # pytest.TerminalReporter is public from 8.4 only

import datetime
import importlib
import importlib.resources
import os
import platform
import sys
import time
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import pytest_nvfp4
from pytest_nvfp4 import oracle
from pytest_nvfp4.implementations.loader import Target, TargetError, load
from pytest_nvfp4.implementations.messages import Description
from pytest_nvfp4.implementations.plain_data import decode
from pytest_nvfp4.implementations.smoke import examine, unclaimed
from pytest_nvfp4.results import deviations, report, reproducer
from pytest_nvfp4.results.verdicts import (
    CaseResult,
    ContractResult,
    aggregate,
)
from pytest_nvfp4.specification import contracts
from pytest_nvfp4.suite.fixtures import Fixtures
from pytest_nvfp4.suite.flashinfer_writer import WriterError, Written, write
from pytest_nvfp4.suite.marks import OVER, REQUIRES
from pytest_nvfp4.suite.options import Settings
from pytest_nvfp4.suite.recorder import PACKAGE, TRANSPORT_IDS, Recorder, contract_of
from pytest_nvfp4.text import visible
from pytest_nvfp4.views import badge, github, page, table
from pytest_nvfp4.views import comparison as compare


def suite_files() -> list[Path]:
    """The files of the suite, as they lie on disk."""
    folder = importlib.resources.files(PACKAGE)
    return sorted(Path(str(file)) for file in folder.iterdir() if file.name.startswith("test_"))


class Run:
    """The plugin object of a run; `conclusion` is there once the session has ended."""

    def __init__(self, config: pytest.Config):
        self.config = config
        self.settings = Settings.of(config)
        self.specification = contracts.packaged()
        self.selected = self._select()
        self.deviations = self._read(self.settings.deviations)
        self.target = self._load_target()
        self.description: Description | None = None
        self._raw_description: Any = None
        self._files = frozenset(suite_files())
        self._recorder = Recorder(
            self._files, self.specification, self.deviations, self.settings.reproducers
        )
        self._planned: int | None = None
        self._unwritten = ""
        self._written: Written | None = None
        self._unclaimed: list[str] = []
        config.pluginmanager.register(self._recorder, "nvfp4-recorder")
        self._started = datetime.datetime.now(datetime.UTC)
        self._clock = time.monotonic()
        self.results: tuple[ContractResult, ...] = ()
        self.seconds = 0.0
        # Every process of the run has to draw the same data: workers inherit the option.
        config.option.nvfp4_seed = str(self.settings.seed)
        paths = config.args if config.getoption("file_or_dir") else []
        config.args[:] = [*paths, *(str(f) for f in sorted(self._files) if str(f) not in paths)]

    @property
    def is_worker(self) -> bool:
        return hasattr(self.config, "workerinput")

    def _select(self) -> frozenset[str]:
        chosen = self.specification.contracts
        if self.settings.contract is not None:
            try:
                chosen = contracts.select(self.specification, self.settings.contract)
            except ValueError as error:
                raise pytest.UsageError(f"{self.settings.sources['contract']}: {error}") from None
        levels = ("must",) if self.settings.level == "must" else ("must", "should", "future")
        return frozenset(contract.id for contract in chosen if contract.level in levels)

    def _read(self, path: Path | None) -> deviations.Deviations:
        if path is None:
            return deviations.Deviations()
        try:
            return deviations.read(
                path, specification=self.specification, today=datetime.date.today()
            )
        except ValueError as error:
            raise pytest.UsageError(str(error)) from None

    def _load_target(self) -> Target:
        try:
            return load(self.settings.impl)
        except TargetError as error:
            raise pytest.UsageError(str(error)) from None

    # --- Before the tests

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """Find out who the implementation is, and that it works at all."""
        if self.is_worker:
            told = self.config.workerinput  # type: ignore[attr-defined]
            self._raw_description = told["nvfp4_description"]
            self.description = decode(self._raw_description, Description)
            if told["nvfp4_written"] is not None:
                self._written = Written.of(told["nvfp4_written"])
        else:
            self.description = self._examine()
            self._written = self._let_flashinfer_write(self.description)
        fixtures = Fixtures(
            self.target,
            self.description,
            timeout=self.settings.timeout,
            seed=self.settings.seed,
            written=self._written,
        )
        self.config.pluginmanager.register(fixtures, "nvfp4-fixtures")

    def _examine(self) -> Description:
        found: Description | None = None
        for name in self.target.transports:
            try:
                examined = examine(self.target, name, self.settings.timeout)
            except TargetError as error:
                raise pytest.UsageError(str(error)) from None
            impl = f"{self.settings.impl!r} ({name})"
            if examined.problem is not None:
                raise pytest.UsageError(f"the adapter of {impl} is broken: {examined.problem}")
            if found is not None and examined.description != found:
                raise pytest.UsageError(f"{impl} describes itself differently than in process")
            found, self._raw_description = examined.description, examined.data
        assert found is not None
        self._unclaimed = unclaimed(self.target, found, self.settings.timeout)
        return found

    def _let_flashinfer_write(self, description: Description) -> Written | None:
        """The document of FIMP-11, where it is wanted and there is a FlashInfer to write it."""
        contract = self.specification.contract("FIMP-11")
        wanted = contract.id in self.selected and contract.capability in description.capabilities
        python, settings = self.settings.flashinfer, self.settings
        if python is None or not wanted:
            return None
        try:
            return write(python, seed=settings.seed, timeout=settings.timeout)
        except WriterError as error:
            raise pytest.UsageError(f"{settings.sources['flashinfer']}: {error}") from None

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell an xdist worker what was found out."""
        node.workerinput["nvfp4_description"] = self._raw_description
        node.workerinput["nvfp4_written"] = self._written and self._written.as_data()

    def pytest_report_header(self) -> list[str]:
        assert self.description is not None
        settings = self.settings
        told = self.description
        who = visible(f"{told.name} {told.version} ({told.language})")
        lines = [
            f"nvfp4: suite {pytest_nvfp4.__version__}, specification {self.specification.version}, "
            f"implementation {who}",
            f"nvfp4: {len(self.selected)} of {len(self.specification.contracts)} contracts, "
            f"seed {settings.seed}, timeout {settings.timeout:g} s",
        ]
        if self._unclaimed:
            lines.append(f"nvfp4: not claimed, but answering: {', '.join(self._unclaimed)}")
        if settings.sources:
            chosen = (f"{name} from {source}" for name, source in settings.sources.items())
            lines.append(f"nvfp4: {', '.join(chosen)}")
        return lines

    # --- Collection

    @pytest.hookimpl(tryfirst=True)
    def pytest_pycollect_makemodule(
        self, module_path: Path, parent: pytest.Collector
    ) -> pytest.Module | None:
        """Import the suite under its one real name, whatever import mode the project has chosen."""
        if module_path not in self._files:
            return None
        nodeid = f"conformance/{module_path.name}"  # wherever the package lies
        module: pytest.Module = pytest.Module.from_parent(parent, path=module_path, nodeid=nodeid)
        module.obj = importlib.import_module(f"{PACKAGE}.{module_path.stem}")
        return module

    @pytest.hookimpl(trylast=True)  # so that the transport comes last in a case's id
    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Run each case over every transport that it makes sense for."""
        if metafunc.definition.path in self._files and "subject" in metafunc.fixturenames:
            only = metafunc.definition.get_closest_marker(OVER)
            names = [
                name for name in self.target.transports if only is None or name == only.args[0]
            ]
            metafunc.parametrize(
                "subject", names, indirect=True, ids=[TRANSPORT_IDS[name] for name in names]
            )

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep the cases of selected contracts whose capabilities are claimed."""
        kept: list[pytest.Item] = []
        left_out: list[pytest.Item] = []
        for item in items:
            (kept if item.path not in self._files or self._wanted(item) else left_out).append(item)
        self._planned = sum(item.path in self._files for item in kept)
        if left_out:
            items[:] = kept
            self.config.hook.pytest_deselected(items=left_out)

    def _wanted(self, item: pytest.Item) -> bool:
        assert self.description is not None
        callspec = getattr(item, "callspec", None)
        transport = callspec and callspec.params.get("subject")
        if transport is not None and transport not in self.target.transports:
            return False  # a test over a transport that this implementation does not have
        contract = contract_of(item, self.specification)
        if contract.level == contracts.FUTURE:
            return contract.id in self.selected  # listed, and skipped by name
        needed = {contract.capability, *(mark.args[0] for mark in item.iter_markers(REQUIRES))}
        return contract.id in self.selected and needed <= self.description.has

    # --- After the tests

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Conclude: verdicts, and the files that were asked for."""
        if self.is_worker:
            self.config.workeroutput["nvfp4_planned"] = self._planned  # type: ignore[attr-defined]
            return
        if self.description is None or self.config.option.collectonly:
            return
        self.seconds = time.monotonic() - self._clock
        judged = self.selected if self.whole else frozenset()
        raw = [self._with_reproduction(case) for case in self._recorder.cases.values()]
        cases = self.deviations.apply(raw, judged)
        self.results = aggregate(
            self.specification,
            cases,
            claimed=self.description.capabilities,
            selected=self.selected,
        )
        if len(cases) > len(raw) and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED  # a stale deviation
        try:
            self._write_files(raw, judged)
        except OSError as error:
            # The run is over and its verdicts stand; that nobody can read them later is a mistake.
            self._unwritten = f"cannot write {error.filename}: {error.strerror}"
            session.exitstatus = pytest.ExitCode.USAGE_ERROR

    def _with_reproduction(self, case: CaseResult) -> CaseResult:
        """The case with what its reproducer holds, so that a report shows it without the files."""
        if case.reproducer is None:
            return case
        path = self.config.invocation_params.dir / case.reproducer
        return replace(case, reproduction=reproducer.excerpt(path))

    @property
    def whole(self) -> bool:
        """Whether every case of the selected contracts was run to its end.

        It was not where somebody narrowed the run (-k, -x, --lf, a conftest), nor where a worker
        or the run itself came to grief.
        """
        return self._planned == len(self._recorder.cases)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Hear from an xdist worker how many cases there were to run."""
        planned = getattr(node, "workeroutput", {}).get("nvfp4_planned")
        self._planned = planned if self._planned is None else self._planned

    @property
    def implementation(self) -> report.Implementation:
        """Who was tested, for the report and the table."""
        assert self.description is not None
        names = ("name", "version", "language", "homepage", "capabilities")
        told = {name: getattr(self.description, name) for name in names}
        return report.Implementation(target=self.settings.impl, **told)

    @property
    def circumstances(self) -> report.Run:
        """How it was tested, for the report and the table."""
        chosen = [
            self.settings.contract or "",
            "MUST only" if self.settings.level == "must" else "",
        ]
        return report.Run(
            started=self._started,
            seconds=self.seconds,
            seed=self.settings.seed,
            python=platform.python_version(),
            platform=platform.platform(),
            selection=", ".join(filter(None, chosen)),
            whole=self.whole,
        )

    def _write_files(self, raw: list[CaseResult], judged: Collection[str]) -> None:
        if self.settings.write_deviations is not None:
            deviations.write(self.settings.write_deviations, raw, self._previous(), judged)
        _, summary = github.wanted(os.environ)
        if summary is not None:
            text = github.summary(
                self.specification,
                self.results,
                implementation=self.implementation,
                run=self.circumstances,
                limit=github.room(summary),
            )
            github.append_summary(summary, text)
        if not (self.settings.report or self.settings.badges or self.settings.html):
            return
        whole = report.build(
            self.specification,
            self.results,
            implementation=self.implementation,
            run=self.circumstances,
            suite_version=pytest_nvfp4.__version__,
            suite_digest=report.suite_digest(),
            deviations=self.deviations.entries,
        )
        if self.settings.report:
            report.write(self.settings.report, whole)
        for path in self.settings.badges:
            badge.write(path, badge.from_report(whole))
        if self.settings.html:
            binding = oracle.load()  # what every plan map can be held against
            base = page.NamedMap("oracle", binding.plans, binding.metadata)
            page.write(self.settings.html, compare.of([(None, whole)], self.specification), [base])

    def _previous(self) -> deviations.Deviations:
        """The deviations whose reasons a new file keeps: the given ones, or its own old ones."""
        path = self.settings.write_deviations
        given = self.settings.deviations is not None
        fresh = given or path is None or not path.is_file()
        return self.deviations if fresh else self._read(path)

    def _place(self) -> github.Place | None:
        """Where annotations belong: the adapter's source, if it lies in the repository."""
        source = self.target.source()
        root = os.environ.get("GITHUB_WORKSPACE") or self.config.invocation_params.dir
        if source is None or not source[0].resolve().is_relative_to(Path(root).resolve()):
            return None
        file = source[0].resolve().relative_to(Path(root).resolve())
        return github.Place(file.as_posix(), source[1])

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Show the table."""
        if not self.results:
            return
        encoding = getattr(sys.stdout, "encoding", None) or "ascii"
        for line in table.lines(
            self.specification,
            self.results,
            implementation=self.implementation,
            run=self.circumstances,
            width=80,
            ascii_only=encoding.lower().replace("-", "") != "utf8",
        ):
            for text, markup in line:
                terminalreporter.write(text, **markup)
            terminalreporter.write("\n")
        if github.wanted(os.environ)[0]:
            for command in github.annotations(self.results, self._place()):
                terminalreporter.write_line(command)
        if self._unwritten:
            terminalreporter.write_line(f"ERROR: {self._unwritten}", red=True)
