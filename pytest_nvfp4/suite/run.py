"""One run of the conformance suite inside pytest. The hooks only wire; what they do is beside.

With xdist, every worker runs its cases as a process without workers does. The controller collects
the verdicts from the reports, and it alone examines the implementation and draws the conclusion.
"""

from __future__ import annotations  # pytest.TerminalReporter is public from 8.4 only

import datetime
import os
import platform
import sys
import time
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

import pytest_nvfp4
from pytest_nvfp4 import settings
from pytest_nvfp4.implementations.loader import load
from pytest_nvfp4.results import report
from pytest_nvfp4.specification import contracts
from pytest_nvfp4.suite.cases import suite_files
from pytest_nvfp4.suite.collection import collect_file
from pytest_nvfp4.suite.conclusion import Conclusion, concluded, place_of
from pytest_nvfp4.suite.examination import Examination, examined
from pytest_nvfp4.suite.folders import Folders
from pytest_nvfp4.suite.options import Settings
from pytest_nvfp4.suite.recorder import Plan, Recorder
from pytest_nvfp4.suite.selection import read_deviations, selected_cases, selected_contracts
from pytest_nvfp4.suite.tools import Workplace
from pytest_nvfp4.text import terminal_width, visible
from pytest_nvfp4.upstream import runs, workers
from pytest_nvfp4.views import github, table

_GOOD = (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)


class ConformanceRun:
    """The plugin object of a run; `conclusion` is there once the session has ended."""

    def __init__(self, config: pytest.Config):
        self.config = config
        self.settings = Settings.of(config)
        self.specification = contracts.packaged()
        with settings.usage_errors():
            self.selected = selected_contracts(self.specification, self.settings)
            self.deviations = read_deviations(self.settings.deviations, self.specification)
            self.target = load(self.settings.impl)
        self.conclusion: Conclusion | None = None
        self._files = frozenset(suite_files())
        self._recorder = Recorder(lambda: self._plan, self.deviations, self.settings.reproducers)
        config.pluginmanager.register(self._recorder, "nvfp4-recorder")
        self._examination: Examination | None = None
        self._workplace: Workplace | None = None
        self._messages: list[str] = []
        self._started = datetime.datetime.now(datetime.UTC)
        self._clock = time.monotonic()
        runs.collect_also(config, map(str, sorted(self._files)))

    @cached_property
    def _plan(self) -> Plan:
        """The cases to run; the controller of workers makes it at the first report."""
        cases = selected_cases(
            self.specification, self.selected, self.target, self._found.description
        )
        return Plan(tuple(cases))

    @property
    def _found(self) -> Examination:
        assert self._examination is not None, "the session has not started"
        return self._examination

    # --- Before the tests

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """Find out what the implementation is, and that it works at all."""
        if workers.is_worker(self.config):
            received = workers.received(self.config)
            self._examination = Examination.from_data(received["nvfp4_examination"])
            # Every process of the run has to draw the same data.
            self.settings = replace(self.settings, seed=received["nvfp4_seed"])
        else:
            with settings.usage_errors():
                self._examination = examined(
                    self.target, self.settings, self.specification, self.selected
                )
        self._workplace = Workplace(
            self.target,
            self._found.description,
            Folders(self.config),
            timeout=self.settings.timeout,
            seed=self.settings.seed,
            written=self._found.written,
        )

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Send an xdist worker what was found out, and the seed."""
        workers.send_to_worker(node, "nvfp4_examination", self._found.as_data())
        workers.send_to_worker(node, "nvfp4_seed", self.settings.seed)

    def pytest_report_header(self) -> list[str]:
        """What is tested, how much of the specification, and which settings apply."""
        chosen, found = self.settings, self._found
        about = found.description
        implementation = visible(f"{about.name} {about.version} ({about.language})")
        lines = [
            f"nvfp4: suite {pytest_nvfp4.__version__}, specification {self.specification.version}, "
            f"implementation {implementation}",
            f"nvfp4: {len(self.selected)} of {len(self.specification.contracts)} contracts, "
            f"seed {chosen.seed}, timeout {chosen.timeout:g} s",
        ]
        if found.unclaimed:
            lines.append(f"nvfp4: not claimed, but answering: {', '.join(found.unclaimed)}")
        if chosen.sources:
            sources = (f"{name} from {source}" for name, source in chosen.sources.items())
            lines.append(f"nvfp4: {', '.join(sources)}")
        return lines

    @pytest.hookimpl(tryfirst=True)
    def pytest_pycollect_makemodule(
        self, module_path: Path, parent: pytest.Collector
    ) -> pytest.Module | None:
        """Collect the suite's own files, whatever the surrounding project has configured."""
        if module_path not in self._files:
            return None
        assert self._workplace is not None, "the session has not started"
        cases = [case for case in self._plan.cases if case.file == module_path.name]
        return collect_file(module_path, parent, cases, self._workplace)

    # --- After the tests

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Conclude: verdicts, the files that were asked for, and the exit status."""
        looking = workers.is_worker(self.config) or self.config.getoption("--collect-only")
        if looking or self._examination is None:
            return
        self.conclusion = conclusion = concluded(
            self.specification,
            self._implementation,
            self._circumstances,
            self._recorder.results.values(),
            selected=self.selected,
            known=self.deviations,
            folder=self.config.invocation_params.dir,
        )
        if conclusion.stale and runs.exit_status(session) == pytest.ExitCode.OK:
            runs.set_exit_status(session, pytest.ExitCode.TESTS_FAILED)
        if conclusion.nothing_judged is not None and runs.exit_status(session) in _GOOD:
            runs.set_exit_status(session, pytest.ExitCode.TESTS_FAILED)
            self._messages.append(conclusion.nothing_judged)
        try:
            conclusion.write(self.settings, os.environ)
        except OSError as error:
            # The verdicts stand, but a file that was asked for is missing: a mistake in the call.
            self._messages.append(f"cannot write {error.filename}: {error.strerror}")
            runs.set_exit_status(session, pytest.ExitCode.USAGE_ERROR)

    @pytest.hookimpl
    def pytest_unconfigure(self) -> None:
        """End the subjects that cases shared."""
        if self._workplace is not None:
            self._workplace.close()

    @property
    def _implementation(self) -> report.Implementation:
        names = ("name", "version", "language", "homepage", "capabilities")
        described = {name: getattr(self._found.description, name) for name in names}
        return report.Implementation(target=self.settings.impl, **described)

    @property
    def _circumstances(self) -> report.Run:
        level = "MUST only" if self.settings.level == "must" else ""
        return report.Run(
            started=self._started,
            seconds=time.monotonic() - self._clock,
            seed=self.settings.seed,
            python=platform.python_version(),
            platform=platform.platform(),
            selection=", ".join(filter(None, [self.settings.contract or "", level])),
            whole=self._recorder.whole,
        )

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Show the table, the annotations for GitHub, and what is wrong with the run itself."""
        conclusion = self.conclusion
        if conclusion is None or not conclusion.results:
            return
        encoding = getattr(sys.stdout, "encoding", None) or "ascii"
        for line in table.lines(
            self.specification,
            conclusion.results,
            implementation=conclusion.implementation,
            run=conclusion.run,
            width=terminal_width(bool(terminalreporter.isatty)),
            ascii_only=encoding.lower().replace("-", "") != "utf8",
        ):
            for text, markup in line:
                terminalreporter.write(text, **markup)
            terminalreporter.write("\n")
        if github.wanted(os.environ)[0]:
            place = place_of(self.target, self.config.invocation_params.dir, os.environ)
            for command in github.annotations(conclusion.results, place):
                terminalreporter.write_line(command)
        for message in self._messages:
            terminalreporter.write_line(f"ERROR: {message}", red=True)
