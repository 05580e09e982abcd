"""Messages between a fresh process and its parent: JSON lines over a socket pair.

A line is ``[kind, value]``. File descriptors can be sent with a line: a process that has died
cannot send what it had printed, so it sends the descriptors of its output before the test begins.
"""

import array
import contextlib
import json
import os
import socket
import threading
from collections.abc import Sequence
from typing import Any

Message = tuple[str, Any]

GARBLED = "garbled"
"""The kind of a line that is not a message; its value is the beginning of the line."""

_CHUNK = 1 << 16
_ROOM_BESIDE = socket.CMSG_SPACE(8 * array.array("i").itemsize)
# `socket.recv_fds` would do, but ignores its flags.
_AT_ONCE = socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC


class Channel:
    """One end. Sending blocks, from any thread; `receive` does not."""

    def __init__(self, end: socket.socket):
        self._socket = end
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self._unread: list[bytes] = []  # of a line whose end has not come; joined once it has
        self.descriptors: list[int] = []
        """Descriptors that were received; `close` closes them."""

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, kind: str, value: object, descriptors: Sequence[int] = ()) -> None:
        """Send one message; raises TypeError or ValueError for a value that JSON cannot hold."""
        if os.getpid() != self._owner:
            raise RuntimeError(
                "a forked process cannot record anything; record in the test's process"
            )
        line = json.dumps([kind, value]).encode("ascii") + b"\n"
        with self._lock:
            sent = socket.send_fds(self._socket, [line], descriptors) if descriptors else 0
            self._socket.sendall(line[sent:])

    def receive(self) -> list[Message] | None:
        """The messages since the last call; None once the other end is closed and all are read."""
        came = []
        ended = False
        while True:
            try:
                data, beside, _, _ = self._socket.recvmsg(_CHUNK, _ROOM_BESIDE, _AT_ONCE)
            except BlockingIOError:
                break
            except ConnectionResetError:
                data, beside = b"", []
            for _, _, packed in beside:
                self.descriptors.extend(array.array("i", packed))
            if not data:
                ended = True
                break
            came.append(data)
        before, newline, after = b"".join(came).rpartition(b"\n")
        lines = []
        if newline:
            lines = b"".join([*self._unread, before]).split(b"\n")
            self._unread.clear()
        if after:
            self._unread.append(after)
        if ended and not lines:
            return None
        return [_message(line) for line in lines]

    def acknowledge(self) -> None:
        """Let the sender of the last message continue, where it waits for that."""
        with contextlib.suppress(OSError):  # it may have died since
            self._socket.sendall(b"\n")

    def wait(self) -> None:
        """Wait until the other end acknowledges the last message."""
        self._socket.recv(1)

    def close(self) -> None:
        """Close the socket and every descriptor that was received."""
        self._socket.close()
        while self.descriptors:
            os.close(self.descriptors.pop())


def _message(line: bytes) -> Message:
    try:
        kind, value = json.loads(line)
    except (TypeError, ValueError):
        return GARBLED, line[:40].decode("utf-8", "backslashreplace")
    return kind, value
