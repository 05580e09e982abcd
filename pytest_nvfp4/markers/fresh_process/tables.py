"""The tables that the end of a run shows: what several runs of one test took and measured."""

from __future__ import annotations  # pytest.TerminalReporter is public from 8.4 only

import pytest

from pytest_nvfp4.markers.fresh_process.verdict import TABLE, Table


class Tables:
    """Gathers the tables of reports, wherever their tests ran."""

    def __init__(self) -> None:
        self._tables: list[Table] = []

    def add(self, report: pytest.TestReport) -> None:
        """Note the table of a report, unless its failure shows it."""
        if report.failed:
            return
        self._tables.append(Table.of_plain(getattr(report, TABLE)))

    def show(self, terminal: pytest.TerminalReporter) -> None:
        """One table after the other, in the order in which the tests ended."""
        if self._tables:
            terminal.section("fresh processes")
        for table in self._tables:
            for line in table.lines():
                terminal.write_line(line)
