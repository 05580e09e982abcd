"""Wrong about publishing: PUBL."""

import os
import stat
from dataclasses import replace
from pathlib import Path

from nvfp4_reference import native_document, publication

from faulty.variant import Faulty

merged = native_document.merged
existing, replace_file = publication._existing, publication._replace
uninterrupted, update = publication.uninterrupted, publication.update


def replacing(function):
    """The change by which `function(destination, file)` puts the new document in its place."""
    return ((publication, "_replace", function),)


class WritesInPlace(Faulty):
    """Writes the new document into the old file."""

    breaks = ("PUBL-1", "PUBL-2", "PUBL-4")
    controls = ("MERG-1",)
    served = True
    changes = replacing(lambda destination, new: Path(destination).write_bytes(new.data))


def _remove_and_rename(destination, new):
    Path(destination).unlink(missing_ok=True)
    replace_file(destination, new)


class RemovesBeforeItRenames(Faulty):
    """Removes the old file to make room for the new one."""

    breaks = ("PUBL-2",)
    controls = ("PUBL-4",)
    changes = replacing(_remove_and_rename)


def _from_below(destination, new):
    folder = os.path.join(os.path.dirname(destination), "tmp")
    os.makedirs(folder, exist_ok=True)
    replace_file(os.path.join(folder, "new.json"), new)
    os.replace(os.path.join(folder, "new.json"), destination)
    os.rmdir(folder)


class TemporaryElsewhere(Faulty):
    """Writes the temporary file in another directory, perhaps on another file system."""

    breaks = ("PUBL-1",)
    controls = ("PUBL-2",)
    changes = replacing(_from_below)


def _leave(call, *arguments, **named):
    return None if call is os.unlink else uninterrupted(call, *arguments, **named)


class LeavesTemporaries(Faulty):
    """Leaves the temporary file of a save that failed."""

    breaks = ("PUBL-3",)
    controls = ("PUBL-4",)
    served = True
    changes = ((publication, "uninterrupted", _leave),)


def without_fsync(kind):
    """The change by which files of one kind are not flushed to the disk."""

    def call_unless(call, *arguments, **named):
        if call is os.fsync and kind(os.fstat(arguments[0]).st_mode):
            return None
        return uninterrupted(call, *arguments, **named)

    return ((publication, "uninterrupted", call_unless),)


class NoFsync(Faulty):
    """Renames bytes that may never reach the disk."""

    breaks = ("PUBL-4",)
    controls = ("PUBL-5",)
    served = True
    changes = without_fsync(stat.S_ISREG)


class NoDirectoryFsync(Faulty):
    """Leaves the new name to the next flush of the directory."""

    breaks = ("PUBL-5",)
    controls = ("PUBL-4",)
    changes = without_fsync(stat.S_ISDIR)


class PrivateFiles(Faulty):
    """Publishes with the private mode of a temporary file."""

    breaks = ("PUBL-10",)
    controls = ("PUBL-4",)
    changes = replacing(
        lambda destination, new: replace_file(destination, replace(new, mode=0o600))
    )


class ReplacesTheLink(Faulty):
    """Puts a plain file where the user had a link."""

    breaks = ("PUBL-11",)
    controls = ("PUBL-4",)
    changes = ((publication, "_destination", lambda path: path),)


def _existing_or_none(destination):
    return existing(destination) if os.path.isfile(destination) else None


class ReplacesAnything(Faulty):
    """Renames the new document over a socket or a FIFO."""

    breaks = ("PUBL-12",)
    controls = ("PUBL-4",)
    served = True
    changes = ((publication, "_existing", _existing_or_none),)


class DeletesDamage(Faulty):
    """Replaces a damaged file without keeping its bytes."""

    breaks = ("PUBL-14",)
    controls = ("PUBL-4",)
    changes = replacing(
        lambda destination, new: destination.endswith(".rejected") or replace_file(destination, new)
    )


class OverwritesForeignFiles(Faulty):
    """Replaces the file of another environment by its own."""

    breaks = ("PUBL-14",)
    controls = ("PUBL-4",)
    changes = ((publication, "is_damage", lambda data, rejected: True),)


def _sync_then_finish(destination, new):
    head, tail = new.data[:-2], new.data[-2:]
    temporary = destination + ".tmp"
    with open(temporary, "wb", buffering=0) as file:
        os.write(file.fileno(), head)
        os.fsync(file.fileno())
        os.write(file.fileno(), tail)
    os.replace(temporary, destination)


class SyncsBeforeTheLastWrite(Faulty):
    """Flushes the temporary file and then writes the rest of it."""

    breaks = ("PUBL-4",)
    controls = ("PUBL-1",)
    changes = replacing(_sync_then_finish)


def _by_process_id(destination, new):
    temporary = f"{destination}.{os.getpid()}.tmp"
    with open(temporary, "wb") as file:
        file.write(new.data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, destination)


class NamesByProcessId(Faulty):
    """Names its temporary file by the process id, which repeats from container to container."""

    breaks = ("PUBL-13",)
    controls = ("PUBL-4",)
    served = True
    changes = replacing(_by_process_id)
