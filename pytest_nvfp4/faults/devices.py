"""Device files for tests of files that are not regular, without a risk to the machine's own.

A faulty implementation that publishes through a link would rename its document over the device to
which the link leads. Root can do that to /dev/null, so root gets a node in the test's folder; other
users cannot replace anything in /dev.
"""

import os
import socket
import stat
from pathlib import Path

import pytest

_MEMORY = 1
_MINORS = {"null": 3, "zero": 5}


def place(path: Path, name: str) -> None:
    """Make `path` lead to a device like /dev/null; skips, by name, where none can be."""
    if os.geteuid() != 0:
        path.symlink_to(f"/dev/{name}")
        return
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(_MEMORY, _MINORS[name]))
        os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
    except PermissionError as error:
        pytest.skip(f"needs a device node of its own, which is denied here ({error.strerror})")


def place_socket(path: Path) -> None:
    """Make `path` a socket; it is bound by its relative path, which has to be short."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(path))
