"""What a warm-up loads, and what its maximum-token pass covers.

The files are read in the order of their precedence: first the imported file, then the native one.
There is only one runner, so an order of runners within a file does not matter.

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
    """The plans that a pass needs: each key with the M to measure, in the order of the pass.

    A key whose bucket is above the maximum (3072 for 3000 rows) is measured at the maximum, since
    the caller's buffers are not larger.
    """

    maximum: int
    needed: dict[PlanKey, int]

    @classmethod
    def of(cls, max_tokens: int, shapes: Iterable[tuple[int, int]]) -> "MaximumPass":
        """The pass up to `max_tokens` rows over the (N, K) of every weight.

        `ValueError` for a maximum or a shape that is impossible.
        """
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
    """Numbers of a warm-up: plans loaded, plans tuned, and plans missing before the tuning."""

    loaded: int
    tuned: int
    missing: int


@dataclass(frozen=True, slots=True)
class Found:
    """The plans of one file, or its rejection."""

    source: Source
    plans: Plans
    rejected: Rejected | None = None


def read_sources(options: Options, expected_import: ImportMetadata) -> list[Found]:
    """Read the files of the options; a rejection is part of the result.

    A native file that does not exist is skipped. An import file that does not exist is rejected.
    """
    found = []
    if options.import_path is not None:
        from .flashinfer_import import read_flashinfer  # only where an import is configured

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
    """Whether there is no entry of this name; a dangling link is an entry."""
    try:
        os.lstat(path)
    except FileNotFoundError:
        return True
    except (OSError, ValueError):
        return False  # reading it rejects with the reason
    return False
