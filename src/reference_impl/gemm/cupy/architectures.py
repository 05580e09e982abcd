"""The GPU architectures that have kernels, and which of the 32 tactics each one can run.

A tactic has the same descriptor on every architecture, but its kernel multiplies differently.
sm_90a has no FP4 arithmetic: each value times its scale is expanded to half precision, which is
exact, and the tensor cores multiply these in steps of half the tactic's K tile. sm_120a and sm_121a
multiply block-scaled FP4 directly.

A tile that an architecture cannot build is invalid there: its tactics fail, the tactic digest omits
their descriptors, and the tactic set has a version number of its own. No other kernel replaces it.
"""

from dataclasses import dataclass
from typing import Any

from ... import tactics
from ...errors import UnavailableError, first_line
from ...tactics import TACTIC_SET_VERSION, TACTICS, Tactic

Tile = tuple[int, int, int]

TILES: tuple[Tile, ...] = tuple(dict.fromkeys(tactic.tile for tactic in TACTICS))
VARIANTS = 4
"""Tactics of one tile; see `tactics`."""

_NO_DEVICE = {35: "the driver is too old or missing", 100: "there is no card"}
_MAJOR, _MINOR = 75, 76  # cudaDevAttrComputeCapabilityMajor, and ...Minor


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """One GPU architecture; `number` 90 is compute capability 9.0.

    `expands`: whether operands are expanded to half precision before they are multiplied.
    `k_multiple`: rows with another K are padded with zeros to a multiple of it.
    `variants_per_unit`: the number of tactics that one compiler run builds.
    `unit_bytes`: the memory that such a run needs, in bytes.
    """

    number: int
    expands: bool
    k_multiple: int
    variants_per_unit: int
    unit_bytes: int
    invalid_tiles: frozenset[Tile] = frozenset()

    @property
    def name(self) -> str:
        """The compiler's name for it, such as `sm_90a`."""
        return f"sm_{self.number}a"

    @property
    def tactics(self) -> tuple[Tactic, ...]:
        """The tactics whose tile can be built, in order of their ids."""
        return tuple(tactic for tactic in TACTICS if tactic.tile not in self.invalid_tiles)

    @property
    def tactic_digest(self) -> str:
        """The digest of the descriptors of `tactics`."""
        return tactics.digest(self.tactics)

    @property
    def tactic_set_version(self) -> int:
        """The version of the full set; where tactics are missing, this architecture's own."""
        if len(self.tactics) == len(TACTICS):
            return TACTIC_SET_VERSION
        return 1000 * self.number + TACTIC_SET_VERSION


# The compiler's memory was measured with CUDA 13.0 and CUTLASS 4.5.0, and is rounded up.
_ALL = (
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
ARCHITECTURES = {one.number: one for one in _ALL}


def architecture(number: int) -> Architecture:
    """The architecture of compute capability `number` / 10; `UnavailableError` if there is none."""
    found = ARCHITECTURES.get(number)
    if found is None:
        raise UnavailableError(
            f"the card has compute capability {number // 10}.{number % 10}, and there are kernels "
            f"for {', '.join(one.name for one in _ALL)} only; use one of those cards."
        )
    return found


def import_cupy() -> Any:
    """CuPy, without touching a card; `UnavailableError` where it is missing or broken."""
    try:
        import cupy

        _ = cupy.cuda.runtime  # the folder that an uninstalled CuPy leaves behind has no `cuda`
    except Exception as error:  # a broken CUDA installation raises many types, OSError included
        raise UnavailableError(
            f"CuPy, which owns the card's memory, cannot be imported ({first_line(error)}); "
            "install pytest-nvfp4[gpu] for your CUDA version."
        ) from error
    return cupy


def current_architecture(cupy: Any) -> Architecture:
    """The architecture of the current GPU, found without creating a context on it.

    `UnavailableError` where there is no GPU, it does not answer, or it has no kernels.
    """
    runtime = cupy.cuda.runtime
    try:
        if not runtime.getDeviceCount():
            raise UnavailableError("there is no card; run on a machine with one.")
        ordinal = runtime.getDevice()
        major = runtime.deviceGetAttribute(_MAJOR, ordinal)
        minor = runtime.deviceGetAttribute(_MINOR, ordinal)
    except runtime.CUDARuntimeError as error:
        why = _NO_DEVICE.get(error.status, "the card does not answer")
        raise UnavailableError(
            f"{why} ({first_line(error)}); make a card and its driver visible to this process."
        ) from error
    return architecture(10 * major + minor)
