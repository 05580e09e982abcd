"""The result of one run of a test: the messages of its process, and how the process ended."""

import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from pytest_nvfp4.markers.fresh_process.channel import GARBLED
from pytest_nvfp4.markers.fresh_process.observations import (
    MEASURED,
    OBSERVED,
    Metric,
    Value,
    read_observed,
)
from pytest_nvfp4.markers.fresh_process.processes import LINGERED, TIMED_OUT, Ended
from pytest_nvfp4.markers.fresh_process.request import FreshRun
from pytest_nvfp4.upstream.reports import expected_failure, is_internal_frame, is_phase

SETUP: Literal["setup"] = "setup"
CALL: Literal["call"] = "call"
TEARDOWN: Literal["teardown"] = "teardown"
AFTER: Literal["after the test"] = "after the test"
_SHOWN_LINES = 40
_LEFT_OUT = "  (frames of pytest)"
_NOTHING_COLLECTED = int(pytest.ExitCode.NO_TESTS_COLLECTED)


@dataclass(slots=True)
class Result:
    """One run: what was received from its process until now, and `ended` once it has ended."""

    run: FreshRun
    timeout: float | None = None
    began: bool = False
    reports: list[pytest.TestReport] = field(default_factory=list)
    warnings: list[Mapping[str, Any]] = field(default_factory=list)
    observed: dict[str, Value] = field(default_factory=dict)
    metrics: dict[str, Metric] = field(default_factory=dict)
    trouble: str = ""
    stop: Mapping[str, Any] | None = None
    """The arguments of `pytest.exit`, or none for Ctrl-C, where the test ends the whole run."""
    ended: Ended | None = None

    def receive(self, kind: str, value: Any) -> None:
        """Add a message, other than a report, which the caller restores and adds."""
        match kind:
            case "began":
                self.began = True
            case "warning":
                self.warnings.append(value)
            case "not-collected":
                self.trouble = f"the fresh process could not collect the test\n{value}"
            case "internal-error":
                self.trouble = f"an internal error ended the fresh process\n{value}"
            case kind if kind == GARBLED:
                self.trouble = (
                    f"something else wrote into the channel of the fresh process: {value!r}; does "
                    "the test use a descriptor that it did not open?"
                )
            case "exit":
                self.stop = value or {}
            case kind if kind == OBSERVED:
                self.observed[value["name"]] = read_observed(value)
            case kind if kind == MEASURED:
                self.metrics[value["name"]] = Metric(value["unit"], value["better"], value["value"])

    @property
    def phase(self) -> Literal["setup", "call", "teardown", "after the test"]:
        """The phase that the test was in at its last message."""
        done = {report.when: report for report in self.reports if is_phase(report)}
        if TEARDOWN in done:
            return AFTER
        if SETUP not in done:
            return SETUP
        return TEARDOWN if CALL in done or not done[SETUP].passed else CALL

    @property
    def failed(self) -> bool:
        """Whether the run has failed, by a report or by its end."""
        return any(report.failed for report in self.reports) or bool(self.problem())

    @property
    def verdict(self) -> str:
        """The outcome in pytest's words: failed, skipped, xfailed, xpassed or passed."""
        if self.failed:
            return "failed"
        marked = any(expected_failure(report) is not None for report in self.reports)
        if any(report.skipped for report in self.reports if is_phase(report)):
            return "xfailed" if marked else "skipped"
        return "xpassed" if marked else "passed"

    @property
    def call(self) -> pytest.TestReport | None:
        """The report of the call; None where the test did not come to it."""
        found = [report for report in self.reports if is_phase(report) and report.when == CALL]
        return found[0] if found else None

    def problem(self) -> str:
        """What is wrong with the end of the process: one sentence, perhaps more lines; or ""."""
        ended = self.ended
        if ended is None or self.stop is not None:
            return ""
        found = self.trouble or classify(
            ended, phase=self.phase, began=self.began, timeout=self.timeout
        )
        set_up = any(report.when == SETUP and report.passed for report in self.reports)
        if not found and set_up and self.call is None:
            return "the fresh process set the test up and did not call it; is there --setup-only?"
        return found

    def leftovers(self) -> list[tuple[str, str]]:
        """Output that is in no report, as sections of a report."""
        if self.ended is None:
            return []
        found = [
            (f"Captured {name} {self.phase}", text)
            for name, text in sorted(self.ended.captured.items(), reverse=True)
            if text
        ]
        if self.ended.output:
            lines = without_pytest(self.ended.output.splitlines())[-_SHOWN_LINES:]
            found.append(("Last output of the fresh process", "\n".join(lines)))
        return found


_FRAME = re.compile(r'  File "(?P<path>[^"]+)"(, line \d+)? in ')
_BOOTSTRAP = str(Path(__file__).with_name("bootstrap.py"))


def without_pytest(lines: Sequence[str]) -> list[str]:
    """The stacks that faulthandler wrote, without the frames of pytest and of this folder."""
    kept: list[str] = []
    for line in lines:
        frame = _FRAME.match(line)
        if frame is None or not (is_internal_frame(frame["path"]) or frame["path"] == _BOOTSTRAP):
            kept.append(line)
        elif not kept or kept[-1] != _LEFT_OUT:
            kept.append(_LEFT_OUT)
    return kept


def classify(ended: Ended, *, phase: str, began: bool, timeout: float | None) -> str:
    """What is wrong with the end of a process, or "".

    `phase` is the test's phase, `began` whether pytest had begun with it; `timeout` is in seconds.
    """
    where = f"during {phase}" if phase != AFTER else phase
    if ended.error:
        return f"the fresh process could not be started: {ended.error}"
    if not began:
        where = "before the test"
        if ended.announced == ended.status == _NOTHING_COLLECTED:
            return (
                "the fresh process did not find the test; is it collected only at times, "
                "or named differently each time?"
            )
    if ended.why == TIMED_OUT:
        return f"the fresh process took longer than {timeout:g} s and was ended, {where}"
    if ended.why == LINGERED:
        return "the fresh process did not end after its test; is there a thread that never stops?"
    if ended.status < 0:
        name = _signal_name(-ended.status)
        return f"the fresh process died by {name} (signal {-ended.status}) {where}"
    if ended.announced != ended.status or phase != AFTER:
        return f"the fresh process ended with status {ended.status} {where}"
    return ""


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "a signal without a name"
