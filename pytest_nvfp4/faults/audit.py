"""See what a Python subject in this process asks of the file system, through audit events.

The interpreter itself raises them, so nothing that runs in it can be missed: not a function that
somebody keeps a reference to, and not a built-in file. They come before the call, whether it works
or not, and cannot be taken away again; so one hook is installed once, and listens only at times.
"""

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any

from pytest_nvfp4.faults.calls import Call, Name

_CHANGES: dict[str, Name] = {
    "os.rename": "rename",
    "os.link": "link",
    "os.symlink": "link",
    "os.remove": "unlink",
    "os.rmdir": "unlink",
    "os.mkdir": "write",
    "os.truncate": "write",
    "os.chmod": "write",
    "os.chown": "write",
    "os.utime": "write",
    "os.setxattr": "write",
}
_listening: list[Call] | None = None
_installed = False


@contextlib.contextmanager
def audited() -> Iterator[list[Call]]:
    """Record what is attempted inside the block, by any thread of this process."""
    global _listening, _installed  # noqa: PLW0603 - an audit hook is global and for ever
    if not _installed:
        sys.addaudithook(_hear)
        _installed = True
    calls: list[Call] = []
    _listening = calls
    try:
        yield calls
    finally:
        _listening = None


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if _listening is None:
        return
    if event == "open":
        path, _, flags = arguments
        if isinstance(flags, int):
            writes = bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_TRUNC))
            call = Call("open", _path(path), creates=bool(flags & os.O_CREAT), writes=writes)
            _listening.append(call)
    elif event in _CHANGES:
        paths = [
            _path(value) for value in arguments if isinstance(value, str | bytes | os.PathLike)
        ]
        if not paths and arguments:
            paths = [_path(arguments[0])]
        target = paths[1] if len(paths) > 1 else ""
        _listening.append(Call(_CHANGES[event], paths[0] if paths else "", target))


def _path(value: Any) -> str:
    """The absolute path that an event is about, by name or by descriptor."""
    if isinstance(value, int):
        try:
            return os.readlink(f"/proc/self/fd/{value}")
        except OSError:
            return ""
    return os.path.abspath(os.fsdecode(value))
