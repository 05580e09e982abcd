"""The environment of plans that are tuned with FlashInfer's runner."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...environment import (
    ImportMetadata,
    NativeMetadata,
)
from ..cupy.metadata import cuda_version
from ..cupy.toolchain import cutlass_version
from . import installation

_SOURCES = (
    "csrc/fp4_gemm_cutlass_sm120.cu",
    "csrc/fp4_gemm_cutlass_sm120.jinja",
    "include/flashinfer/gemm/fp4_gemm_cutlass_template_sm120.h",
    "include/flashinfer/gemm/fp4_gemm_template_sm120.h",
    "cutlass/include/cutlass/version.h",
)


def native_here(environment: Mapping[str, str]) -> NativeMetadata:
    """All 18 fields for the current card. Builds nothing; `environment` is not used."""
    return native_metadata(installation.import_torch(), installation.package())


def import_here() -> ImportMetadata:
    """The metadata that an imported document must have: those that FlashInfer writes here."""
    installation.import_torch()
    installation.package()
    return import_metadata()


def native_metadata(torch: Any, package: Path) -> NativeMetadata:
    """All 18 fields for the current card. `build_id` covers the runner's sources."""
    major, minor = torch.cuda.get_device_capability()
    data = package / "data"
    return NativeMetadata.tuned_here(
        architecture=10 * major + minor,
        build_id=_build_id(data),
        cuda_driver=cuda_version(int(torch._C._cuda_getDriverVersion())),
        cuda_runtime=str(torch.version.cuda),
        cutlass_version=cutlass_version(data / "cutlass" / "include"),
        device_ordinal=int(torch.cuda.current_device()),
        gpu=str(torch.cuda.get_device_name()),
    )


def import_metadata() -> ImportMetadata:
    """The metadata that FlashInfer writes into its documents here."""
    from flashinfer.autotuner import _collect_metadata

    return ImportMetadata.from_json(_collect_metadata())


def _build_id(data: Path) -> str:
    digest = hashlib.sha256(f"flashinfer {installation.VERSION}\n".encode())
    for name in _SOURCES:
        content = (data / name).read_bytes()
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:16]
