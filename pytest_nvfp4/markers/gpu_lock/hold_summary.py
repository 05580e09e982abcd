"""The record of a hold in a test's report, and the summary of all holds at the end of a run."""

from __future__ import annotations  # pytest.TerminalReporter is public from 8.4 only

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import pytest

from pytest_nvfp4.markers.gpu_lock import MARK, OUTPUT
from pytest_nvfp4.upstream import workers


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """The record of a hold, for reports: two tests with one `id` ran under one hold.

    Times are UTC in ISO 8601; `waited` is in seconds; `adopted_from` is empty for a hold of our
    own, and `released` as long as it lasts.
    """

    id: str
    path: str
    acquired: str
    waited: str
    adopted_from: str
    owner: str
    released: str = ""

    def properties(self) -> list[tuple[str, str]]:
        """The record as user properties of a report."""
        return [(f"{MARK}_{one.name}", getattr(self, one.name)) for one in fields(self)]

    @classmethod
    def from_properties(cls, properties: Iterable[tuple[str, object]]) -> Hold | None:
        """The hold in a report's user properties, if there is one."""
        found = {name: str(value) for name, value in properties if name.startswith(f"{MARK}_")}
        names = [one.name for one in fields(cls)]
        if any(f"{MARK}_{name}" not in found for name in names):
            return None
        return cls(**{name: found[f"{MARK}_{name}"] for name in names})


class HoldSummary:
    """Gathers the holds of a run, from reports wherever the tests ran, and shows them."""

    def __init__(self, config: pytest.Config):
        self._config = config
        self._holds: dict[tuple[str, str, str], Hold] = {}
        self._tests: Counter[tuple[str, str, str]] = Counter()
        self._sent: list[dict[str, str]] = []

    def add(self, hold: Hold, tests: int = 0) -> None:
        """Add a hold; of two records of one hold, the one that has its end is kept."""
        key = (hold.id, hold.path, hold.acquired)
        if key not in self._holds or hold.released:
            self._holds[key] = hold
        self._tests[key] += tests

    def send(self, hold: Hold) -> None:
        """Add a hold that ended after the last test's report, in an xdist worker as well."""
        self.add(hold)
        self._sent.append(asdict(hold))
        workers.send_to_controller(self._config, OUTPUT, self._sent)

    def add_reported(self, report: pytest.TestReport) -> None:
        """Add the hold that is in a test's last report."""
        hold = Hold.from_properties(report.user_properties)
        if hold is not None:
            self.add(hold, tests=1)

    def add_received(self, output: Mapping[str, Any]) -> None:
        """Add the holds that an xdist worker has sent; see `upstream.workers.returned_by`."""
        for members in output.get(OUTPUT, ()):
            self.add(Hold(**members))

    def show(self, terminal: pytest.TerminalReporter) -> None:
        """Write one line, and with -v one for each hold as well."""
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
