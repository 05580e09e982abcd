"""The scripted timer, the NumPy timer, and where a back end comes from."""

import importlib
import random
from typing import Any

import pytest
from nvfp4_reference import back_ends
from nvfp4_reference.gemm import numpy_backend
from nvfp4_reference.gemm.numpy_backend import NumpyTimer
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


def test_the_numpy_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0
    runs: list[int] = []
    pauses: list[float] = []

    def product(tactic: int) -> None:
        nonlocal now
        runs.append(tactic)
        now += 1000 * (40 - tactic)

    monkeypatch.setattr(numpy_backend.time, "perf_counter_ns", lambda: now)
    monkeypatch.setattr(numpy_backend.time, "sleep", pauses.append)
    found = Profiler().select(NumpyTimer(product), (1, 1, 16), 5000, [])
    assert found.tactic == 31
    assert found.microseconds == {tactic: 40 - tactic for tactic in range(32)}
    assert runs == [tactic for tactic in range(32) for _ in range(13)]
    assert pauses == [0.005] * 32


def test_the_numpy_timer_measures_for_real() -> None:
    def product(tactic: int) -> None:
        if tactic % 2:
            raise ZeroDivisionError
        sum(range(100))

    found = Profiler().select(NumpyTimer(product), (1, 1, 16), 0, [])
    assert set(found.microseconds) == set(range(0, 32, 2))
    assert all(time > 0 for time in found.microseconds.values())


def test_without_a_back_end_measuring_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ModuleNotFoundError(name, name=name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(LookupError, match="no GEMM back end is installed"):
        back_ends.default_back_end()

    def broken(name: str) -> Any:
        raise ModuleNotFoundError("numpy", name="numpy")

    monkeypatch.setattr(importlib, "import_module", broken)
    with pytest.raises(ModuleNotFoundError, match="numpy"):
        back_ends.default_back_end()


def test_the_back_end_of_the_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    class Gemm:
        class NumpyBackend:
            pass

    monkeypatch.setattr(importlib, "import_module", lambda name: Gemm)
    assert isinstance(back_ends.default_back_end(), Gemm.NumpyBackend)
