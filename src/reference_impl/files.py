"""Read a regular file whole, and never block on a file of another kind.

Here and in `publication`, each system call is an attribute of `os`, so that tests can record the
order of calls and inject faults.
"""

import errno
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from typing import ParamSpec, TypeVar

from .errors import Rejected

SIZE_LIMIT = 64 * 2**20
"""The most bytes of a document: about 300,000 plans."""

_INTERRUPTIONS = 100

_P = ParamSpec("_P")
_T = TypeVar("_T")


def uninterrupted(call: Callable[_P, _T], *arguments: _P.args, **named: _P.kwargs) -> _T:
    """The result of a system call, which is repeated while a signal interrupts it.

    Python itself repeats most calls; this covers the others. After 100 interruptions the error is
    raised. Do not use it for `close`, which releases the descriptor even when it is interrupted.
    """
    for _ in range(_INTERRUPTIONS):
        try:
            return call(*arguments, **named)
        except InterruptedError:
            continue
    return call(*arguments, **named)


def read_regular(path: str) -> bytes:
    """The bytes of the regular file at `path`, through symbolic links.

    Rejects `not-regular`, `unreadable` and `too-large`. The kind of file is checked before it is
    opened, since opening a device can have an effect, and again on the open descriptor, since
    another file can take the name in between.
    """
    try:
        _require_regular(uninterrupted(os.stat, path), path)
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        descriptor = uninterrupted(os.open, path, flags)
        try:
            _require_regular(uninterrupted(os.fstat, descriptor), path)
            return _read(descriptor)
        finally:
            with suppress(OSError):  # all is read, or an error is already raised
                os.close(descriptor)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket took the name between the two checks
            raise _not_regular(path) from None
        raise Rejected(
            "unreadable",
            "",
            f"{path} cannot be read ({reason(error)}); check the path and its permissions.",
        ) from None
    except ValueError as error:  # a NUL in the path, or text that cannot be a file name
        raise Rejected(
            "unreadable", "", f"{path!r} cannot be a path ({error}); name an existing file."
        ) from None


def reason(error: OSError) -> str:
    """The system's text for an error."""
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
    return Rejected("not-regular", "", f"{path} is not a regular file; name a regular file.")


def _too_large() -> Rejected:
    return Rejected(
        "too-large",
        "",
        f"the document has more than {SIZE_LIMIT} bytes; remove it and tune again.",
    )
