"""Temporary folders of cases, which no conftest.py can override as it can `tmp_path`."""

import contextlib
import re
import shutil
import tempfile
from pathlib import Path

import pytest


class Folders:
    """The temporary folders of one process of a run.

    A folder is removed when its case ends: the files that reproduce a failure are written
    elsewhere. Below pytest's ``--basetemp``, which xdist sets for its workers, the folder of a
    failed case stays, unless `tmp_path_retention_policy` is ``none``.
    """

    def __init__(self, config: pytest.Config):
        base = config.getoption("basetemp", None)
        self._base = None if base is None else Path(base).resolve()
        self._keeps = self._base is not None and _policy(config) != "none"
        self._root: Path | None = None

    def make(self, name: str) -> Path:
        """A new, empty folder for the case with this name."""
        if self._root is None or not self._root.is_dir():
            if self._base is not None:
                self._base.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._root = Path(tempfile.mkdtemp(prefix="nvfp4-", dir=self._base)).resolve()
        prefix = re.sub(r"\W", "_", name)[:30] + "-"
        return Path(tempfile.mkdtemp(prefix=prefix, dir=self._root))

    def release(self, folder: Path, *, failed: bool) -> None:
        """End the use of a folder: remove it, or keep it for a look at a failure."""
        if not (failed and self._keeps):
            shutil.rmtree(folder, ignore_errors=True)

    def close(self) -> None:
        """End the run: nothing stays but kept folders."""
        if self._root is not None:
            with contextlib.suppress(OSError):  # it holds kept folders
                self._root.rmdir()


def _policy(config: pytest.Config) -> str:
    """pytest's ini value for retention; ``all`` where the plugin that declares it is off."""
    try:
        return str(config.getini("tmp_path_retention_policy"))
    except ValueError:
        return "all"
