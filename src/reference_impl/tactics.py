"""The numbering of tactics: which kernel each of the 32 tactic ids stands for.

A stored id must stand for the same kernel later. So the order is fixed, and the metadata of a
document contain a digest over all fields of all descriptors. A library that renumbers its kernels
then rejects an old file instead of running another kernel.

id = 4 * tile index + variant. A tile is M x N x K elements of one thread block's output.
Source: FlashInfer 0.6.13 fp4_gemm_cutlass_template_sm120.h:187-220.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from .errors import Rejected
from .members import shown

Scheduler = Literal["data-parallel", "stream-k"]

TACTIC_SET_VERSION = 2
TACTIC_IDS = range(32)

_TILES = (
    (128, 32, 128),
    (128, 32, 256),
    (128, 64, 128),
    (128, 64, 256),
    (128, 128, 128),
    (128, 128, 256),
    (256, 128, 128),
    (128, 256, 128),
)
_VARIANTS: tuple[tuple[bool, Scheduler], ...] = (
    (True, "data-parallel"),
    (False, "data-parallel"),
    (True, "stream-k"),
    (False, "stream-k"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tactic:
    """One kernel for the product: tile shape, operand order, work scheduler and cluster shape.

    `tile`: M x N x K of a thread block. `swap_ab`: whether B·Aᵀ is computed instead of A·Bᵀ.
    """

    id: int
    tile: tuple[int, int, int]
    swap_ab: bool
    scheduler: Scheduler
    cluster: tuple[int, int, int] = (1, 1, 1)

    @property
    def name(self) -> str:
        """The name in messages and tables, such as `128x32x256 swap-AB stream-K`."""
        order = "swap-AB" if self.swap_ab else "ordinary"
        schedule = "stream-K" if self.scheduler == "stream-k" else "data-parallel"
        return f"{'x'.join(map(str, self.tile))} {order} {schedule}"


TACTICS = tuple(
    Tactic(id=4 * tile_index + variant, tile=tile, swap_ab=swap_ab, scheduler=scheduler)
    for tile_index, tile in enumerate(_TILES)
    for variant, (swap_ab, scheduler) in enumerate(_VARIANTS)
)


def digest(tactics: Sequence[Tactic] = TACTICS) -> str:
    """16 hex digits over the fields of all descriptors, in order."""
    canonical = json.dumps([asdict(tactic) for tactic in tactics], sort_keys=True)
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def resolve(tactic_id: int) -> Tactic:
    """The descriptor of `tactic_id`; rejects `unknown-tactic` outside 0-31.

    The bounds are checked here, since -7 is a valid index of a tuple.
    """
    if type(tactic_id) is not int or tactic_id not in TACTIC_IDS:
        raise Rejected(
            "unknown-tactic",
            "tactic_id",
            f"tactic {shown(tactic_id)} does not exist; tactic ids are the integers 0 to 31.",
        )
    return TACTICS[tactic_id]
