"""NVFP4 products as FlashInfer knows them: the operation, its ten inputs, and the text of a key."""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from .flashinfer_install import FlashInfer

OPERATION = "fp4_gemm"
RUNNER = "CutlassFp4GemmRunner"

Key = tuple[int, int, int]
"""(M, N, K), K unpacked."""

_KEY = re.compile(r"\('fp4_gemm', '\w+', \(\((\d+), (\d+)\), \(\d+, (\d+)\)")


def tuning_config(flashinfer: FlashInfer) -> Any:
    """M is dynamic in hybrid buckets; the scales, the output and the workspace follow it."""
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


def shapes(m: int, n: int, k: int) -> tuple[tuple[int, ...], ...]:
    """The shapes of the inputs; what is no tensor counts as (0,)."""
    half, scale = k // 2, k // 16
    return ((m, half), (half, n), (m, scale), (scale, n), (), (0,), (m, n), (0,), (0,), (1,))


def inputs(flashinfer: FlashInfer, m: int, n: int, k: int) -> list[Any]:
    """The inputs; tensors without memory, since nobody looks at their values."""
    torch = flashinfer.torch
    others = {5: torch.bfloat16, 7: 16, 8: True}
    return [
        others[index] if index in others else torch.empty(shape, dtype=torch.uint8, device="meta")
        for index, shape in enumerate(shapes(m, n, k))
    ]


def prepare(flashinfer: FlashInfer) -> None:
    """Let torch import what it needs for the first such tensor: most of a second, once."""
    first = inputs(flashinfer, 1, 16, 16)[0]
    flashinfer.torch.rand(first.shape, device="meta").mul(10).to(first.dtype)


def key_text(key: Key) -> str:
    """The name of a plan's entry in a file."""
    rows = [list(shape) for shape in shapes(*key)]
    for follower in (2, 6, 9):
        rows[follower][0] = -1
    return str((OPERATION, RUNNER, tuple(map(tuple, rows)), ()))


def keys_in(names: Iterable[str]) -> Iterator[Key]:
    """The products that some entries of a file are about: those that a request can reach."""
    for name in names:
        found = _KEY.match(name)
        if found and max(map(len, found.groups())) < 20:
            m, half, n = map(int, found.groups())
            if key_text((m, n, 2 * half)) == name:
                yield m, n, 2 * half


def names_in(path: str) -> list[str]:
    """The entries of a file as far as it can be read: what FlashInfer may have taken from it."""
    try:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
    except (OSError, ValueError, RecursionError):
        return []
    return [name for name in document if name != "_metadata"] if isinstance(document, dict) else []
