"""The element formats, value by value."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
from nvfp4_reference.gemm import elements

from .scalar_model import E2M1, E4M3, nearest

VALUES = [0, 0.5, 1, 1.5, 2, 3, 4, 6]


def test_the_16_values_of_e2m1() -> None:
    codes = np.arange(16, dtype=np.uint8)
    values = elements.from_e2m1(codes)
    assert values.tolist() == [*VALUES, *(-value for value in VALUES)]
    assert np.signbit(values).tolist() == [False] * 8 + [True] * 8
    assert elements.to_e2m1(values.astype(np.float32)).tolist() == codes.tolist()


def test_e2m1_rounds_to_nearest_with_ties_to_the_even_code() -> None:
    ties = [0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5]
    assert elements.to_e2m1(np.array(ties, np.float32)).tolist() == [0, 2, 2, 4, 4, 6, 6]
    above = np.nextafter(np.array(ties, np.float32), np.float32(9))
    below = np.nextafter(np.array(ties, np.float32), np.float32(0))
    assert elements.to_e2m1(above).tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert elements.to_e2m1(below).tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert elements.to_e2m1(-above).tolist() == [9, 10, 11, 12, 13, 14, 15]


def test_e2m1_saturates_and_keeps_the_sign_of_zero() -> None:
    extremes = np.array([7, 1e38, np.inf, -7, -np.inf, -0.0, -0.1, 0.1], np.float32)
    assert elements.to_e2m1(extremes).tolist() == [7, 7, 7, 15, 15, 8, 8, 0]


def test_every_byte_of_e4m3() -> None:
    values = elements.from_e4m3(np.arange(256, dtype=np.uint8))
    assert values[:0x7F].tolist() == [float(value) for value in E4M3]
    assert values[0x80:0xFF].tolist() == [-float(value) for value in E4M3]
    assert np.isnan(values[[0x7F, 0xFF]]).all()
    finite = values[:0x7F].astype(np.float32)
    assert elements.to_e4m3(finite).tolist() == list(range(0x7F))


def test_e4m3_rounds_to_nearest_even_everywhere(numbers: np.random.Generator) -> None:
    ties = np.array([float(low + high) / 2 for low, high in pairwise(E4M3)], np.float32)
    wanted = [byte + byte % 2 for byte in range(len(ties))]
    assert elements.to_e4m3(ties).tolist() == wanted
    anywhere = np.exp2(numbers.uniform(-12, 10, 500)).astype(np.float32)
    close = np.concatenate([np.nextafter(ties, np.float32(0)), np.nextafter(ties, np.float32(999))])
    for sample in np.concatenate([anywhere, close]):
        expected = nearest(Fraction(float(min(sample, np.float32(448)))), E4M3)
        assert elements.to_e4m3(np.array([sample])).tolist() == [expected]


def test_e4m3_saturates() -> None:
    beyond = np.array([448, 464, 465, 1e30, np.inf], np.float32)
    assert elements.to_e4m3(beyond).tolist() == [0x7E] * 5


def test_the_first_of_two_values_is_in_the_low_nibble(numbers: np.random.Generator) -> None:
    assert elements.pack(np.array([0x1, 0x2, 0xE, 0xF], np.uint8)).tolist() == [0x21, 0xFE]
    codes = numbers.integers(0, 16, (3, 5, 32), np.uint8)
    assert elements.unpack(elements.pack(codes)).tolist() == codes.tolist()


def test_e2m1_of_the_model_is_the_list_of_values() -> None:
    assert [float(value) for value in E2M1] == VALUES
