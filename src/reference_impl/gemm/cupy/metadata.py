"""The environment of plans that were tuned on a card: its name, its versions and its kernels."""

from typing import Any

from ... import environment
from ...buckets import HYBRID_BUCKET_VERSION
from ...environment import NativeMetadata
from ...profiling import REPEATS, WARM_UPS
from .library import Recipe


def native_metadata(cupy: Any, recipe: Recipe) -> NativeMetadata:
    """All 18 fields for the current card; a context is not needed.

    `build_id` is the kernel library's digest, so it covers the compiler, the headers and how an
    architecture multiplies.
    """
    runtime = cupy.cuda.runtime
    ordinal = runtime.getDevice()
    architecture = recipe.architecture
    return NativeMetadata(
        architecture=architecture.number,
        build_id=recipe.digest[:16],
        cuda_driver=_version(runtime.driverGetVersion()),
        cuda_runtime=_version(runtime.runtimeGetVersion()),
        cutlass_version=recipe.toolchain.cutlass,
        delay_microseconds=environment.DEFAULT_DELAY_MICROSECONDS,
        device_ordinal=ordinal,
        format=environment.FORMAT,
        fp4_layout="e2m1_packed_k2",
        gpu=runtime.getDeviceProperties(ordinal)["name"].decode(),
        hybrid_bucket_version=HYBRID_BUCKET_VERSION,
        output_dtype="bf16",
        output_dtype_id=0,
        repeats=REPEATS,
        scale_layout="cutlass_8x4",
        tactic_descriptor_digest=architecture.tactic_digest,
        tactic_set_version=architecture.tactic_set_version,
        warmups=WARM_UPS,
    )


def _version(number: int) -> str:
    """CUDA's 13000 is 13.0."""
    return f"{number // 1000}.{number % 1000 // 10}"
