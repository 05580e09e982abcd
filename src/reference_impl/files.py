"""Read a regular file whole, without ever blocking on something that is none.

Every system call goes through `os` by attribute, here and in `publication`, so that the tests can
watch their order and inject faults.
"""

import errno
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from typing import ParamSpec, TypeVar

from .errors import Rejected

SIZE_LIMIT = 64 * 2**20
"""Bytes that a document may have: some three hundred thousand plans."""

_INTERRUPTIONS = 100

_P = ParamSpec("_P")
_T = TypeVar("_T")


def uninterrupted(call: Callable[_P, _T], *arguments: _P.args, **named: _P.kwargs) -> _T:
    """The result of a system call, repeated while a signal interrupts it.

    Python repeats most calls by itself; this holds for those that it does not, and gives up on a
    call that does nothing else. Not for `close`, whose descriptor is gone either way.
    """
    for _ in range(_INTERRUPTIONS):
        try:
            return call(*arguments, **named)
        except InterruptedError:
            continue
    return call(*arguments, **named)


def read_regular(path: str) -> bytes:
    """The bytes of the regular file at `path`, through symbolic links.

    Rejects `not-regular`, `unreadable` and `too-large`. The kind is looked at before opening,
    since opening a device can already do something, and again on the open descriptor, since the
    name may have got another file in between.
    """
    try:
        _require_regular(uninterrupted(os.stat, path), path)
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        descriptor = uninterrupted(os.open, path, flags)
        try:
            _require_regular(uninterrupted(os.fstat, descriptor), path)
            return _read(descriptor)
        finally:
            with suppress(OSError):  # everything was read or the reading has failed
                os.close(descriptor)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket took the name between the two looks
            raise _not_regular(path) from None
        raise Rejected(
            "unreadable",
            "",
            f"{path} cannot be read ({reason(error)}); check path and permissions.",
        ) from None
    except ValueError as error:  # a NUL in the path, or text that no file name can hold
        raise Rejected(
            "unreadable", "", f"{path!r} cannot be a path ({error}); name an existing file."
        ) from None


def reason(error: OSError) -> str:
    """What the system said, in its own words."""
    return error.strerror or type(error).__name__


def _read(descriptor: int) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while piece := uninterrupted(os.read, descriptor, min(2**20, SIZE_LIMIT + 1 - size)):
        pieces.append(piece)
        size += len(piece)
        if size > SIZE_LIMIT:
            raise _too_large()
    return b"".join(pieces)


def _require_regular(status: os.stat_result, path: str) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise _not_regular(path)
    if status.st_size > SIZE_LIMIT:
        raise _too_large()


def _not_regular(path: str) -> Rejected:
    return Rejected("not-regular", "", f"{path} is not a regular file; name one that is.")


def _too_large() -> Rejected:
    return Rejected(
        "too-large",
        "",
        f"the document has more than {SIZE_LIMIT} bytes; remove it and tune again.",
    )
