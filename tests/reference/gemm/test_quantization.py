"""Quantization, against a scalar model, and its two ways against each other."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from nvfp4_reference.gemm import Nvfp4Matrix, quantization, quantize
from nvfp4_reference.gemm.elements import unpack

from . import scalar_model

SHAPES = [(1, 16), (1, 64), (3, 80), (5, 144), (33, 48), (128, 64), (130, 16), (257, 208)]
LARGEST = float(np.finfo(np.float32).max)
SMALLEST = float(np.finfo(np.float32).smallest_subnormal)


def samples(numbers: np.random.Generator, rows: int, k: int) -> NDArray[np.float32]:
    """Blocks of every size, some of them zero, with ties and zeros of both signs."""
    blocks = numbers.standard_normal((rows, k // 16, 16)).astype(np.float32)
    blocks *= np.exp2(numbers.integers(-20, 5, (rows, k // 16, 1))).astype(np.float32)
    blocks[numbers.random((rows, k // 16)) < 0.1] = 0
    blocks[numbers.random(blocks.shape) < 0.1] *= 0
    return blocks.reshape(rows, k)


def assert_is_the_model(matrix: Nvfp4Matrix, model: scalar_model.Quantized) -> None:
    assert matrix.global_scale == model.global_scale
    assert matrix.linear_scales().tolist() == model.scales
    assert unpack(matrix.values).tolist() == model.codes


@pytest.mark.parametrize("direct", [True, False])
@pytest.mark.parametrize(("rows", "k"), SHAPES[:6])
def test_the_bytes_are_the_model_s(
    rows: int, k: int, direct: bool, numbers: np.random.Generator
) -> None:
    matrix = samples(numbers, rows, k)
    before = matrix.copy()
    assert_is_the_model(quantize(matrix, direct=direct), scalar_model.quantize(matrix))
    assert matrix.tobytes() == before.tobytes()


@pytest.mark.parametrize("global_scale", [1.0, 2.0**-10, 1e4 + 0.5, LARGEST, SMALLEST])
def test_a_given_global_scale(global_scale: float, numbers: np.random.Generator) -> None:
    matrix = samples(numbers, 4, 64)
    expected = scalar_model.quantize(matrix, global_scale)
    for direct in (True, False):
        assert_is_the_model(quantize(matrix, global_scale=global_scale, direct=direct), expected)


@pytest.mark.parametrize(("rows", "k"), SHAPES)
def test_direct_and_composed_give_the_same_bytes(
    rows: int, k: int, numbers: np.random.Generator
) -> None:
    matrix = samples(numbers, rows, k)
    direct, composed = quantize(matrix, direct=True), quantize(matrix, direct=False)
    assert direct.values.tobytes() == composed.values.tobytes()
    assert direct.scales.tobytes() == composed.scales.tobytes()
    assert direct.global_scale == composed.global_scale


def test_the_two_ways_are_two_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = np.ones((2, 32), np.float32)

    def never(*_: object) -> Any:
        raise AssertionError("the other way's step")

    with monkeypatch.context() as patched:
        patched.setattr(quantization, "swizzle", never)
        quantize(matrix, direct=True)
    monkeypatch.setattr(quantization, "swizzled_offset", never)
    quantize(matrix, direct=False)


def test_zeros_have_zero_scales_and_global_scale_1() -> None:
    matrix = np.zeros((2, 32), np.float32)
    matrix[1] = -0.0
    quantized = quantize(matrix)
    assert quantized.global_scale == 1.0
    assert not quantized.scales.any()
    assert unpack(quantized.values).tolist() == [[0] * 32, [8] * 32]
    assert not quantized.dequantized().any()


@pytest.mark.parametrize("amax", [SMALLEST, 1e-40, 7e-36, 1e-30, 1.0, 1e30, LARGEST])
def test_magnitudes_at_the_ends_of_float32(amax: float) -> None:
    matrix = np.zeros((2, 32), np.float32)
    matrix[0, :16] = amax
    matrix[1, 16] = -amax
    quantized = quantize(matrix)
    assert_is_the_model(quantized, scalar_model.quantize(matrix))
    assert quantized.global_scale <= LARGEST
    if amax > 1e-35:
        assert quantized.scales.max() == 0x7E
        assert quantized.dequantized()[1, 16] == pytest.approx(-float(np.float32(amax)))


def test_a_block_s_scale_is_rounded_after_each_step() -> None:
    # Multiplied first, or with one combined factor, this block's scale would be another byte.
    matrix = np.full((1, 16), float.fromhex("0x1.bffffep-7"), np.float32)
    expected = scalar_model.quantize(matrix, 3.0)
    for direct in (True, False):
        assert_is_the_model(quantize(matrix, global_scale=3.0, direct=direct), expected)


def test_subnormal_scales_are_used() -> None:
    matrix = np.full((1, 48), 448 * 6, np.float32)
    matrix[0, 16:32] = 6 * 2.0**-9
    matrix[0, 32:] = 6 * 2.0**-11
    quantized = quantize(matrix)
    assert quantized.linear_scales().tolist() == [[0x7E, 0x01, 0x00]]
    assert quantized.dequantized().tolist() == [[2688.0] * 16 + [6 * 2.0**-9] * 16 + [0.0] * 16]


def test_values_and_scales_saturate_under_a_given_global_scale() -> None:
    matrix = np.array([[1e5] * 8 + [-1e5] * 8], np.float32)
    quantized = quantize(matrix, global_scale=1.0)
    assert quantized.linear_scales().tolist() == [[0x7E]]
    assert unpack(quantized.values).tolist() == [[7] * 8 + [15] * 8]


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity_are_errors(wrong: float) -> None:
    matrix = np.ones((3, 32), np.float32)
    matrix[2, 17] = wrong
    with pytest.raises(ValueError, match=r"holds -?(nan|inf) at row 2, column 17;.*finite"):
        quantize(matrix)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.ones((2, 32)), "is float64; give float32"),
        (np.ones((2, 32), np.int32), "is int32; give float32"),
        (np.ones((2, 24), np.float32), r"shape \(2, 24\).*multiple of 16"),
        (np.ones((0, 32), np.float32), r"shape \(0, 32\)"),
        (np.ones((2, 0), np.float32), r"shape \(2, 0\)"),
        (np.ones(32, np.float32), r"shape \(32,\)"),
    ],
)
def test_what_is_no_float32_matrix_is_an_error(matrix: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        quantize(matrix)


@pytest.mark.parametrize("wrong", [0.0, -1.0, np.nan, np.inf, 1e39, 0.1, 1e-50])
def test_a_global_scale_is_a_positive_finite_float32(wrong: float) -> None:
    with pytest.raises(ValueError, match="give a positive finite float32"):
        quantize(np.ones((1, 16), np.float32), global_scale=wrong)


def test_the_layout_in_memory_does_not_matter(numbers: np.random.Generator) -> None:
    matrix = samples(numbers, 64, 32)
    columns_first = np.asfortranarray(matrix)
    strided = np.repeat(matrix, 2, axis=0)[::2]
    for direct in (True, False):
        expected = quantize(matrix, direct=direct)
        for same in (columns_first, strided):
            quantized = quantize(same, direct=direct)
            assert quantized.values.tobytes() == expected.values.tobytes()
            assert quantized.scales.tobytes() == expected.scales.tobytes()
