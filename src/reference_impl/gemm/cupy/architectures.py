"""Which cards there are kernels for, and which of the 32 tactics each can run.

A tactic is the same descriptor everywhere; how its kernel multiplies differs. sm_90a has no FP4
arithmetic: values times scales are expanded to half, exactly, and Hopper's tensor cores take those,
half of the tactic's K tile at a time. sm_120a and sm_121a multiply block-scaled FP4 as it is.

A tile that an architecture cannot build is invalid there: the tactic fails, its descriptor is not
in the digest, and the tactic set has a version of its own. No other kernel takes its place.
"""

from dataclasses import dataclass

from ... import tactics
from ...tactics import TACTIC_SET_VERSION, TACTICS, Tactic
from .errors import UnavailableError

Tile = tuple[int, int, int]

TILES: tuple[Tile, ...] = tuple(dict.fromkeys(tactic.tile for tactic in TACTICS))
VARIANTS = 4
"""Tactics of one tile; see `tactics`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """A kind of card: `number` 90 is compute capability 9.0, and `name` has the suffix `a`.

    `expands`: operands are multiplied as half. `k_multiple`: rows of another K get zeros behind.
    `variants_per_unit`: tactics that one compiler run builds; `unit_bytes` is the memory it takes.
    """

    number: int
    expands: bool
    k_multiple: int
    variants_per_unit: int
    unit_bytes: int
    invalid_tiles: frozenset[Tile] = frozenset()

    @property
    def name(self) -> str:
        """`sm_90a`, as the compiler calls it."""
        return f"sm_{self.number}a"

    @property
    def tactics(self) -> tuple[Tactic, ...]:
        """Those whose tile can be built, in order."""
        return tuple(tactic for tactic in TACTICS if tactic.tile not in self.invalid_tiles)

    @property
    def tactic_digest(self) -> str:
        """The digest of the descriptors that are valid here."""
        return tactics.digest(self.tactics)

    @property
    def tactic_set_version(self) -> int:
        """The version of all 32; where some are missing, one that no other card has."""
        if len(self.tactics) == len(TACTICS):
            return TACTIC_SET_VERSION
        return 1000 * self.number + TACTIC_SET_VERSION


# The compiler's memory is measured with CUDA 13.0 and CUTLASS 4.5.0, and rounded up.
_EVERY = (
    Architecture(
        number=90, expands=True, k_multiple=16, variants_per_unit=4, unit_bytes=4_500_000_000
    ),
    Architecture(
        number=120, expands=False, k_multiple=32, variants_per_unit=1, unit_bytes=6_500_000_000
    ),
    Architecture(
        number=121, expands=False, k_multiple=32, variants_per_unit=1, unit_bytes=6_500_000_000
    ),
)
ARCHITECTURES = {one.number: one for one in _EVERY}


def architecture(number: int) -> Architecture:
    """The architecture of compute capability `number` / 10; `UnavailableError` if there is none."""
    found = ARCHITECTURES.get(number)
    if found is None:
        raise UnavailableError(
            f"the card has compute capability {number // 10}.{number % 10}, and there are kernels "
            f"for {', '.join(one.name for one in _EVERY)} only; use one of those cards."
        )
    return found
