"""File-system calls in the order in which they were made, and publications read from them."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Name = Literal["open", "write", "fsync", "rename", "unlink", "link"]


@dataclass(frozen=True, slots=True)
class Call:
    """One successful call: its kind, the absolute path it is about, and a rename's new path.

    `creates` is true for an open with O_CREAT, `writes` for one that may write.
    """

    name: Name
    path: str
    target: str = ""
    creates: bool = False
    writes: bool = False


@dataclass(frozen=True, slots=True)
class Publication:
    """How a destination got its new content."""

    temporary: str | None
    """The file that was renamed over the destination; None without a rename."""
    synced_before: bool
    """The temporary was fsynced after its last write and before the rename."""
    directory_synced_after: bool
    """The destination's directory was fsynced after the rename."""
    written_in_place: bool
    """The destination itself was opened for writing."""
    removed: bool
    """The destination was moved away or deleted, so that for a moment there was none."""


def publication(calls: Sequence[Call], destination: str) -> Publication:
    """Read one publication of `destination` (an absolute path without links) from the calls."""
    renames = [
        index
        for index, call in enumerate(calls)
        if call.name in ("rename", "link") and call.target == destination
    ]
    in_place = any(
        call.name == "open" and call.writes and call.path == destination for call in calls
    )
    removed = any(call.name in ("rename", "unlink") and call.path == destination for call in calls)
    if not renames:
        return Publication(None, False, False, in_place, removed)
    last = renames[-1]
    temporary = calls[last].path
    about = [call.name for call in calls[:last] if call.path == temporary]
    synced = "fsync" in about and "write" not in about[len(about) - about[::-1].index("fsync") :]
    folder = os.path.dirname(destination)
    after = any(call.name == "fsync" and call.path == folder for call in calls[last + 1 :])
    return Publication(temporary, synced, after, in_place, removed)


def changes_below(calls: Sequence[Call], folder: str) -> list[Call]:
    """The calls that change anything below a folder, or could: even an open that may write."""
    below = f"{folder}/"
    return [
        call
        for call in calls
        if (call.path.startswith(below) or call.target.startswith(below) or call.path == folder)
        and (call.name in ("write", "rename", "unlink", "link") or call.writes or call.creates)
    ]
