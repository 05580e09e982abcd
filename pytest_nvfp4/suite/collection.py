"""The cases of a run as items of pytest.

They are items of the suite's own and not test functions: no fixture of the surrounding repository
applies to them, autouse or not, no naming pattern hides them, and no hook parametrizes them.
"""

from __future__ import annotations  # TerminalRepr is no public name

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_nvfp4.results.verdicts import Verdict
from pytest_nvfp4.suite.cases import Case, module_of, node_of
from pytest_nvfp4.suite.marks import ARGUMENT
from pytest_nvfp4.suite.record import Record, verdict_of
from pytest_nvfp4.suite.tools import CaseTools, Workplace
from pytest_nvfp4.upstream import items


class ContractFile(pytest.Module):
    """A file of the suite; it collects the cases that are planned for this run."""

    def __init__(self, *, cases: Sequence[Case], workplace: Workplace, **node: Any):
        super().__init__(**node)
        self._cases = cases
        self._workplace = workplace

    def collect(self) -> Iterable[pytest.Item]:
        """An item for each planned case."""
        for case in self._cases:
            yield ContractItem.from_parent(
                self, name=case.item, case=case, workplace=self._workplace
            )


class ContractItem(pytest.Item):
    """One case over one transport."""

    fixturenames: Sequence[str] = ()
    """No fixture applies; a conftest.py may ask for this."""

    def __init__(self, *, case: Case, workplace: Workplace, **node: Any):
        super().__init__(**node)
        self.case = case
        self.function = case.function
        self.funcargs: Mapping[str, object] = {}
        self.record = Record()
        self.outcome: tuple[Verdict, str] | None = None
        """What the case itself came to, whatever hooks around it make of that; None before."""
        self._workplace = workplace
        for mark in reversed(items.marks_of(case.function)):
            self.add_marker(getattr(pytest.mark, mark.name)(*mark.args, **mark.kwargs))

    def runtest(self) -> None:
        """Run the case, and keep its verdict."""
        self.record, self.outcome = Record(), None
        tools = CaseTools(self._workplace, self.case, self.record)
        error: BaseException | None = None
        try:
            arguments = {ARGUMENT: tools} if self.case.wants_tools else {}
            self.case.function(**arguments, **self.case.parameters)
        except BaseException as raised:
            error = raised
            raise
        finally:
            self.outcome = verdict_of(error)
            verdict, _ = self.outcome
            tools.close(failed=verdict in (Verdict.FAILED, Verdict.ERROR))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Show a failure from the contract test on, without the frames of pytest."""
        if not self.config.getoption("fulltrace", False):
            excinfo.traceback = excinfo.traceback.cut(path=self.path).filter(excinfo)
        chosen = self.config.getoption("tbstyle", "auto")
        return super().repr_failure(excinfo, style="long" if chosen == "auto" else chosen)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Where the contract test is defined."""
        return self.path, self.function.__code__.co_firstlineno - 1, self.name


def collect_file(
    path: Path, parent: pytest.Collector, cases: Sequence[Case], workplace: Workplace
) -> ContractFile:
    """The collector of a file of the suite, whose node id does not depend on where it lies."""
    return items.module_of(
        ContractFile,
        parent,
        path=path,
        nodeid=node_of(path.name),
        module=module_of(path),
        cases=cases,
        workplace=workplace,
    )
