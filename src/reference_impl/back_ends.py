"""What tuning needs from a back end, and the one that is used where none is named."""

import importlib
from typing import Any, Protocol, cast

from .profiling import Timer

_PACKAGE = f"{__package__}.gemm"


class BackEnd(Protocol):
    """Makes products to measure, on operands of its own: a caller's tensors are never touched."""

    def timer(self, m: int, n: int, k: int) -> Timer[Any]:
        """A timer of the product of M x N x K; it touches no more than M rows."""
        ...


def default_back_end() -> BackEnd:
    """The back end of this installation, imported when it is first needed.

    A LookupError where there is none: measuring was asked for, and making up times is no answer.
    """
    try:
        gemm = importlib.import_module(_PACKAGE)
    except ModuleNotFoundError as error:
        if error.name != _PACKAGE:
            raise
        raise LookupError(
            "no GEMM back end is installed, so nothing can be measured; "
            "give scripted timings or a back end of your own."
        ) from None
    return cast(BackEnd, gemm.NumpyBackend())
