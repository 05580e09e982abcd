"""The back end of FlashInfer 0.6.13 on compute capability 12.0 and 12.1: its own runner.

    back_end = FlashInferBackend()      # FlashInfer builds its kernels on first use
    back_end.reason()                   # why it cannot run here, in one sentence; None if it can

On these cards the runner's 32 tactics are those of `tactics`. On other cards it has other tactics,
so it is not used there. This back end has never run on a card, since none was available; its calls
are tested against replacements of torch and FlashInfer, which are imported when a card is used.
"""

from typing import TYPE_CHECKING

from ...lazy import lazy_attributes

if TYPE_CHECKING:
    from .flashinfer_backend import FlashInferBackend

__all__ = ["FlashInferBackend"]

if not TYPE_CHECKING:  # a type checker reads the import above
    __getattr__, __dir__ = lazy_attributes(__name__, {"flashinfer_backend": ("FlashInferBackend",)})
