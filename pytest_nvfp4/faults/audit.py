"""Observe the file-system calls of Python code in this process, by audit events.

The interpreter itself raises them, so no Python code is missed: neither a function to which some
code keeps a reference, nor a built-in file. They come before the call, whether it succeeds or not.
An audit hook cannot be removed; so one is installed once, and passes events on while there are
listeners. Calls of compiled code raise none.
"""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

from pytest_nvfp4.faults.calls import Call, Name

Listener = Callable[[str, tuple[Any, ...]], None]

# Event → what it is, and where its arguments are: the path, then the descriptor of the folder that
# a relative path starts from, if the event has one; and both again for a second path.
_CHANGES: dict[str, tuple[Name, tuple[int, ...]]] = {
    "os.rename": ("rename", (0, 2, 1, 3)),
    "os.link": ("link", (0, 2, 1, 3)),
    "os.remove": ("unlink", (0, 1)),
    "os.rmdir": ("unlink", (0, 1)),
    "os.mkdir": ("write", (0, 2)),
    "os.truncate": ("write", (0,)),
    "os.chmod": ("write", (0, 2)),
    "os.chown": ("write", (0, 3)),
    "os.utime": ("write", (0, 3)),
    "os.setxattr": ("write", (0,)),
    "os.removexattr": ("write", (0,)),
}
_listeners: tuple[Listener, ...] = ()
_installed = False


@contextlib.contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Call a listener with every event inside the block, from any thread: its name and arguments.

    An exception of the listener is raised in the code that raised the event, so it should raise
    none.
    """
    global _listeners, _installed  # noqa: PLW0603 - an audit hook is global and for ever
    if not _installed:
        sys.addaudithook(_pass_on)
        _installed = True
    _listeners = (*_listeners, listener)
    try:
        yield
    finally:
        _listeners = tuple(one for one in _listeners if one is not listener)


@contextlib.contextmanager
def audited() -> Iterator[list[Call]]:
    """Record what is attempted inside the block, by any thread of this process."""
    calls: list[Call] = []

    def record(event: str, arguments: tuple[Any, ...]) -> None:
        call = call_of(event, arguments)
        if call is not None:
            calls.append(call)

    with listening(record):
        yield calls


def call_of(event: str, arguments: tuple[Any, ...]) -> Call | None:
    """The call that an event announces; None for events that are not about files."""
    if event == "open":
        path, _, flags = arguments
        if not isinstance(flags, int):
            return None
        writes = bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_TRUNC))
        return Call("open", _path(path), creates=bool(flags & os.O_CREAT), writes=writes)
    if event == "os.symlink":  # a link's content is not a path of this call
        return Call("link", "", _path(arguments[1], arguments[2]))
    if event not in _CHANGES:
        return None
    name, places = _CHANGES[event]
    found = [arguments[place] for place in places]
    if name in ("rename", "link"):
        return Call(name, _path(found[0], found[1]), _path(found[2], found[3]))
    return Call(name, _path(*found))


def _pass_on(event: str, arguments: tuple[Any, ...]) -> None:
    for listener in _listeners:
        listener(event, arguments)


def _path(value: Any, folder: int = -1) -> str:
    """The absolute path that an event is about, by name or by descriptor."""
    try:
        if isinstance(value, int):
            return os.readlink(f"/proc/self/fd/{value}")
        path = os.fsdecode(value)
        if folder >= 0 and not os.path.isabs(path):
            path = os.path.join(os.readlink(f"/proc/self/fd/{folder}"), path)
        return os.path.abspath(path)
    except (OSError, TypeError):  # its folder does not exist any more, or it is not a path
        return ""
