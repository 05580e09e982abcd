"""Which card there is, asked without making a context on it."""

import sys
from typing import Any

from .architectures import Architecture, architecture
from .errors import UnavailableError, first_line

_NO_DEVICE = {35: "the driver is too old or missing", 100: "there is no card"}
_MAJOR, _MINOR = 75, 76  # cudaDevAttrComputeCapabilityMajor, and ...Minor
DEFAULT_STREAMS = (0, 1, 2)


def import_cupy() -> Any:
    """CuPy, without touching a card; `UnavailableError` where it is missing or broken."""
    try:
        import cupy

        _ = cupy.cuda.runtime  # a folder that an uninstalled CuPy left behind has none
    except Exception as error:  # a broken CUDA installation raises many things, OSError included
        raise UnavailableError(
            f"CuPy, which owns the card's memory, cannot be imported ({first_line(error)}); "
            "install pytest-nvfp4[gpu] for your CUDA version."
        ) from error
    return cupy


def current_architecture(cupy: Any) -> Architecture:
    """What the current card is, asked without making a context on it."""
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


def caller_captures() -> bool:
    """Is the thread's current CuPy stream being captured? Asked without importing CuPy."""
    cupy: Any = sys.modules.get("cupy")
    if not hasattr(cupy, "cuda"):  # never imported, or no more than a folder of that name
        return False
    try:
        stream = cupy.cuda.get_current_stream()
    except cupy.cuda.runtime.CUDARuntimeError:  # without a driver there are no streams
        return False
    return bool(stream.ptr not in DEFAULT_STREAMS and stream.is_capturing())
