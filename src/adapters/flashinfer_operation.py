"""The NVFP4 GEMM as FlashInfer's tuner knows it: the operation, its ten inputs, and cache keys.

Source: FlashInfer 0.6.13 gemm/gemm_base.py (inputs) and autotuner.py:978-1013 (keys).
"""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from .flashinfer_install import FlashInfer

OPERATION = "fp4_gemm"
RUNNER = "CutlassFp4GemmRunner"

Shape = tuple[int, int, int]
"""(M, N, K) of a product; K counts unpacked FP4 values."""

_KEY = re.compile(r"\('fp4_gemm', '\w+', \(\((\d+), (\d+)\), \(\d+, (\d+)\)")


def tuning_config(flashinfer: FlashInfer) -> Any:
    """FlashInfer's configuration: M is dynamic, in hybrid buckets.

    The scales, the output and the workspace follow M.
    """
    return flashinfer.TuningConfig(
        dynamic_tensor_specs=(
            flashinfer.DynamicTensorSpec((0,), (0,), flashinfer.profiles, flashinfer.bucket),
        ),
        constraint_specs=(
            flashinfer.ConstraintSpec(2, 0, lambda shapes: -(-shapes[0][0] // 8) * 8),
            flashinfer.ConstraintSpec(6, 0, lambda shapes: shapes[0][0]),
            flashinfer.ConstraintSpec(9, 0, lambda shapes: shapes[9][0]),
        ),
    )


def input_shapes(m: int, n: int, k: int) -> tuple[tuple[int, ...], ...]:
    """The shapes of the ten inputs; an input that is not a tensor has the shape (0,)."""
    half, scale = k // 2, k // 16
    return ((m, half), (half, n), (m, scale), (scale, n), (), (0,), (m, n), (0,), (0,), (1,))


def inputs(flashinfer: FlashInfer, m: int, n: int, k: int) -> list[Any]:
    """The ten inputs; the tensors have no memory, since the scripted device reads no values."""
    torch = flashinfer.torch
    others = {5: torch.bfloat16, 7: 16, 8: True}
    return [
        others[index] if index in others else torch.empty(shape, dtype=torch.uint8, device="meta")
        for index, shape in enumerate(input_shapes(m, n, k))
    ]


def import_lazy_modules(flashinfer: FlashInfer) -> None:
    """Make torch import what the first such tensor needs, which takes most of a second."""
    first = inputs(flashinfer, 1, 16, 16)[0]
    flashinfer.torch.rand(first.shape, device="meta").mul(10).to(first.dtype)


def key_text(shape: Shape) -> str:
    """The key of a plan's entry in a file."""
    rows = [list(one) for one in input_shapes(*shape)]
    for follower in (2, 6, 9):
        rows[follower][0] = -1
    return str((OPERATION, RUNNER, tuple(map(tuple, rows)), ()))


def shapes_in(keys: Iterable[str]) -> Iterator[Shape]:
    """The shapes of those entries of a file that a request can find; other keys are skipped."""
    for key in keys:
        found = _KEY.match(key)
        if found and max(map(len, found.groups())) < 20:
            m, half, n = map(int, found.groups())
            if key_text((m, n, 2 * half)) == key:
                yield m, n, 2 * half


def keys_in(path: str) -> list[str]:
    """The keys of a file's entries; empty where the file is not a readable JSON object."""
    try:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
    except (OSError, ValueError, RecursionError):
        return []
    return [key for key in document if key != "_metadata"] if isinstance(document, dict) else []
