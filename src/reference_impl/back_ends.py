"""The choice of the back end that measures.

    NVFP4_REFERENCE_BACK_END   numpy: every CPU; the default
                               cupy: an NVIDIA card
                               flashinfer: FlashInfer's runner, on compute capability 12
                               auto: cupy where a card, its driver, nvcc and CUTLASS are found,
                               else numpy

Plans carry the environment of the back end that tuned them, so plans that were measured on a card
are never used on a CPU. A selected back end that cannot run is rejected; no other one replaces it.
"""

import importlib
import os
from collections.abc import Mapping
from typing import Any, cast

from .environment import ImportMetadata, NativeMetadata
from .errors import Rejected
from .members import shown
from .profiling import TimerFactory

BACK_END = "NVFP4_REFERENCE_BACK_END"
NUMPY, CUPY, FLASHINFER, AUTO = "numpy", "cupy", "flashinfer", "auto"

_PACKAGE = f"{__package__}.gemm"
_CARDS = {CUPY: "CupyBackend", FLASHINFER: "FlashInferBackend"}


def chosen(environment: Mapping[str, str]) -> str:
    """The name of the selected back end; rejects `configuration` for an unknown one."""
    name = environment.get(BACK_END) or NUMPY
    if name == AUTO:
        return NUMPY if _card(CUPY).reason() else CUPY
    if name not in (NUMPY, *_CARDS):
        raise Rejected(
            "configuration",
            BACK_END,
            f"{BACK_END} is {shown(name)}; set it to {NUMPY}, {CUPY}, {FLASHINFER} or {AUTO}.",
        )
    return name


def default_back_end(name: str = NUMPY) -> TimerFactory:
    """The back end `name`, imported here.

    `LookupError` where this installation has none, since no times can be measured then.
    """
    if name in _CARDS:
        return cast(TimerFactory, _card(name))
    try:
        gemm = importlib.import_module(_PACKAGE)
    except ModuleNotFoundError as error:
        if error.name != _PACKAGE:
            raise
        raise LookupError(
            "no GEMM back end is installed, so nothing can be measured; "
            "pass scripted timings or a back end of your own."
        ) from None
    return cast(TimerFactory, gemm.NumpyBackend())


def native_metadata(name: str) -> NativeMetadata:
    """The environment of plans that this back end tunes here; rejects where it cannot run."""
    if name == NUMPY:
        return NativeMetadata.of_this_machine()
    try:
        found: NativeMetadata = _metadata(name).native_here(os.environ)
    except LookupError as unavailable:
        raise _unavailable(name, unavailable) from unavailable
    return found


def import_metadata(name: str) -> ImportMetadata:
    """The metadata that an imported document must have; rejects as `native_metadata` does."""
    if name == NUMPY:
        return ImportMetadata.of_this_machine()
    try:
        found: ImportMetadata = _metadata(name).import_here()
    except LookupError as unavailable:
        raise _unavailable(name, unavailable) from unavailable
    return found


def _metadata(name: str) -> Any:
    return importlib.import_module(f"{_PACKAGE}.{name}.metadata")


def _card(name: str) -> Any:
    return getattr(importlib.import_module(f"{_PACKAGE}.{name}"), _CARDS[name])()


def _unavailable(name: str, why: LookupError) -> Rejected:
    return Rejected("configuration", BACK_END, f"the back end {name} cannot run here: {why}")
