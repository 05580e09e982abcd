"""The plans: the engine serves the frozen map, and a snapshot records it."""

import pytest
from engine import MAP, SHAPES, Engine

from pytest_nvfp4.cache_files import read_plans
from pytest_nvfp4.oracle import assert_matches_oracle

SCALE = 16


@pytest.mark.frozen_map(MAP, complete=True, stats="required")
def test_engine_serves_the_frozen_map(nvfp4_snapshot):
    assert Engine().plans() == nvfp4_snapshot


def test_frozen_map_is_the_binding_one_scaled_down():
    scaled_up = {(SCALE * m, SCALE * n, SCALE * k): t for (m, n, k), t in read_plans(MAP).items()}
    assert_matches_oracle(scaled_up, subset=True)


@pytest.mark.frozen_map(MAP)
@pytest.mark.parametrize("tokens", [1, 3, 100])
def test_output_depends_on_the_plan_alone(tokens):
    engine = Engine()
    assert engine.run(tokens) == engine.run(tokens)


def test_every_layer_has_plans():
    assert {(n, k) for _, n, k in read_plans(MAP)} == set(SHAPES)
