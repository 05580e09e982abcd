"""The value of `nvfp4_snapshot`, which equals a plan map or explains why not."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Protocol

from pytest_nvfp4.errors import UsageError
from pytest_nvfp4.plans import NotPlansError, PlanMap, as_plan_map, difference_table, differences
from pytest_nvfp4.snapshot import names

PROPERTY = "nvfp4_snapshot"
UNUSED = "nvfp4_snapshot_unused"

_ROWS = 64
_LONGEST_NAME = 100


class SnapshotError(UsageError):
    """A snapshot that cannot be read or written, or a wrong use; the text is one sentence."""


class Mode(Enum):
    """What a run may write."""

    COMPARE = "nothing"
    ADD = "only what is missing"
    UPDATE = "what is missing or differs"


class Outcome(Enum):
    """The outcome of a comparison; its value is shown, and stands in reports."""

    MATCHED = "matched"
    WRITTEN = "written"
    UPDATED = "updated"
    DIFFERS = "differing"
    MISSING = "missing"


class Storage(Protocol):
    """A test's maps by label, in one file."""

    @property
    def path(self) -> Path: ...
    def read(self) -> dict[str, PlanMap]: ...
    def write(self, maps: dict[str, PlanMap]) -> None: ...


def decide(stored: PlanMap | None, given: PlanMap, mode: Mode) -> Outcome:
    """The outcome of comparing a given map with the stored one, None where there is none."""
    if stored is None:
        return Outcome.MISSING if mode is Mode.COMPARE else Outcome.WRITTEN
    if stored == given:
        return Outcome.MATCHED
    return Outcome.UPDATED if mode is Mode.UPDATE else Outcome.DIFFERS


def difference_lines(snapshot: PlanMap, given: PlanMap) -> Iterator[str]:
    """A table of the plans that differ, at most the first `_ROWS`."""
    changes = differences(snapshot, given)
    yield from difference_table(changes[:_ROWS], "snapshot", "this run")
    if len(changes) > _ROWS:
        yield f"… and {len(changes) - _ROWS} more plans differ"


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What a run may write, the options that let it write more, and the root of shown paths."""

    mode: Mode
    update: str
    root: Path


class Comparisons:
    """The comparisons of one test with its file."""

    def __init__(
        self, storage: Storage, run: Circumstances, record: Callable[[str, str], None]
    ) -> None:
        self._storage = storage
        self._run = run
        self._record = record
        self._compared: dict[str, PlanMap] = {}
        self._unnamed = 0
        self.shown = names.shown(storage.path, run.root)

    def next_label(self) -> str:
        """The label of the next comparison without a name."""
        self._unnamed += 1
        return str(self._unnamed)

    def compare(self, label: str, value: object) -> tuple[Outcome, list[str]]:
        """Compare, and write where the run may; the outcome, and lines that explain a mismatch.

        Raises SnapshotError, and NotPlansError for a value that is not a plan map.
        """
        given = as_plan_map(value)
        if self._compared.setdefault(label, given) != given:
            raise SnapshotError(
                f"the test compares two different plan maps with snapshot {label!r}; "
                f"give them names of their own with nvfp4_snapshot(name=…)"
            )
        stored = self._storage.read().get(label)
        outcome = decide(stored, given, self._run.mode)
        if outcome in (Outcome.WRITTEN, Outcome.UPDATED):
            self._storage.write({label: given})
        self._record(PROPERTY, f"{outcome.value} {self.shown}[{label}]")
        return outcome, self._explain(outcome, label, stored, given)

    def _explain(
        self, outcome: Outcome, label: str, stored: PlanMap | None, given: PlanMap
    ) -> list[str]:
        if outcome is Outcome.MISSING:
            return [
                f"no snapshot {label!r} of this test yet; {self._run.update} writes it",
                f"in {self.shown}",
            ]
        if stored is None or outcome is not Outcome.DIFFERS:
            return []
        count = len(differences(stored, given))
        total = len(stored.keys() | given.keys())
        return [
            f"plan maps differ in {count} of {total} plans from snapshot {label!r}; "
            f"{self._run.update} accepts them",
            f"in {self.shown}",
            *difference_lines(stored, given),
        ]

    def finish(self) -> None:
        """Record the maps in the file that the test did not compare."""
        with contextlib.suppress(
            SnapshotError
        ):  # a comparison has raised it before, or there was none
            for label in self._storage.read().keys() - self._compared.keys():
                self._record(UNUSED, f"{self.shown}[{label}]")


class PlanSnapshot:
    """Equals a plan map when the test's snapshot does; `nvfp4_snapshot(name=…)` is another one.

    Without names, the comparisons of a test are numbered in their order.
    """

    def __init__(self, comparisons: Comparisons, name: str = "") -> None:
        self._comparisons = comparisons
        self._name = name
        self.explanation: list[str] = []

    def __call__(self, name: str) -> PlanSnapshot:
        """The snapshot of a map with a name of its own; raises SnapshotError for a bad name."""
        __tracebackhide__ = True
        try:
            return PlanSnapshot(self._comparisons, checked_name(name))
        except SnapshotError as error:
            raise error.with_traceback(None) from None

    def __eq__(self, value: object) -> bool:
        __tracebackhide__ = True
        label = self._name or self._comparisons.next_label()
        try:
            outcome, self.explanation = self._comparisons.compare(label, value)
        except (NotPlansError, SnapshotError) as error:
            raise error.with_traceback(
                None
            ) from None  # a mistake of the user: no frames of this file
        return outcome not in (Outcome.DIFFERS, Outcome.MISSING)

    def __ne__(self, value: object) -> bool:
        __tracebackhide__ = True
        raise SnapshotError(
            "a plan map that must differ from its snapshot cannot be recorded; compare with =="
        )

    __hash__ = None  # type: ignore[assignment]

    def assert_match(self, plans: object) -> None:
        """The comparison as a call, for tests whose ``assert`` pytest does not rewrite.

        Raises AssertionError with the explanation.
        """
        __tracebackhide__ = True
        if not self == plans:
            raise AssertionError("\n".join(self.explanation))

    def __repr__(self) -> str:
        name = f"(name={self._name!r})" if self._name else ""
        return f"<nvfp4_snapshot{name} in {self._comparisons.shown}>"


def checked_name(name: object) -> str:
    """A map's name; SnapshotError where a file could not show it."""
    if (
        not isinstance(name, str)
        or not 0 < len(name) <= _LONGEST_NAME
        or not name.isprintable()
        or name.isdecimal()
        or name != name.strip()
        or set(name) & set("[]#")
    ):
        raise SnapshotError(
            f"nvfp4_snapshot(name={name!r}) is not possible; "
            f"use a short printable name that is not a number and has none of []#"
        )
    return name
