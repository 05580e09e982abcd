"""NVFP4 matrices: two ways to quantize that give the same bytes."""

from .matrix import Nvfp4Matrix
from .quantization import quantize

__all__ = ["Nvfp4Matrix", "quantize"]
