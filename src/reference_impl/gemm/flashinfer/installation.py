"""torch, FlashInfer and a card that its runner is for: found, or named as missing in one sentence.

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
    """torch, FlashInfer's runner, and its kernel that sleeps for some microseconds."""

    torch: Any
    runner: Any
    delay: Callable[[int], None]


def import_torch() -> Any:
    """torch with a card for the runner; `UnavailableError` where one of them is missing."""
    try:
        import torch

        _ = torch.cuda  # a folder that an uninstalled torch left behind has none
    except Exception as error:  # a broken CUDA installation raises many things, OSError included
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
            "runner has the 32 tactics on 12.0 and 12.1 alone; use such a card or the back end "
            "cupy."
        )
    return torch


def package() -> Path:
    """FlashInfer's folder, found without importing it; `UnavailableError` unless it is 0.6.13."""
    found = importlib.util.find_spec("flashinfer")
    folders = list((found and found.submodule_search_locations) or ())
    try:
        version = importlib.metadata.version("flashinfer-python")
    except importlib.metadata.PackageNotFoundError:
        version = None
    if version != VERSION or not folders:
        what = f"FlashInfer {version}" if version else "no FlashInfer"
        raise UnavailableError(
            f"{what} is installed, and the tactics are known of {VERSION}; "
            f"install flashinfer-python=={VERSION}."
        )
    return Path(folders[0])


def check_buildable() -> None:
    """`UnavailableError` where neither a built module nor what builds it is there."""
    if importlib.util.find_spec("flashinfer_jit_cache"):
        return
    find_nvcc(os.environ)
    if shutil.which("ninja") is None:
        raise UnavailableError("there is no ninja, by which FlashInfer builds; install it.")


def engine() -> RunnerModule:
    """The runner, built where it is not yet, which takes minutes; `UnavailableError` if not."""
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
        tllm_utils.get_trtllm_utils_module()  # built here, and not between two events
    except Exception as error:
        failure = BuildError(
            f"FlashInfer could not make its runner ({first_line(error)}); "
            "see the notes of this error for its own words."
        )
        failure.add_note(str(error)[-4000:])
        raise failure from error
    if found != list(TACTIC_IDS):
        raise UnavailableError(
            f"FlashInfer's runner has {len(found)} tactics here, and the table has 32; "
            "this is not the runner that the tactics are known of."
        )

    def delay(microseconds: int) -> None:
        with tvm_ffi.use_torch_stream():  # it has no tensor to take the stream from
            tllm_utils.delay_kernel(microseconds)

    return RunnerModule(torch, runner, delay)
