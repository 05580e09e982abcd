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
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from . import native_document, strict_json
from .diagnostics import log_warnings
from .environment import FORMAT, ImportMetadata
from .errors import Rejected
from .files import read_regular, reason, uninterrupted
from .members import object_member
from .native_document import Document, merged
from .plans import Plans

REJECTED_SUFFIX = ".rejected"
"""What a damaged file's name is extended by where its bytes are kept."""

_NOT_A_DOCUMENT = frozenset({"encoding", "syntax", "duplicate-member", "shape"})
_NOT_DAMAGE = frozenset(
    {"foreign-environment", "unknown-format", "not-regular", "unreadable", "too-large"}
)


def update(
    path: str, document: Document, *, loaded: Plans | None = None, replace_damaged: bool = False
) -> Document:
    """Merge `document` into the file at `path`, publish the result and return it.

    What counts is the file as it is now, not as it was when it was loaded; an empty file counts
    as absent. So the plans of `document` win over the file's, and those that were only `loaded`
    from it earlier win over nothing and fill gaps. A file that is corrupt, foreign or unreadable
    rejects with its own code and stays as it is; with `replace_damaged`, one that is damage (see
    `damage`) gives way, its bytes kept beside it under its name and `.rejected`.

    A system call that fails rejects with `publication`, and leaves the old bytes and no temporary
    file; that includes the last one, which brings the new name to the disk. Until it has
    succeeded, a power failure could undo what was reported as saved; so where it fails, the old
    bytes are put back and the save has failed, though a reader may have met the new document in
    between. Where even that fails, the message says that the new document is in place.

    Missing parent directories are created.
    """
    try:
        destination = _destination(path)
        directory = os.path.dirname(destination) or "."
        if not os.path.isdir(directory):
            os.makedirs(directory, exist_ok=True)
        with _locked(directory) as descriptor:
            before = _existing(destination)
            damaged = False
            prior = Document(document.metadata, loaded or {})
            if before is not None and before.data:
                try:
                    found = native_document.parse(before.data, document.metadata)
                except Rejected as rejected:
                    damaged = replace_damaged and is_damage(before.data, rejected)
                    if not damaged:
                        raise
                else:
                    prior = merged(prior, found)
            document = merged(prior, document)
            text = document.render().encode()
            # Nothing is published that the next process would refuse.
            native_document.parse(text, document.metadata)
            if damaged and before is not None:
                _replace(destination + REJECTED_SUFFIX, before)
                _sync_directory(descriptor)  # kept for certain before the name is taken
                log_warnings(
                    ["A damaged plan file is being replaced; its bytes are kept beside it."]
                )
            _replace(destination, _File(text, before.mode if before else None))
            _settle(path, destination, before, descriptor)
    except (OSError, ValueError) as error:
        raise _unpublished(path, error, "the file is as it was") from error
    return document


def is_damage(data: bytes, rejected: Rejected) -> bool:
    """Whether the non-empty file `data`, rejected for `rejected`, may be replaced.

    It may where it is no document at all, where it says that it is a native document and is not
    a valid one of a definite environment, or where it says nothing about what it is. It may not
    where it names another format, or carries the metadata of a FlashInfer document.
    """
    if rejected.code in _NOT_A_DOCUMENT:
        return True
    if rejected.code in _NOT_DAMAGE:
        return False
    root = strict_json.parse(data)
    metadata = root.get("_metadata") if isinstance(root, dict) else None
    if not isinstance(metadata, dict):
        return True
    named = metadata.get("format")
    if isinstance(named, str):
        return named == FORMAT
    return not _is_flashinfer(metadata)


def _is_flashinfer(metadata: dict[str, object]) -> bool:
    try:
        ImportMetadata.from_json(object_member({"_metadata": metadata}, "_metadata"))
    except Rejected:
        return False
    return True


@dataclass(frozen=True, slots=True)
class _File:
    """A file's bytes and its permission bits; without a mode, those that the umask leaves."""

    data: bytes
    mode: int | None


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


def _existing(destination: str) -> _File | None:
    """The file that will be replaced; None where there is none."""
    try:
        status = uninterrupted(os.stat, destination)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(status.st_mode):
        raise _not_regular(destination)
    return _File(read_regular(destination), stat.S_IMODE(status.st_mode))


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


def _replace(destination: str, new: _File) -> None:
    """Make `destination` the file `new` in one step."""
    # The name is random alone: process ids repeat between containers that share a directory.
    name = f".nvfp4-{os.urandom(16).hex()}.tmp"
    temporary = os.path.join(os.path.dirname(destination), name)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    descriptor = uninterrupted(os.open, temporary, flags, 0o666 if new.mode is None else 0o600)
    try:
        try:
            _write(descriptor, new.data)
            if new.mode is not None:
                uninterrupted(os.fchmod, descriptor, new.mode)
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


def _settle(path: str, destination: str, before: _File | None, descriptor: int) -> None:
    """Bring the new name to the disk, or put back what was there.

    The old bytes are in memory, since they were merged. A link to the old file, made before every
    rename, would restore it without writing; but it would cost each save two calls more, and a
    kill between them would leave it behind.
    """
    try:
        _sync_directory(descriptor)
    except OSError as error:
        try:
            if before is None:
                uninterrupted(os.unlink, destination)
            else:
                _replace(destination, before)
        except OSError:
            raise _unpublished(
                path, error, "the new plans are in place, but a power failure may undo them"
            ) from error
        raise


def _sync_directory(descriptor: int) -> None:
    """Bring the names in a directory to the disk, on file systems that know this operation."""
    try:
        uninterrupted(os.fsync, descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise


def _unpublished(path: str, error: OSError | ValueError, state: str) -> Rejected:
    why = reason(error) if isinstance(error, OSError) else str(error)
    return Rejected(
        "publication",
        path,
        f"{path!r} could not be written ({why}); {state}, "
        "so make room or name a writable path and save again.",
    )


def _not_regular(path: str) -> Rejected:
    return Rejected(
        "not-regular",
        "",
        f"{path!r} is not a regular file and stays as it is; name a file or remove what is there.",
    )
