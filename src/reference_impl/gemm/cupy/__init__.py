"""The back end for NVIDIA cards: CuPy owns memory, streams, events and graphs, CUTLASS multiplies.

    back_end = CupyBackend()            # builds its kernels on first use, or takes the built ones
    back_end.reason()                   # why it cannot run here, in one sentence; None if it can

Read `architectures` for what a card can run, `toolchain`, `recipe` and `library` for how the
kernels come to be, `operands` for what lies on the device, and `cupy_backend` for what is done with
it. Nothing here imports CuPy before a card is asked for.
"""

from typing import TYPE_CHECKING, Any

from .errors import UnavailableError

if TYPE_CHECKING:
    from .cupy_backend import CupyBackend

__all__ = ["CupyBackend", "UnavailableError"]


def __getattr__(name: str) -> Any:
    """A start on a frozen map asks for the card's metadata alone, and imports no more."""
    if name != "CupyBackend":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .cupy_backend import CupyBackend

    return CupyBackend
