"""Plan maps for syrupy: how its snapshots of them are named, read and written.

`nvfp4_snapshot` drives this directly, and not through syrupy's session. The session is where
syrupy finds snapshots that no test of *this process* used, and deletes them: those of tests that
were skipped, or ran in another process. Here nothing is ever discovered, so nothing can be deleted,
also where somebody writes ``snapshot.use_extension(PlanMapExtension)``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from syrupy.data import Snapshot, SnapshotCollection, SnapshotCollections
from syrupy.extensions.base import AbstractSyrupyExtension
from syrupy.location import PyTestLocation
from syrupy.types import SerializedData, SnapshotIndex

from pytest_nvfp4.plans import PlanMap, as_plan_map
from pytest_nvfp4.results.files import publish
from pytest_nvfp4.snapshot import names, plan_text
from pytest_nvfp4.snapshot.comparison import SnapshotError, difference_lines

_SEPARATOR = "#"


class PlanMapExtension(AbstractSyrupyExtension):
    """A syrupy extension whose snapshots are plan maps, one file for each test."""

    file_extension = names.EXTENSION
    write_immediately = True

    def serialize(self, data: object, **_options: Any) -> SerializedData:
        """The rows of a map."""
        return plan_text.rows(as_plan_map(data))

    # --- Names

    @classmethod
    def get_snapshot_name(cls, *, test_location: PyTestLocation, index: SnapshotIndex = 0) -> str:
        """The test and the map's label: a name, or the number of an unnamed comparison."""
        label = index if isinstance(index, str) else str(index + 1)
        return f"{names.id_within_module(test_location.item)}{_SEPARATOR}{label}"

    @classmethod
    def dirname(cls, *, test_location: PyTestLocation) -> str:
        """The folder of the test's module, which is not within syrupy's."""
        return str(names.folder(test_location.item.path))

    @classmethod
    def get_file_basename(cls, *, test_location: PyTestLocation, index: SnapshotIndex) -> str:
        """The test's file, whatever the index."""
        return names.stem(names.id_within_module(test_location.item))

    @classmethod
    def matches_test_location(
        cls, *, test_location: PyTestLocation, snapshot_location: str
    ) -> bool:
        """Whether a file is that of a test."""
        return cls.get_location(test_location=test_location, index=0) == snapshot_location

    # --- Nothing to delete

    def discover_snapshots(self, **_site: Any) -> SnapshotCollections:
        """No snapshots: what is not discovered cannot count as unused."""
        return SnapshotCollections()

    def delete_snapshots(self, *, snapshot_location: str, snapshot_names: set[str]) -> None:
        """Delete nothing."""

    # --- Files

    def read_snapshot_collection(self, *, snapshot_location: str) -> SnapshotCollection:
        """Nothing: a file is read for the test that asks for it."""
        return SnapshotCollection(location=snapshot_location)

    def read_snapshot_data_from_location(
        self, *, snapshot_location: str, snapshot_name: str, session_id: str
    ) -> SerializedData | None:
        """The rows of one map, None where there are none."""
        test, _, label = snapshot_name.rpartition(_SEPARATOR)
        found = read_maps(Path(snapshot_location), test).get(label)
        return None if found is None else plan_text.rows(found)

    @classmethod
    def write_snapshot_collection(
        cls, *, snapshot_collection: SnapshotCollection, **_options: Any
    ) -> None:
        """Write maps of one test beside those that its file has already."""
        path = Path(snapshot_collection.location)
        written = {}
        test = ""
        for snapshot in snapshot_collection:
            test, _, label = snapshot.name.rpartition(_SEPARATOR)
            written[label] = plan_text.parse_rows(str(snapshot.data))
        write_maps(path, test, read_maps(path, test) | written)

    # --- What a mismatch shows

    def diff_lines(
        self, serialized_data: SerializedData, snapshot_data: SerializedData
    ) -> Iterator[str]:
        """A table of the plans that differ."""
        if snapshot_data:
            snapshot, given = map(plan_text.parse_rows, (str(snapshot_data), str(serialized_data)))
            yield from difference_lines(snapshot, given)


class Shelf:
    """A test's maps by label, through the extension."""

    def __init__(self, location: PyTestLocation):
        self._extension = PlanMapExtension()
        self._location = location
        self._test = names.id_within_module(location.item)
        self.path = Path(self._extension.get_location(test_location=location, index=0))

    def read(self) -> dict[str, PlanMap]:
        """All maps of the test; SnapshotError for a file that is not canonical."""
        return read_maps(self.path, self._test)

    def write(self, maps: dict[str, PlanMap]) -> None:
        """Write these maps of the test, and keep its others."""
        collection = SnapshotCollection(location=str(self.path))
        for label, plans in maps.items():
            name = self._extension.get_snapshot_name(test_location=self._location, index=label)
            collection.add(Snapshot(name=name, data=self._extension.serialize(plans)))
        self._extension.write_snapshot_collection(snapshot_collection=collection)


def read_maps(path: Path, test: str) -> dict[str, PlanMap]:
    """A file's maps by label, none where there is no file; SnapshotError where it is not right."""
    try:
        return plan_text.parse(path.read_bytes(), test)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise SnapshotError(f"cannot read {path}: {error.strerror}; make it readable") from None
    except plan_text.TextError as error:
        raise SnapshotError(
            f"{path} is not a snapshot that can be read: {error}; "
            f"restore it, or delete it and run with --snapshot-update"
        ) from None


def write_maps(path: Path, test: str, maps: dict[str, PlanMap]) -> None:
    """Replace a file in one step, so that a reader finds the old text or the new."""
    try:
        publish(path, plan_text.render(test, maps).encode("utf-8"))
    except OSError as error:
        raise SnapshotError(
            f"cannot write {path}: {error.strerror}; make its folder writable"
        ) from None
