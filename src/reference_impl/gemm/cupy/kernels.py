"""The C interface of the kernel library, with one Python call for each function.

Each function returns a status, as `product.h` defines it: 0, a CUDA error, or a negative CUTLASS
status. The calls do not raise it, since its meaning depends on the state of the card; see
`device.Device.check`.
"""

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...errors import UnavailableError
from .architectures import Architecture

ABI = 1

CUTLASS_STATUS = (
    "success",
    "misaligned operand",
    "invalid data type",
    "invalid layout",
    "invalid problem",
    "not supported",
    "workspace too small",
    "internal error",
    "mismatched architecture",
    "insufficient driver",
    "memory allocation",
)
"""The names of the values of `cutlass::Status`, in order."""

_POINTER, _INT, _SIZE = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t
_SEED = ctypes.c_ulonglong


class Product(ctypes.Structure):
    """`nvfp4_product`: see `product.h`."""

    _fields_ = (
        ("m", _INT),
        ("n", _INT),
        ("k", _INT),
        ("device", _INT),
        ("multiprocessors", _INT),
        ("a", _POINTER),
        ("b", _POINTER),
        ("a_scales", _POINTER),
        ("b_scales", _POINTER),
        ("alpha", _POINTER),
        ("out", _POINTER),
        ("workspace", _POINTER),
        ("workspace_bytes", _SIZE),
    )


class Kernels:
    """The functions of a built library; `UnavailableError` if it is not one of this version."""

    def __init__(self, path: Path, architecture: Architecture) -> None:
        try:
            library = ctypes.CDLL(str(path))
            found = library.nvfp4_abi(), library.nvfp4_architecture()
            library.nvfp4_product_bytes.restype = _SIZE
            size = library.nvfp4_product_bytes()
        except (OSError, AttributeError) as error:
            raise UnavailableError(
                f"the kernel library {path} cannot be loaded ({error}); "
                "delete it, so that it is built again."
            ) from error
        if found != (ABI, architecture.number) or size != ctypes.sizeof(Product):
            raise UnavailableError(
                f"the kernel library {path} is of another version; "
                "delete it, so that it is built again."
            )
        self._library = library
        self._run = {one.id: self._function("run", one.id, _INT) for one in architecture.tactics}
        self._workspace = {
            one.id: self._function("workspace", one.id, _SIZE) for one in architecture.tactics
        }
        self.use_device = self._typed("use_device", _INT)
        self.largest = self._typed("largest", _POINTER, _SIZE, _POINTER, _POINTER)
        quantize = (_POINTER, ctypes.c_float, _INT, _INT, _POINTER, _POINTER, _POINTER)
        self.quantize_direct = self._typed("quantize_direct", *quantize)
        self.quantize_linear = self._typed("quantize_linear", *quantize)
        self.swizzle = self._typed("swizzle", _POINTER, _INT, _INT, _POINTER, _POINTER)
        self.expand = self._typed("expand", _POINTER, _POINTER, _INT, _INT, _POINTER, _POINTER)
        self.randomize = self._typed("randomize", _SEED, _INT, _INT, _POINTER, _POINTER, _POINTER)
        self.delay = self._typed("delay", _INT, _POINTER)

    def run(self, tactic_id: int, product: Product, stream: int) -> int:
        """Queue the product with a tactic of this architecture; returns the status."""
        return int(self._run[tactic_id](ctypes.byref(product), stream))

    def workspace_bytes(self, product: Product) -> int:
        """The largest workspace of any tactic for this product, in bytes."""
        return max(int(function(ctypes.byref(product))) for function in self._workspace.values())

    def _function(self, stem: str, tactic_id: int, result: Any) -> Callable[..., int]:
        function = getattr(self._library, f"nvfp4_{stem}_{tactic_id}")
        function.restype = result
        if stem == "run":
            function.argtypes = (ctypes.POINTER(Product), _POINTER)
        else:
            function.argtypes = (ctypes.POINTER(Product),)
        return function  # type: ignore[no-any-return]

    def _typed(self, name: str, *arguments: Any) -> Callable[..., int]:
        function = getattr(self._library, f"nvfp4_{name}")
        function.argtypes = arguments
        function.restype = _INT
        return function  # type: ignore[no-any-return]
