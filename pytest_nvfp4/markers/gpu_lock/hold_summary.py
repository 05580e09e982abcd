"""What the end of a run says about its holds, gathered from reports wherever the tests ran."""

from __future__ import annotations  # pytest.TerminalReporter is public from 8.4 only

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import pytest

from pytest_nvfp4.markers.gpu_lock.gpu_lock import MARK, Hold

_OUTPUT = "nvfp4_holds"


class HoldSummary:
    """Gathers holds and shows them."""

    def __init__(self, config: pytest.Config):
        self._config = config
        self._holds: dict[tuple[str, str, str], Hold] = {}
        self._tests: Counter[tuple[str, str, str]] = Counter()

    def add(self, hold: Hold, tests: int = 0) -> None:
        """Note a hold; of two records of one, the one that knows its end is kept."""
        key = (hold.id, hold.path, hold.acquired)
        if key not in self._holds or hold.released:
            self._holds[key] = hold
        self._tests[key] += tests

    def send(self, hold: Hold) -> None:
        """Note a hold that no test's report can tell the end of; from an xdist worker too."""
        self.add(hold)
        if hasattr(self._config, "workeroutput"):
            self._config.workeroutput.setdefault(_OUTPUT, []).append(asdict(hold))

    def add_reported(self, report: pytest.TestReport) -> None:
        """Note the hold that a test's last report tells of."""
        hold = Hold.from_properties(report.user_properties)
        if hold is not None:
            self.add(hold, tests=1)

    def add_received(self, output: Mapping[str, Any]) -> None:
        """Note the holds that ended with an xdist worker."""
        for told in output.get(_OUTPUT, ()):
            self.add(Hold(**told))

    def show(self, terminal: pytest.TerminalReporter) -> None:
        """One line; with -v, one for each hold as well."""
        if not self._holds:
            return
        waited = sum(float(hold.waited) for hold in self._holds.values())
        count = len(self._holds)
        holds = "1 hold" if count == 1 else f"{count} holds"
        verbose = self._config.get_verbosity() > 0
        more = "" if verbose else " (-v shows them)"
        terminal.write_line(f"{MARK}: {holds}, waited {waited:.3f} s in all{more}")
        if verbose:
            for key, hold in sorted(self._holds.items(), key=lambda pair: pair[1].acquired):
                terminal.write_line(f"  {line(hold, self._tests[key])}")


def line(hold: Hold, tests: int) -> str:
    """A hold in one line."""
    adopted = f", adopted from {hold.adopted_from}" if hold.adopted_from else ""
    return (
        f"hold {hold.id} of {hold.path}: {hold.acquired} to {hold.released or 'the end'}, "
        f"waited {float(hold.waited):.3f} s, {hold.owner}, "
        f"{tests} test{'' if tests == 1 else 's'}{adopted}"
    )
