"""NVFP4 matrix products: quantization, 32 tactics in float32, and back ends to run them.

    a, b = quantize(activation), quantize(weight)               # float32, M × K and N × K
    output = run(4, a, b, default_alpha(a, b))                  # bfloat16, M × N
    gemm_case(16, 320, 384, tactic=4, seed=1, direct_sf=True)   # and its operands as bytes

Read `elements`, `scale_layout` and `quantization` for the number format, `accumulation` for the
meaning of a tactic, and `protocol` for what another back end must implement.
"""

from typing import TYPE_CHECKING

from ..lazy import lazy_attributes

if TYPE_CHECKING:
    from .case import TOLERANCES, GemmCase, dequantized_product, gemm_case, relative_error
    from .matrix import Nvfp4Matrix
    from .numpy_backend import NumpyBackend
    from .product import OutputType, Problem, default_alpha, problem, run
    from .protocol import Backend
    from .quantization import quantize

__all__ = [
    "TOLERANCES",
    "Backend",
    "GemmCase",
    "NumpyBackend",
    "Nvfp4Matrix",
    "OutputType",
    "Problem",
    "default_alpha",
    "dequantized_product",
    "gemm_case",
    "problem",
    "quantize",
    "relative_error",
    "run",
]

if not TYPE_CHECKING:  # a type checker reads the imports above
    __getattr__, __dir__ = lazy_attributes(
        __name__,
        {
            "case": (
                "TOLERANCES",
                "GemmCase",
                "dequantized_product",
                "gemm_case",
                "relative_error",
            ),
            "matrix": ("Nvfp4Matrix",),
            "numpy_backend": ("NumpyBackend",),
            "product": ("OutputType", "Problem", "default_alpha", "problem", "run"),
            "protocol": ("Backend",),
            "quantization": ("quantize",),
        },
    )
