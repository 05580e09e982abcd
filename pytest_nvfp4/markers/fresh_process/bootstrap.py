"""The program of a fresh process: become what the parent was when it began, then run pytest.

Run as a file, with one argument, the descriptor of the channel. Nothing of this package is imported
before pytest asks for it: modules that came earlier could not have their assertions rewritten.
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


class Arrival:
    """A plugin that brings the one that tells the parent how the test goes."""

    def __init__(self, end: socket.socket, launch: dict[str, Any]):
        self._end = end
        self._launch = launch

    def pytest_load_initial_conftests(self, early_config: "pytest.Config") -> None:
        """Register it when plugins are loaded and conftest files are not."""
        from pytest_nvfp4.markers.fresh_process.channel import Channel
        from pytest_nvfp4.markers.fresh_process.child import NAME, Child, Quiet

        manager = early_config.pluginmanager
        manager.register(Child(Channel(self._end), self._launch), NAME)
        manager.register(Quiet())


def main() -> int:
    """Run one test and return pytest's exit status."""
    end = socket.socket(fileno=int(sys.argv[1]))
    end.set_inheritable(False)  # an orphan must not keep it open
    launch = _receive(end)
    _die_with(launch["parent"])
    sys.argv[:] = launch["argv"]
    sys.path[:] = launch["path"]
    if _ROOT not in sys.path:
        sys.path.append(_ROOT)
    import pytest

    with end:
        return int(pytest.main(launch["arguments"], plugins=[Arrival(end, launch)]))


def _receive(end: socket.socket) -> dict[str, Any]:
    data = b""
    while not data.endswith(b"\n"):
        chunk = end.recv(1 << 16)
        if not chunk:
            raise EOFError("the parent is gone")
        data += chunk
    _, launch = json.loads(data)
    return launch  # type: ignore[no-any-return]


def _die_with(parent: int) -> None:
    """Be killed when the parent is: nobody would hear the rest, and its GPU lock is free then."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
