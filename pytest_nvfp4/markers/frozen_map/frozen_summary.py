"""The record of a frozen file in a test's report, and the summary of all at the end of a run."""

from __future__ import annotations  # pytest.TerminalReporter is public from 8.4 only

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, fields

import pytest

from pytest_nvfp4.markers.frozen_map import MARK

_NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Frozen:
    """The file of one test: its digest, the number of its plans, the sources of statistics."""

    path: str
    sha256: str
    plans: str
    statistics: str

    def properties(self) -> list[tuple[str, str]]:
        """The record as user properties of a report."""
        return [(f"{MARK}_{one.name}", getattr(self, one.name)) for one in fields(self)]

    @classmethod
    def from_properties(cls, properties: Iterable[tuple[str, object]]) -> Frozen | None:
        """The file in a report's user properties, if there is one."""
        found = {name: str(value) for name, value in properties}
        names = [one.name for one in fields(cls)]
        if any(f"{MARK}_{name}" not in found for name in names):
            return None
        return cls(**{name: found[f"{MARK}_{name}"] for name in names})


class FrozenSummary:
    """Gathers the frozen files of a run, from reports wherever the tests ran, and shows them."""

    def __init__(self, config: pytest.Config):
        self._config = config
        self._tests: Counter[Frozen] = Counter()

    def add_reported(self, report: pytest.TestReport) -> None:
        """Add the file that is in a test's last report."""
        frozen = Frozen.from_properties(report.user_properties)
        if frozen is not None:
            self._tests[frozen] += 1

    def show(self, terminal: pytest.TerminalReporter) -> None:
        """Write one or two lines, and with -v one for each file and its sources of statistics."""
        if not self._tests:
            return
        verbose = self._config.get_verbosity() > 0
        tests = self._tests.total()
        maps = len({(one.path, one.sha256) for one in self._tests})
        more = "" if verbose else " (-v shows them)"
        terminal.write_line(f"{MARK}: {_many(tests, 'test')} on {_many(maps, 'map')}{more}")
        silent = sum(count for one, count in self._tests.items() if one.statistics == _NONE)
        if silent:
            terminal.write_line(
                f"{MARK}: {_many(silent, 'test')} without plan statistics, "
                "where only the file was watched"
            )
        if verbose:
            for one, count in sorted(self._tests.items(), key=lambda pair: pair[0].properties()):
                terminal.write_line(f"  {line(one, count)}")


def line(frozen: Frozen, tests: int) -> str:
    """A file in one line."""
    return (
        f"map {frozen.sha256[:16]} of {frozen.path}: {frozen.plans} plans, "
        f"{_many(tests, 'test')}, statistics: {frozen.statistics}"
    )


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
