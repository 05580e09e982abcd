"""What a warm-up loads, and what its maximum-token pass covers.

The files are read in the order of their precedence: the import that was asked for, then the native
file. There is one runner, so the order of runners within a file cannot matter.

Source: FlashInfer 0.6.13 autotuner.py:978-1013.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass

from .buckets import profiles
from .environment import ImportMetadata
from .errors import Rejected
from .members import shown
from .native_document import read_native
from .options import Options
from .plan_map import Source
from .plans import LARGEST_M, PlanKey, Plans, checked_key


@dataclass(frozen=True, slots=True)
class MaximumPass:
    """The plans that a pass needs: each key with the M to measure it at, in the pass's order.

    A key's bucket may lie above the maximum (3000 rows are kept as 3072), and is then measured at
    the maximum: nobody has larger buffers.
    """

    maximum: int
    needed: dict[PlanKey, int]

    @classmethod
    def of(cls, max_tokens: int, shapes: Iterable[tuple[int, int]]) -> "MaximumPass":
        """The pass up to `max_tokens` rows over the (N, K) of every weight."""
        if type(max_tokens) is not int or not 1 <= max_tokens <= LARGEST_M:
            raise ValueError(
                f"max_tokens is {shown(max_tokens)}; "
                f"give the largest batch, an integer from 1 to {LARGEST_M}."
            )
        measured = profiles(max_tokens)
        return cls(
            max_tokens,
            {checked_key(m, n, k): m for n, k in shapes for m in measured},
        )


@dataclass(frozen=True, slots=True)
class WarmUp:
    """What a warm-up did: plans loaded by it, plans tuned, and plans missing before tuning."""

    loaded: int
    tuned: int
    missing: int


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
