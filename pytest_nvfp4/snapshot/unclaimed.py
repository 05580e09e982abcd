"""Snapshot files that belong to no test, found without running any.

A file is named only where its module was collected whole in this run and has no test of that name,
whether or not tests were deselected, skipped or run elsewhere afterwards; or where its module does
not exist any more. Even then it may belong to a parametrization of another machine: so a run names
files and deletes none.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pytest_nvfp4.snapshot import names


@dataclass(slots=True)
class ModuleTests:
    """What was collected from one test module."""

    expected: set[str] = field(default_factory=set)  # node ids of its classes
    collected: set[str] = field(
        default_factory=set
    )  # of those and the module's, the ones without an error
    tests: set[str] = field(default_factory=set)

    def whole(self) -> bool:
        """Whether everything in it was collected."""
        return bool(self.collected) and self.expected <= self.collected


class Collected:
    """The tests of every module, before any are deselected."""

    def __init__(self) -> None:
        self.modules: dict[Path, ModuleTests] = {}

    def add(self, collector: pytest.Collector, report: pytest.CollectReport) -> None:
        """Add the tests that a module or a class has."""
        if not isinstance(collector, pytest.Module | pytest.Class):
            return
        module = self.modules.setdefault(collector.path, ModuleTests())
        module.expected.add(collector.nodeid)
        if not report.passed:
            return
        module.collected.add(collector.nodeid)
        for node in report.result:
            if isinstance(node, pytest.Item):
                module.tests.add(names.id_within_module(node))
            else:
                module.expected.add(node.nodeid)


def unclaimed(modules: dict[Path, ModuleTests]) -> list[Path]:
    """The snapshot files without a test, of modules that were collected whole or do not exist."""
    found: set[Path] = set()
    for path, module in modules.items():
        if module.whole():
            expected = {f"{names.stem(test)}.{names.EXTENSION}" for test in module.tests}
            files = _files([names.folder(path)])
            found.update(file for file in files if file.name not in expected)
    for parent in {path.parent for path in modules}:
        found.update(_files(_of_removed_modules(parent)))
    return sorted(found)


def _of_removed_modules(tests: Path) -> Iterable[Path]:
    snapshots = tests / names.FOLDER
    if not snapshots.is_dir():
        return
    for folder in snapshots.iterdir():
        modules = (tests / f"{folder.name}.py", tests / folder.name)
        if folder.is_dir() and not any(module.is_file() for module in modules):
            yield folder


def _files(folders: Iterable[Path]) -> Iterable[Path]:
    for folder in folders:
        yield from (path for path in folder.glob(f"*.{names.EXTENSION}") if path.is_file())
