"""The two documents' fields, their kinds and their fixed values, as tables."""

from types import MappingProxyType
from typing import Final

MAX_BYTES: Final = 64 * 1024 * 1024
"""The largest document that has to be read; a larger one may be refused unread."""

NATIVE_FORMAT: Final = "vllm.cpp_nvfp4_autotune_v1"
RUNNER: Final = "CutlassFp4GemmRunner"
OPERATION: Final = "fp4_gemm"
INDETERMINATE: Final = frozenset({"", "unknown", "None"})

STR, INT, UINT8 = "string", "32-bit integer", "8-bit unsigned integer"
RANGES: Final = MappingProxyType({INT: (-(2**31), 2**31 - 1), UINT8: (0, 255)})

NATIVE_METADATA: Final = MappingProxyType(
    {
        "architecture": INT,
        "build_id": STR,
        "cuda_driver": STR,
        "cuda_runtime": STR,
        "cutlass_version": STR,
        "delay_microseconds": INT,
        "device_ordinal": INT,
        "format": STR,
        "fp4_layout": STR,
        "gpu": STR,
        "hybrid_bucket_version": INT,
        "output_dtype": STR,
        "output_dtype_id": UINT8,
        "repeats": INT,
        "scale_layout": STR,
        "tactic_descriptor_digest": STR,
        "tactic_set_version": INT,
        "warmups": INT,
    }
)

NATIVE_PLAN: Final = MappingProxyType(
    {
        "architecture": INT,
        "device_ordinal": INT,
        "fp4_layout": STR,
        "k": INT,
        "m_bucket": INT,
        "n": INT,
        "output_dtype": UINT8,
        "runner": STR,
        "scale_layout": STR,
        "tactic_id": INT,
        "tactic_set_version": INT,
    }
)

PLAN_FROM_METADATA: Final = MappingProxyType(
    {
        "architecture": "architecture",
        "device_ordinal": "device_ordinal",
        "fp4_layout": "fp4_layout",
        "output_dtype": "output_dtype_id",
        "scale_layout": "scale_layout",
        "tactic_set_version": "tactic_set_version",
    }
)
"""Plan field → the metadata field that it must agree with."""

FLASHINFER_METADATA: Final = (
    "flashinfer_version",
    "cuda_version",
    "cublas_version",
    "cudnn_version",
    "cudnn_frontend_version",
    "gpu",
)
