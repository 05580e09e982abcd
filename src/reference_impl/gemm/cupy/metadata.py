"""The environment of plans that are tuned on a card: its name, versions and kernels."""

from collections.abc import Mapping
from typing import Any

from ...environment import (
    NOT_APPLICABLE,
    ImportMetadata,
    NativeMetadata,
)
from . import toolchain
from .architectures import current_architecture, import_cupy
from .recipe import Recipe, recipe


def native_here(environment: Mapping[str, str]) -> NativeMetadata:
    """All 18 fields for the current card. Builds nothing and creates no context."""
    cupy = import_cupy()
    return native_metadata(cupy, recipe_here(cupy, environment))


def import_here() -> ImportMetadata:
    """The metadata that an imported document must have on the current card."""
    cupy = import_cupy()
    current_architecture(cupy)  # raises where there is no card
    return import_metadata(cupy)


def recipe_here(cupy: Any, environment: Mapping[str, str]) -> Recipe:
    """The kernel library that the current card needs."""
    return recipe(current_architecture(cupy), toolchain.find(environment), environment)


def native_metadata(cupy: Any, recipe: Recipe) -> NativeMetadata:
    """All 18 fields for the current card.

    `build_id` is the kernel library's digest, so it covers the compiler, the headers and how an
    architecture multiplies.
    """
    runtime = cupy.cuda.runtime
    architecture = recipe.architecture
    return NativeMetadata.tuned_here(
        architecture=architecture.number,
        build_id=recipe.digest[:16],
        cuda_driver=cuda_version(runtime.driverGetVersion()),
        cuda_runtime=cuda_version(runtime.runtimeGetVersion()),
        cutlass_version=recipe.toolchain.cutlass,
        device_ordinal=runtime.getDevice(),
        gpu=_name(runtime),
        tactic_descriptor_digest=architecture.tactic_digest,
        tactic_set_version=architecture.tactic_set_version,
    )


def import_metadata(cupy: Any) -> ImportMetadata:
    """The metadata that a FlashInfer document must have; unused libraries are not applicable."""
    runtime = cupy.cuda.runtime
    return ImportMetadata(
        flashinfer_version="0.6.13",
        cuda_version=cuda_version(runtime.runtimeGetVersion()),
        cublas_version=NOT_APPLICABLE,
        cudnn_version=NOT_APPLICABLE,
        cudnn_frontend_version=NOT_APPLICABLE,
        gpu=_name(runtime),
    )


def _name(runtime: Any) -> str:
    return str(runtime.getDeviceProperties(runtime.getDevice())["name"].decode())


def cuda_version(number: int) -> str:
    """The text of a CUDA version number: 13000 is "13.0"."""
    return f"{number // 1000}.{number % 1000 // 10}"
