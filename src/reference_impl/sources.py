"""The files that a session takes plans from, in the order of their precedence.

An explicit import comes before the native file. One source is read whole before the next, and
each has the one runner that exists, so no runner of a later source can beat one of an earlier.

Source: FlashInfer 0.6.13 autotuner.py:978-1013.
"""

import os
from dataclasses import dataclass

from .environment import ImportMetadata
from .errors import Rejected
from .native_document import read_native
from .options import Options
from .plan_map import Source
from .plans import Plans


@dataclass(frozen=True, slots=True)
class Found:
    """What one file gave: its plans, or why it was rejected; neither where there is no file."""

    source: Source
    plans: Plans
    rejected: Rejected | None = None


def read_sources(options: Options, expected_import: ImportMetadata) -> list[Found]:
    """Read every file that the options name, once; a rejection is part of the answer.

    A native file that is not there yet is nothing to complain about. An import that was asked for
    and is not there is.
    """
    found = []
    if options.import_path is not None:
        from .flashinfer_import import read_flashinfer  # only where it is asked for

        try:
            plans = read_flashinfer(options.import_path, expected_import).plans
        except Rejected as rejected:
            found.append(Found("import", {}, rejected))
        else:
            found.append(Found("import", plans))
    if options.native_path is not None and not _absent(options.native_path):
        try:
            plans = read_native(options.native_path, options.metadata).plans
        except Rejected as rejected:
            found.append(Found("native", {}, rejected))
        else:
            found.append(Found("native", plans))
    return found


def _absent(path: str) -> bool:
    """Whether nothing has this name; a link to nowhere has it."""
    try:
        os.lstat(path)
    except FileNotFoundError:
        return True
    except (OSError, ValueError):
        return False  # reading it says what is wrong
    return False
