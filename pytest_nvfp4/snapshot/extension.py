"""Plan maps for syrupy's own fixture: ``snapshot.use_extension(PlanMapExtension)``.

The files are those of `nvfp4_snapshot`. As a session ends, syrupy deletes the snapshots that it
discovers and that no test of *this process* used, also those of tests that were skipped or ran in
another process. Here nothing is ever discovered, so nothing can be deleted.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from syrupy.data import SnapshotCollection, SnapshotCollections
from syrupy.extensions.base import AbstractSyrupyExtension
from syrupy.location import PyTestLocation
from syrupy.types import SerializedData, SnapshotIndex

from pytest_nvfp4.plans import as_plan_map
from pytest_nvfp4.snapshot import names, plan_text
from pytest_nvfp4.snapshot.comparison import difference_lines
from pytest_nvfp4.snapshot.storage import read_maps, write_maps

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
