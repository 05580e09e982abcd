"""The back end of FlashInfer 0.6.13 on compute capability 12.0 and 12.1: its own runner.

    back_end = FlashInferBackend()      # FlashInfer builds its kernels on first use
    back_end.reason()                   # why it cannot run here, in one sentence; None if it can

The runner's 32 tactics there are those of `tactics`; on other cards its tactics are others, so it
is not used. This back end has never been run: no such card was at hand. Its calls are tested
against stand-ins for torch and FlashInfer. Neither is imported before a card is asked for.
"""

from typing import TYPE_CHECKING

from ...lazy import lazy_attributes

if TYPE_CHECKING:
    from .flashinfer_backend import FlashInferBackend

__all__ = ["FlashInferBackend"]

if not TYPE_CHECKING:  # a type checker knows this name, and no other
    __getattr__, __dir__ = lazy_attributes(__name__, {"flashinfer_backend": ("FlashInferBackend",)})
