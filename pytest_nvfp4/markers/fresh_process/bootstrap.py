"""The program of a fresh process: restore what the parent had when it began, then run pytest.

Run as a file, with one argument, the descriptor of the channel. Nothing of this package is imported
before pytest loads plugins: pytest rewrites assertions only in modules that are imported later.
"""

import ctypes
import json
import os
import signal
import socket
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

_PR_SET_PDEATHSIG = 1
_ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))


class Introduction:
    """A plugin that registers the plugins of a fresh process."""

    def __init__(self, end: socket.socket, launch: dict[str, Any]):
        self._end = end
        self._launch = launch

    def pytest_load_initial_conftests(self, early_config: "pytest.Config") -> None:
        """Register them after other plugins are loaded, and before conftest files are."""
        from pytest_nvfp4.markers.fresh_process import CHILD
        from pytest_nvfp4.markers.fresh_process.channel import Channel
        from pytest_nvfp4.markers.fresh_process.child import Child, Silence

        manager = early_config.pluginmanager
        manager.register(Child(Channel(self._end), self._launch), CHILD)
        manager.register(Silence())


def main() -> int:
    """Run one test and return pytest's exit status."""
    end = socket.socket(fileno=int(sys.argv[1]))
    end.set_inheritable(False)  # an orphan of this process must not keep it open
    launch = _receive(end)
    _die_with(launch["parent"])
    sys.argv[:] = launch["argv"]
    sys.path[:] = launch["path"]
    if _ROOT not in sys.path:
        sys.path.append(_ROOT)
    import pytest

    with end:
        return int(pytest.main(launch["arguments"], plugins=[Introduction(end, launch)]))


def _receive(end: socket.socket) -> dict[str, Any]:
    data = b""
    while not data.endswith(b"\n"):
        chunk = end.recv(1 << 16)
        if not chunk:
            raise EOFError("the parent has ended")
        data += chunk
    _, launch = json.loads(data)
    return launch  # type: ignore[no-any-return]


def _die_with(parent: int) -> None:
    """Be killed when the parent ends: no process reads the rest, and the parent's lock is free."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
