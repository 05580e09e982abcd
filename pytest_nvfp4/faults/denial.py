"""A directory that a child process cannot write to, even where the tests run as root.

Mode bits do not stop root; what lets root pass is a capability, so the child is started without it.
Whether writing is really denied is tried, never assumed.
"""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True, slots=True)
class Sealed:
    """A sealed directory, and the command words that start a child which it is sealed for."""

    folder: Path
    prefix: tuple[str, ...]

    def fill(self, name: str, data: bytes) -> None:
        """Put a file into the directory, from outside, before the child looks."""
        self.folder.chmod(0o755)
        (self.folder / name).write_bytes(data)
        self.folder.chmod(0o555)


@contextlib.contextmanager
def unwritable(folder: Path) -> Iterator[Sealed]:
    """Make `folder` and seal it; skips the calling test, by name, where nothing can be denied."""
    prefix: tuple[str, ...] = ()
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("needs setpriv (util-linux) to start a child that a directory can refuse")
        prefix = ("setpriv", "--bounding-set=-dac_override,-dac_read_search", "--")
    folder.mkdir()
    folder.chmod(0o555)
    try:
        attempt = [*prefix, "sh", "-c", '> "$0/attempt"', str(folder)]
        if subprocess.run(attempt, capture_output=True, check=False).returncode == 0:
            (folder / "attempt").unlink()
            pytest.skip("needs a file system or a child that a directory's mode can refuse")
        yield Sealed(folder, prefix)
    finally:
        folder.chmod(0o755)
