"""Publish a document: merge it into its file so that no reader ever sees anything in between.

The new text goes to a temporary file in the same directory, reaches the disk, and then takes the
destination's name in one step (`rename`). A reader opens the old document or the new one; a crash
at any moment leaves one of the two.

Readers never lock. Writers do, since each reads, merges and replaces: without a lock, the second
of two would put back a merge that lacks the first one's plans. They lock the directory's own
descriptor, with `flock`: there is no lock file to leave behind or to delete under somebody, the
kernel releases the lock with its holder however that dies, and it holds between threads as well as
between processes. It cannot be the destination, whose inode changes with every publication. Where
the file system has no such lock, saving fails and says so.

Source: vLLM 0.25.0 flashinfer_autotune_cache.py:44-55, for the replacement.
"""

# Pathlib hides the system calls that matter here.

import errno
import fcntl
import logging
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from . import native_document
from .errors import Rejected
from .files import read_regular, reason, uninterrupted
from .merge import merged
from .native_document import Document

_logger = logging.getLogger(__name__)


def update(path: str, document: Document) -> Document:
    """Merge `document` into the file at `path`, publish the result and return it.

    What counts is the file as it is now, not as it was when it was loaded; an empty file counts
    as absent. A file that is corrupt, foreign or unreadable rejects with its own code and stays as
    it is; a system call that fails rejects with `publication`, and leaves the old bytes and no
    temporary file. Missing parent directories are created.
    """
    try:
        destination = _destination(path)
        directory = os.path.dirname(destination) or "."
        if not os.path.isdir(directory):
            os.makedirs(directory, exist_ok=True)
        with _locked(directory) as descriptor:
            mode = _existing_mode(destination)
            if mode is not None and (data := read_regular(destination)):
                document = merged(native_document.parse(data, document.metadata), document)
            text = document.render().encode()
            # Nothing is published that the next process would refuse.
            native_document.parse(text, document.metadata)
            _replace(destination, text, mode)
            _settle(directory, descriptor)
    except (OSError, ValueError) as error:
        why = reason(error) if isinstance(error, OSError) else str(error)
        raise Rejected(
            "publication",
            path,
            f"{path!r} could not be written ({why}); the file is as it was, "
            "so make room or name a writable path and save again.",
        ) from error
    return document


def _destination(path: str) -> str:
    """The file to replace: `path`, or what it links to, so that the link itself stays."""
    if not os.path.basename(path):
        raise _not_regular(path)
    try:
        status = uninterrupted(os.lstat, path)
    except FileNotFoundError:
        return path
    if not stat.S_ISLNK(status.st_mode):
        return path
    try:
        return os.path.realpath(path, strict=True)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP):
            raise _not_regular(path) from None
        raise


def _existing_mode(destination: str) -> int | None:
    """The permission bits of the file that will be replaced; None where there is none."""
    try:
        status = uninterrupted(os.stat, destination)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(status.st_mode):
        raise _not_regular(destination)
    return stat.S_IMODE(status.st_mode)


@contextmanager
def _locked(directory: str) -> Iterator[int]:
    """Hold the writers' lock of `directory`; yields its descriptor."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    descriptor = uninterrupted(os.open, directory, flags)
    try:
        uninterrupted(fcntl.flock, descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        # Unlock by name: a child that was forked meanwhile has the descriptor open too.
        with suppress(OSError):
            uninterrupted(fcntl.flock, descriptor, fcntl.LOCK_UN)
        with suppress(OSError):
            os.close(descriptor)


def _replace(destination: str, data: bytes, mode: int | None) -> None:
    """Give `destination` the bytes `data` in one step, with `mode` or, if None, by the umask."""
    # The name is random alone: process ids repeat between containers that share a directory.
    name = f".nvfp4-{os.urandom(16).hex()}.tmp"
    temporary = os.path.join(os.path.dirname(destination), name)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    descriptor = uninterrupted(os.open, temporary, flags, 0o666 if mode is None else 0o600)
    try:
        try:
            _write(descriptor, data)
            if mode is not None:
                uninterrupted(os.fchmod, descriptor, mode)
            uninterrupted(os.fsync, descriptor)
        finally:
            # Some file systems report a failed write only here, so a failure counts.
            with suppress(InterruptedError):
                os.close(descriptor)
        uninterrupted(os.replace, temporary, destination)
    except BaseException:
        with suppress(OSError):
            uninterrupted(os.unlink, temporary)
        raise


def _write(descriptor: int, data: bytes) -> None:
    """Write all of `data`, however little of it one call takes."""
    rest = memoryview(data)
    while rest:
        written = uninterrupted(os.write, descriptor, rest)
        if written == 0:
            raise OSError(errno.EIO, "the file takes no more bytes")
        rest = rest[written:]


def _settle(directory: str, descriptor: int) -> None:
    """Bring the new name to the disk.

    The document is published by now, and no failure can take it back: it is reported in the log
    and not as a failed save, which would claim that the old bytes are in place.
    """
    try:
        uninterrupted(os.fsync, descriptor)
    except OSError as error:
        _logger.warning(
            "the directory %s could not be brought to disk (%s); the saved plans are in place, "
            "but a power failure may bring the old file back.",
            directory,
            reason(error),
        )


def _not_regular(path: str) -> Rejected:
    return Rejected(
        "not-regular",
        "",
        f"{path!r} is not a regular file and stays as it is; name a file or remove what is there.",
    )
