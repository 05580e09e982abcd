"""Publish a document: merge it into its file so that readers see the old or the new document.

The new text is written to a temporary file in the same directory and synced to the disk; then
`rename` gives it the name of the destination in one step. A reader opens the old document or the
new one, and a crash at any time leaves one of the two.

Readers take no lock. Writers do, since each one reads, merges and replaces: without a lock, the
second of two writers would replace the plans of the first. They lock the descriptor of the
directory with `flock`. So there is no lock file that could remain or be deleted while it is in use,
the kernel releases the lock when its holder ends, and the lock holds between threads as well as
processes. The destination cannot be locked, since its inode changes with each publication. Where
the file system does not support the lock, publishing is rejected.

A damaged file at the default path is replaced, since every start would otherwise tune all plans
again and save none of them. A file that another environment or format can read is never replaced;
see `is_damage`.

Source: vLLM 0.25.0 flashinfer_autotune_cache.py:44-55, for the replacement.
"""

# `pathlib` would hide the system calls that matter here.

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
"""The suffix of the file that keeps the bytes of a damaged file."""

_NOT_A_DOCUMENT = frozenset({"encoding", "syntax", "duplicate-member", "shape"})
_NOT_DAMAGE = frozenset(
    {"foreign-environment", "unknown-format", "not-regular", "unreadable", "too-large"}
)


def update(
    path: str, document: Document, *, loaded: Plans | None = None, replace_damaged: bool = False
) -> Document:
    """Merge `document` into the file at `path`, publish the result and return it.

    The file is read again here, whatever it was when it was loaded; an empty file counts as absent.
    The plans of `document` win over those of the file. Plans that were `loaded` earlier only fill
    gaps. A file that is corrupt, foreign or unreadable is rejected with its own code and not
    changed. With `replace_damaged`, a damaged file (see `is_damage`) is replaced, and its bytes are
    kept in a file of the same name with the suffix `.rejected`.

    A failing system call rejects `publication` and leaves the old bytes and no temporary file. This
    includes the last call, which syncs the new name to the disk: until it has succeeded, a power
    failure could undo the save. So where it fails, the old bytes are restored, although a reader
    may have read the new document in between. Where that fails as well, the message says that the
    new document is in place.

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
            # Do not publish a document that the next process would reject.
            native_document.parse(text, document.metadata)
            if damaged and before is not None:
                _replace(destination + REJECTED_SUFFIX, before)
                _sync_directory(descriptor)  # the copy is on the disk before the name is taken
                log_warnings(
                    ["A damaged plan file is being replaced; its bytes are kept beside it."]
                )
            _replace(destination, _File(text, before.mode if before else None))
            _settle(path, destination, before, descriptor)
    except (OSError, ValueError) as error:
        raise _unpublished(path, error, "the file is unchanged") from error
    return document


def is_damage(data: bytes, rejected: Rejected) -> bool:
    """Whether the non-empty file `data`, rejected with `rejected`, may be replaced.

    It may where it is not a document, where it has the native format but is not a valid document of
    a determinate environment, or where it names no format. It may not where it names another
    format, or has the metadata of a FlashInfer document. The code of the rejection alone does not
    decide, since a document of another format is first rejected for the fields that it lacks.
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
    """The bytes and the permission bits of a file; a mode of None follows the umask."""

    data: bytes
    mode: int | None


def _destination(path: str) -> str:
    """The file to replace: `path`, or the target of a link, so that the link is kept."""
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
    """The file that will be replaced; None where it does not exist."""
    try:
        status = uninterrupted(os.stat, destination)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(status.st_mode):
        raise _not_regular(destination)
    return _File(read_regular(destination), stat.S_IMODE(status.st_mode))


@contextmanager
def _locked(directory: str) -> Iterator[int]:
    """Hold the writers' lock of `directory`; yields the directory's descriptor."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    descriptor = uninterrupted(os.open, directory, flags)
    try:
        uninterrupted(fcntl.flock, descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        # Unlock explicitly: a child that was forked in between has the descriptor open too.
        with suppress(OSError):
            uninterrupted(fcntl.flock, descriptor, fcntl.LOCK_UN)
        with suppress(OSError):
            os.close(descriptor)


def _replace(destination: str, new: _File) -> None:
    """Replace `destination` by the file `new` in one step."""
    # The name has no process id, since containers that share a directory can have equal ids.
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
            # Some file systems report a failed write only here, so an error is raised.
            with suppress(InterruptedError):
                os.close(descriptor)
        uninterrupted(os.replace, temporary, destination)
    except BaseException:
        with suppress(OSError):
            uninterrupted(os.unlink, temporary)
        raise


def _write(descriptor: int, data: bytes) -> None:
    """Write all of `data`, in as many calls as it needs."""
    rest = memoryview(data)
    while rest:
        written = uninterrupted(os.write, descriptor, rest)
        if written == 0:
            raise OSError(errno.EIO, "the file takes no more bytes")
        rest = rest[written:]


def _settle(path: str, destination: str, before: _File | None, descriptor: int) -> None:
    """Sync the new name to the disk; where that fails, restore the old file.

    The old bytes are still in memory. A hard link to the old file, made before each rename, would
    restore it without a write, but it needs two more calls per save, and a kill between them would
    leave it behind.
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
    """Sync the names in a directory to the disk, where the file system supports it."""
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
        f"{path!r} could not be written ({why}); {state}: "
        "free space or name a writable path, and save again.",
    )


def _not_regular(path: str) -> Rejected:
    return Rejected(
        "not-regular",
        "",
        f"{path!r} is not a regular file; name a regular file, or remove what is there.",
    )
