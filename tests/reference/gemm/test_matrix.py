"""Quantized matrices and what they stand for."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from nvfp4_reference.gemm import Nvfp4Matrix
from nvfp4_reference.gemm.accumulation import EXACT_K
from nvfp4_reference.gemm.elements import unpack
from nvfp4_reference.tactics import TACTICS

from .samples import wide
from .scalar_model import E2M1, E4M3


def test_expanded_is_exact(numbers: np.random.Generator) -> None:
    matrix = wide(numbers, 5, 96)
    codes, scales = unpack(matrix.values), matrix.linear_scales()
    expanded = matrix.expanded()
    assert expanded.shape == (5, 96)
    for row in range(5):
        for column in range(96):
            value = E2M1[codes[row, column] & 7] * E4M3[scales[row, column // 16]]
            sign = -1 if codes[row, column] & 8 else 1
            assert Fraction(float(expanded[row, column])) == sign * value


def test_an_expanded_value_fits_float16_and_bfloat16_and_float32(
    numbers: np.random.Generator,
) -> None:
    expanded = wide(numbers, 64, 256).expanded()
    assert (expanded.astype(np.float16).astype(np.float64) == expanded).all()
    # A bfloat16 is the upper half of a float32.
    bits = expanded.astype(np.float32).view(np.uint32)
    assert not (bits & 0xFFFF).any()


def test_dequantized_is_over_the_global_scale(numbers: np.random.Generator) -> None:
    matrix = replace(wide(numbers, 3, 32), global_scale=3.0)
    assert (matrix.dequantized() == matrix.expanded() / 3.0).all()


def test_why_a_k_tile_sums_exactly() -> None:
    unit = E2M1[1] * E4M3[1]
    largest = E2M1[-1] * E4M3[-1]
    assert all((e2m1 * e4m3 / unit).denominator == 1 for e2m1 in E2M1 for e4m3 in E4M3)
    assert EXACT_K * (largest / unit) ** 2 <= 2**53
    assert max(tactic.tile[2] for tactic in TACTICS) <= EXACT_K


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"values": np.zeros((2, 16), np.int8)}, "int8.*uint8"),
        ({"scales": np.zeros(512, np.float32)}, "float32.*uint8"),
        ({"values": np.zeros((2, 12), np.uint8)}, r"\(2, 12\).*multiple of 16"),
        ({"values": np.zeros((0, 16), np.uint8)}, r"\(0, 16\)"),
        ({"values": np.zeros(16, np.uint8)}, r"\(16,\)"),
        ({"scales": np.zeros((2, 2), np.uint8)}, r"\(2, 2\).*\(512,\)"),
        ({"scales": np.zeros(1024, np.uint8)}, r"\(1024,\).*\(512,\)"),
        ({"scales": np.full(512, 0x7F, np.uint8)}, "0x7f"),
        ({"scales": np.full(512, 0x80, np.uint8)}, "0x80"),
        ({"global_scale": 0.0}, "positive finite float32"),
        ({"global_scale": 0.1}, "positive finite float32"),
    ],
)
def test_parts_that_do_not_fit_are_errors(change: dict[str, Any], message: str) -> None:
    parts = {
        "values": np.zeros((2, 16), np.uint8),
        "scales": np.zeros(512, np.uint8),
        "global_scale": 1.0,
    }
    Nvfp4Matrix(**parts)
    with pytest.raises(ValueError, match=message):
        Nvfp4Matrix(**{**parts, **change})


@pytest.mark.parametrize(
    ("k", "multiple", "expected"), [(48, 32, 64), (272, 32, 288), (64, 32, 64)]
)
def test_zeros_behind_a_row_change_nothing(
    numbers: np.random.Generator, k: int, multiple: int, expected: int
) -> None:
    matrix = wide(numbers, 133, k)
    found = matrix.widened(multiple)
    assert found.k == expected
    assert (found.expanded()[:, :k] == matrix.expanded()).all()
    assert not found.expanded()[:, k:].any()
    assert found.scales.tobytes() == matrix.scales.tobytes(), "less than an atom is added"
