"""The back end for NVIDIA cards: CuPy owns memory, streams, events and graphs; CUTLASS multiplies.

    back_end = CupyBackend()            # builds its kernels on first use, unless they are built
    back_end.reason()                   # why it cannot run here, in one sentence; None if it can

Read `architectures` for what a card can run, `toolchain`, `recipe` and `library` for how the
kernels are built, `operands` for the data on the device, and `cupy_backend` for the operations.
CuPy is imported when a card is first used.
"""

from typing import TYPE_CHECKING

from ...lazy import lazy_attributes

if TYPE_CHECKING:
    from .cupy_backend import CupyBackend

__all__ = ["CupyBackend"]

if not TYPE_CHECKING:  # a type checker reads the imports above
    __getattr__, __dir__ = lazy_attributes(__name__, {"cupy_backend": ("CupyBackend",)})
