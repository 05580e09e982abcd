"""GEMM: the operator under the plans."""

import pytest

from pytest_nvfp4.model.nvfp4 import TOLERANCES, relative_error, swizzle
from pytest_nvfp4.suite import contract

SHAPES = [(1, 64, 64), (5, 48, 272), (130, 80, 384), (33, 96, 16)]


@contract("GEMM-1")
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_tactic_matches_the_dequantized_product(nvfp4, shape):
    seed = nvfp4.rng.randrange(2**31)
    for tactic in range(32):
        product = nvfp4.subject.gemm(*shape, tactic=tactic, seed=seed)
        error = relative_error(product, *shape)
        assert error <= TOLERANCES[product.output_dtype], f"tactic {tactic}: {error}"


@contract("GEMM-1")
def test_operands_are_fresh_and_exercise_the_format(nvfp4):
    one, other = (
        nvfp4.subject.gemm(40, 64, 128, tactic=0, seed=nvfp4.rng.randrange(2**31)) for _ in range(2)
    )
    assert one.a.packed != other.a.packed, "the seed does not change the operands"
    assert len(set(one.a.scales)) > 8, "scales that hardly differ sum exactly in any order"


@contract("GEMM-2")
def test_one_tactic_gives_the_same_bytes_in_every_run(nvfp4):
    seed = nvfp4.rng.randrange(2**31)
    for tactic in range(32):
        first, second = (
            nvfp4.subject.gemm(37, 80, 272, tactic=tactic, seed=seed) for _ in range(2)
        )
        assert first == second, f"tactic {tactic}"


@contract("GEMM-2")
def test_one_tactic_gives_the_same_bytes_in_every_process(nvfp4):
    seed = nvfp4.rng.randrange(2**31)
    here = [
        nvfp4.subject.gemm(37, 80, 272, tactic=tactic, seed=seed).output for tactic in range(32)
    ]
    for threads in ("1", "4"):
        names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
        other = nvfp4.launch(variables=dict.fromkeys(names, threads))
        there = [other.gemm(37, 80, 272, tactic=tactic, seed=seed).output for tactic in range(32)]
        assert there == here, f"with {threads} threads"


@contract("GEMM-3")
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_direct_and_composed_scales_are_the_same_bytes(nvfp4, shape):
    seed, tactic = nvfp4.rng.randrange(2**31), nvfp4.rng.randrange(32)
    direct = nvfp4.subject.gemm(*shape, tactic=tactic, seed=seed, direct_sf=True)
    composed = nvfp4.subject.gemm(*shape, tactic=tactic, seed=seed, direct_sf=False)
    assert direct.a == composed.a
    assert direct.b == composed.b
    assert direct.output == composed.output
    for operand in (direct.a, direct.b):
        assert operand.swizzled == swizzle(operand), "not the 128x4 layout"
