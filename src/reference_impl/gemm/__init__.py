"""NVFP4 matrix products: quantization, and 32 tactics in float32."""

from .accuracy import TOLERANCES, dequantized_product, relative_error
from .matrix import Nvfp4Matrix
from .product import OutputType, Problem, default_alpha, problem, run
from .quantization import quantize

__all__ = [
    "TOLERANCES",
    "Nvfp4Matrix",
    "OutputType",
    "Problem",
    "default_alpha",
    "dequantized_product",
    "problem",
    "quantize",
    "relative_error",
    "run",
]
