"""The files of snapshots: one for each test, read strictly and replaced whole."""

from pathlib import Path

import pytest

from pytest_nvfp4.plans import PlanMap
from pytest_nvfp4.results.files import publish
from pytest_nvfp4.snapshot import names, plan_text
from pytest_nvfp4.snapshot.comparison import SnapshotError


class SnapshotFile:
    """A test's maps by label, in its file."""

    def __init__(self, item: pytest.Item):
        self._test = names.id_within_module(item)
        self.path = names.folder(item.path) / f"{names.stem(self._test)}.{names.EXTENSION}"

    def read(self) -> dict[str, PlanMap]:
        """All maps of the test; see `read_maps`."""
        return read_maps(self.path, self._test)

    def write(self, maps: dict[str, PlanMap]) -> None:
        """Write these maps of the test, and keep its others; see `write_maps`."""
        write_maps(self.path, self._test, self.read() | maps)


def read_maps(path: Path, test: str) -> dict[str, PlanMap]:
    """The maps of a file by label, none where there is no file.

    Raises SnapshotError for a file that cannot be read or is not canonical.
    """
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
    """Replace a file in one step, so that a reader finds the old text or the new.

    Raises SnapshotError.
    """
    try:
        publish(path, plan_text.render(test, maps).encode("utf-8"))
    except OSError as error:
        raise SnapshotError(
            f"cannot write {path}: {error.strerror}; make its folder writable"
        ) from None
