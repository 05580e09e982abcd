"""The installation that FlashInfer's runner needs: torch, FlashInfer and a suitable card.

Each function raises `UnavailableError` with one sentence where a part is missing.

Source: FlashInfer 0.6.13 gemm/gemm_base.py:1308-1399 and jit/gemm/core.py:202.
"""

import importlib.metadata
import importlib.util
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import BuildError, UnavailableError, first_line
from ...tactics import TACTIC_IDS
from ..cupy.toolchain import find_nvcc

VERSION = "0.6.13"
CAPABILITIES = ((12, 0), (12, 1))


@dataclass(frozen=True, slots=True)
class RunnerModule:
    """torch, FlashInfer's runner, and its delay kernel, which takes microseconds."""

    torch: Any
    runner: Any
    delay: Callable[[int], None]


def import_torch() -> Any:
    """torch, where it finds a card that the runner supports."""
    try:
        import torch

        _ = torch.cuda  # the folder that an uninstalled torch leaves behind has no `cuda`
    except Exception as error:  # a broken CUDA installation raises many types, OSError included
        raise UnavailableError(
            f"torch, which owns FlashInfer's memory, cannot be imported ({first_line(error)}); "
            f"install flashinfer-python=={VERSION}, which brings it."
        ) from error
    if not torch.cuda.is_available():
        raise UnavailableError("torch finds no card; run on a machine with one that it can use.")
    capability = tuple(torch.cuda.get_device_capability())
    if capability not in CAPABILITIES:
        raise UnavailableError(
            f"the card has compute capability {'.'.join(map(str, capability))}, and FlashInfer's "
            "runner has the 32 tactics on 12.0 and 12.1 only; use such a card or the back end "
            "cupy."
        )
    return torch


def package() -> Path:
    """The folder of FlashInfer 0.6.13, found without importing it."""
    found = importlib.util.find_spec("flashinfer")
    folders = list((found and found.submodule_search_locations) or ())
    try:
        version = importlib.metadata.version("flashinfer-python")
    except importlib.metadata.PackageNotFoundError:
        version = None
    if version != VERSION or not folders:
        what = f"FlashInfer {version}" if version else "no FlashInfer"
        raise UnavailableError(
            f"{what} is installed, and the tactics are those of {VERSION}; "
            f"install flashinfer-python=={VERSION}."
        )
    return Path(folders[0])


def check_buildable() -> None:
    """Check that the module is built, or that nvcc and ninja can build it."""
    if importlib.util.find_spec("flashinfer_jit_cache"):
        return
    find_nvcc(os.environ)
    if shutil.which("ninja") is None:
        raise UnavailableError("there is no ninja, which FlashInfer builds with; install it.")


def engine() -> RunnerModule:
    """The runner. It is built where needed, which takes minutes; `BuildError` where that fails."""
    torch = import_torch()
    package()
    check_buildable()
    try:
        import tvm_ffi
        from flashinfer import tllm_utils
        from flashinfer.gemm.gemm_base import get_cutlass_fp4_gemm_module

        module = get_cutlass_fp4_gemm_module(*torch.cuda.get_device_capability())
        runner = module.cutlass_fp4_gemm_runner()
        found = list(runner.get_valid_tactics([], None))
        tllm_utils.get_trtllm_utils_module()  # build it here, and not between two events
    except Exception as error:
        failure = BuildError(
            f"FlashInfer could not make its runner ({first_line(error)}); "
            "see the notes of this error for its output."
        )
        failure.add_note(str(error)[-4000:])
        raise failure from error
    if found != list(TACTIC_IDS):
        raise UnavailableError(
            f"FlashInfer's runner has {len(found)} tactics here, and the table has 32; "
            f"install flashinfer-python=={VERSION}, whose tactics are known."
        )

    def delay(microseconds: int) -> None:
        with tvm_ffi.use_torch_stream():  # it has no tensor argument that names the stream
            tllm_utils.delay_kernel(microseconds)

    return RunnerModule(torch, runner, delay)
