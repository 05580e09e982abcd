"""Documents for the tests: the oracle, random valid ones, and JSON to break."""

import copy
import importlib.resources
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from nvfp4_reference import Document, ImportMetadata, NativeMetadata, PlanKey, Plans, Rejected
from nvfp4_reference.buckets import HYBRID_BUCKETS

ORACLE = (
    importlib.resources.files("pytest_nvfp4.fixtures")
    .joinpath("nvfp4_flashinfer_v025_gb10")
    .joinpath("autotune_configs.json")
    .read_bytes()
)
ORACLE_METADATA = ImportMetadata.from_json(json.loads(ORACLE)["_metadata"])

GB10 = NativeMetadata(
    architecture=121,
    build_id="b" * 16,
    cuda_driver="13.0",
    cuda_runtime="13.0",
    cutlass_version="4.5.0",
    delay_microseconds=5000,
    device_ordinal=0,
    format="vllm.cpp_nvfp4_autotune_v1",
    fp4_layout="e2m1_packed_k2",
    gpu="NVIDIA GB10 \u00b5",
    hybrid_bucket_version=1,
    output_dtype="bf16",
    output_dtype_id=3,
    repeats=10,
    scale_layout="cutlass_8x4",
    tactic_descriptor_digest="0123456789abcdef",
    tactic_set_version=2,
    warmups=3,
)

_BUCKETS = sorted(HYBRID_BUCKETS)


def random_plans(rng: random.Random, count: int) -> Plans:
    """`count` plans of random shapes; large N and K make a collision improbable."""
    return {
        PlanKey(rng.choice(_BUCKETS), rng.randrange(1, 2**31), 16 * rng.randrange(1, 2**27)): (
            rng.randrange(32)
        )
        for _ in range(count)
    }


def random_document(rng: random.Random, count: int = 5) -> Document:
    return Document(GB10, random_plans(rng, count))


def edited(name: str) -> NativeMetadata:
    """The metadata of `GB10` with another value in one field."""
    value: Any = getattr(GB10, name)
    changes: dict[str, Any] = {name: value + 1 if isinstance(value, int) else value + "x"}
    return replace(GB10, **changes)


def editable(document: Document) -> Any:
    """The document as JSON that a test may break."""
    return copy.deepcopy(document.as_json())


def encoded(value: object) -> bytes:
    return json.dumps(value).encode()


def names(directory: Path) -> list[str]:
    """What is in a directory, temporaries included."""
    return sorted(path.name for path in directory.iterdir())


def open_descriptors() -> int:
    return len(names(Path("/proc/self/fd")))


def verdict(call: Any, *arguments: Any) -> tuple[str, str]:
    """Code and member of the rejection that a call must end with."""
    with pytest.raises(Rejected) as caught:
        call(*arguments)
    assert str(caught.value).endswith(".")
    return caught.value.code, caught.value.member
