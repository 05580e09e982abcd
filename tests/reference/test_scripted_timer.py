"""The scripted timer."""

import random
from typing import Any

import pytest
from nvfp4_reference.profiling import Profiler
from nvfp4_reference.scripted_timer import Script


def winner(timings: dict[str, Any]) -> int:
    return Profiler().select(Script.from_json(timings).timer(1, 1, 16), (1, 1, 16), 0, []).tactic


def test_a_script(rng: random.Random) -> None:
    tactic = rng.randrange(1, 32)
    assert winner({}) == 0
    assert winner({str(tactic): 99}) == tactic
    assert winner({str(tactic): 5, "default": 4}) == (tactic == 0)
    assert winner({str(tactic): 1e-300, "default": 0.5}) == tactic
    assert winner({str(tactic): 10**400, "default": "raise"}) == tactic
    assert winner({str(tactic): 7, "default": "nan"}) == tactic
    for bad in ("raise", "nan", "inf", "-inf", -1, -0.5):
        assert winner({str(tactic): bad, "0": bad}) == (2 if tactic == 1 else 1)


@pytest.mark.parametrize(
    "timings",
    [
        7,
        [],
        "raise",
        {"32": 1},
        {"-1": 1},
        {"05": 1},
        {"+5": 1},
        {" 5": 1},
        {"٣": 1},
        {"5.0": 1},
        {5: 1},
        {"other": 1},
        {"5": True},
        {"5": None},
        {"5": [1]},
        {"5": "fast"},
        {"5": "NaN"},
        {"5": float("nan")},
        {"5": float("inf")},
        {"default": None},
        {"default": "5"},
    ],
)
def test_a_malformed_script(timings: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"^timings.*\.$"):
        Script.from_json(timings)
