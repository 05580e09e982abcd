"""Wrong about merging and publishing: MERG, PUBL."""

import os
import stat
from dataclasses import replace
from pathlib import Path

from nvfp4_reference import adapter, merge, native_document, publication
from nvfp4_reference.native_document import Document

from faulty.variant import Faulty

merged = merge.merged
existing, replace_file = publication._existing, publication._replace
uninterrupted, update = publication.uninterrupted, publication.update


def merging(function):
    """The changes by which every merge is `function(prior, current)`."""
    return ((adapter, "merged", function), (publication, "merged", function))


class PriorWins(Faulty):
    """Keeps the old tactic where both documents have one."""

    breaks = ("MERG-1",)
    controls = ("MERG-2",)
    served = True
    changes = merging(
        lambda prior, current: Document(
            merged(prior, current).metadata, {**current.plans, **prior.plans}
        )
    )


class MergesWithoutSorting(Faulty):
    """Lists the plans of the current document after those of the prior one."""

    breaks = ("MERG-1", "MERG-2")
    controls = ("MERG-3",)

    def merge(self, prior, current):
        super().merge(prior, current)
        key = lambda plan: (plan["m_bucket"], plan["n"], plan["k"])  # noqa: E731
        plans = {key(plan): plan for plan in (*prior["plans"], *current["plans"])}
        return current | {"plans": list(plans.values())}


class NothingNewIsNothing(Faulty):
    """Takes a current document without plans as an order to forget all."""

    breaks = ("MERG-2",)
    controls = ("MERG-1",)
    changes = merging(
        lambda prior, current: (
            merged(prior, current) if current.plans else Document(current.metadata, {})
        )
    )


class MergesAnyBuild(Faulty):
    """Stamps the current build on plans of another one."""

    breaks = ("MERG-3",)
    controls = ("MERG-1",)
    changes = merging(
        lambda prior, current: merged(
            Document(replace(prior.metadata, build_id=current.metadata.build_id), prior.plans),
            current,
        )
    )


def _parse_as_ours(data, expected):
    root = native_document.strict_json.parse(data)
    if isinstance(root, dict) and isinstance(root.get("_metadata"), dict):
        root["_metadata"] = expected.as_json()
    for plan in root.get("plans", []):
        plan |= native_document._shared_fields(expected)
    return native_document.validate(root, expected)


class LaundersForeignPlans(Faulty):
    """Saves what a foreign file holds as if it had been tuned here."""

    breaks = ("MERG-4",)
    controls = ("MERG-1",)
    changes = ((native_document, "parse", _parse_as_ours),)


class SavesWhatItLoaded(Faulty):
    """Merges with what it loaded at the start, not with the file as it is."""

    breaks = ("MERG-5",)
    controls = ("MERG-1",)

    changes = (
        (
            publication,
            "_existing",
            lambda path: (lambda file: file and replace(file, data=b""))(existing(path)),
        ),
    )


class ResurrectsWhatIsGone(Faulty):
    """Replaces a file that it cannot read any more by what it remembers of it."""

    breaks = ("MERG-5", "PUBL-14")
    controls = ("MERG-1",)
    changes = (
        (
            publication,
            "update",
            lambda path, document, *, loaded=None, replace_damaged=False: update(
                path, document, loaded=loaded, replace_damaged=True
            ),
        ),
    )


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
