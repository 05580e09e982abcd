"""The session operations of the adapter: JSON values in and out, and mistakes of the caller."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from nvfp4_reference import NativeMetadata, Rejected, adapter
from nvfp4_reference.profiling import REPEATS, WARM_UPS
from nvfp4_reference.scripted_timer import ScriptedTimer

from .documents import random_plans, verdict
from .sessions import HERE, write_native

SHAPES = [[320, 384], [64, 128]]


@pytest.fixture
def subject() -> adapter.Adapter:
    return adapter.make()


def opened(subject: adapter.Adapter, **environment: str) -> str:
    return subject.open(environment)["session"]


def data(value: Any) -> Any:
    """The value after a round trip through JSON."""
    assert json.loads(json.dumps(value)) == value
    return value


def test_a_session_from_warm_up_to_serving(subject: adapter.Adapter, tmp_path: Path) -> None:
    session = opened(subject, HOME=str(tmp_path))
    assert not list(tmp_path.iterdir())
    timings = {"7": 3, "8": "raise", "9": "nan"}
    warm = subject.warm_up(session, 8, SHAPES, timings)
    assert data(warm) == {"loaded": 0, "tuned": 8, "rejected": []}
    assert data(subject.complete(session)) == {"saved": 8, "failure": None}
    hit = {"tactic": 7, "source": "live", "tuned": False, "lazy": False}
    assert data(subject.plan(session, 5, 320, 384, capturing=True)) == hit
    lazy = {"tactic": 4, "source": "tuned", "tuned": True, "lazy": True}
    assert data(subject.plan(session, 100, 320, 384, timings={"4": 1})) == lazy
    path = subject.resolve({"HOME": str(tmp_path)})["native_path"]
    assert data(subject.stats(session)) == {
        "path": path,
        "mode": "read-write",
        "loaded": 0,
        "tuned": 9,
        "rejected": 0,
        "saved": 8,
        "lazy": 1,
    }
    assert subject.fingerprint(session) == HERE.fingerprint
    assert len(data(subject.plans(session))) == 9
    subject.close(session)
    calls = (subject.complete, subject.abandon, subject.trace, subject.times, subject.fingerprint)
    for call in calls:
        assert verdict(call, session) == ("lifecycle", session)
    assert verdict(subject.plan, session, 1, 320, 384) == ("lifecycle", session)
    assert verdict(subject.warm_up, session, 8, SHAPES) == ("lifecycle", session)
    assert verdict(subject.plan_many, session, []) == ("lifecycle", session)


@pytest.mark.parametrize("delay", ["5000", "17", "0"])
def test_the_trace_is_the_sequence(subject: adapter.Adapter, delay: str) -> None:
    session = opened(subject, VT_FP4_AUTOTUNE_DELAY_US=delay)
    assert subject.trace(session) == []
    subject.plan(session, 1, 320, 384, timings={})
    trace: Any = data(subject.trace(session))
    size = WARM_UPS + REPEATS + 4 + (delay != "0")
    assert len(trace) == 32 * size
    run = {"step": "run", "tactic": 31, "microseconds": None}
    event = {"step": "event", "tactic": None, "microseconds": None}
    synchronize = {**event, "step": "synchronize"}
    pause = [{**event, "step": "delay", "microseconds": int(delay)}] if delay != "0" else []
    assert trace[-size:] == [
        *[run] * 3,
        synchronize,
        *pause,
        event,
        *[run] * 10,
        event,
        synchronize,
    ]


def test_the_times_are_those_of_the_last_tuning(subject: adapter.Adapter) -> None:
    session = opened(subject)
    assert subject.times(session) == {}
    clock = {"default": "raise", "3": 0.5, "4": "nan", "7": 2, "9": -1}
    assert subject.plan(session, 1, 320, 384, timings=clock)["tactic"] == 3
    assert data(subject.times(session)) == {"3": 0.5, "7": 2.0}
    subject.plan(session, 1, 320, 384, timings={"default": 9})  # a hit
    assert subject.times(session) == {"3": 0.5, "7": 2.0}
    with pytest.raises(Rejected, match="none of 32 tactics gave a valid time"):
        subject.plan(session, 9, 320, 384, timings={"default": "raise"})
    assert subject.times(session) == {}, "the last tuning failed"


def test_many_threads(subject: adapter.Adapter, rng: random.Random) -> None:
    session = opened(subject)
    tactic = rng.randrange(32)
    found: Any = data(subject.plan_many(session, [[8, 320, 384]] * 8, timings={str(tactic): 1}))
    assert found["tunings"] == 1
    assert [plan["tactic"] for plan in found["plans"]] == [tactic] * 8
    assert sum(plan["tuned"] for plan in found["plans"]) == 1
    assert subject.stats(session)["tuned"] == 1
    many = [[2**i, 320, 400] for i in range(8)]
    assert subject.plan_many(session, many, timings={})["tunings"] == 8
    assert subject.plan_many(session, [], timings={}) == {"plans": [], "tunings": 0, "load": None}
    failed: Any = data(subject.plan_many(session, [[8, 16, 16]] * 4, timings={"default": "raise"}))
    assert {plan["rejected"]["code"] for plan in failed["plans"]} == {"no-valid-tactic"}
    assert failed["tunings"] >= 1
    assert subject.plan(session, 8, 16, 16, timings={})["tuned"]
    with pytest.raises(ValueError, match="K is 17"):
        subject.plan_many(session, [[8, 16, 16], [8, 16, 17]], timings={})


def test_an_interrupt_in_one_of_many_threads_reaches_the_caller(
    subject: adapter.Adapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = opened(subject)

    def interrupted(self: ScriptedTimer, tactic: int) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ScriptedTimer, "run", interrupted)
        with pytest.raises(KeyboardInterrupt):
            subject.plan_many(session, [[8, 320, 384]] * 8, timings={})
    assert subject.plans(session) == []
    assert subject.plan_many(session, [[8, 320, 384]] * 8, timings={})["tunings"] == 1


def test_reads_with_a_session_are_saved_only_where_they_are_ours(
    subject: adapter.Adapter, tmp_path: Path, rng: random.Random
) -> None:
    session = opened(subject, VT_FP4_AUTOTUNE_CACHE_PATH=str(tmp_path / "own"))
    ours, foreign = random_plans(rng, 3), random_plans(rng, 3)
    write_native(tmp_path / "ours", ours)
    other = {**HERE.as_json(), "gpu": "another"}
    write_native(tmp_path / "foreign", foreign, NativeMetadata.from_json(other))
    subject.read_native(str(tmp_path / "ours"), HERE.as_json(), session)
    subject.read_native(str(tmp_path / "foreign"), other, session)
    assert len(subject.plans(session)) == 6
    subject.warm_up(session, 1, [], {})
    assert subject.complete(session) == {"saved": 3, "failure": None}


@pytest.mark.parametrize(
    ("operation", "arguments"),
    [
        ("warm_up", {"max_tokens": 0, "shapes": SHAPES}),
        ("warm_up", {"max_tokens": -5, "shapes": SHAPES}),
        ("warm_up", {"max_tokens": "8", "shapes": SHAPES}),
        ("warm_up", {"max_tokens": 8, "shapes": None}),
        ("warm_up", {"max_tokens": 8, "shapes": [[320]]}),
        ("warm_up", {"max_tokens": 8, "shapes": [[320, 384, 1]]}),
        ("warm_up", {"max_tokens": 8, "shapes": ["ab"]}),
        ("warm_up", {"max_tokens": 8, "shapes": [[320, 376]]}),
        ("warm_up", {"max_tokens": 8, "shapes": [[320, "384"]]}),
        ("warm_up", {"max_tokens": 8, "shapes": SHAPES, "timings": {"32": 1}}),
        ("plan", {"m": 1, "n": 320, "k": 380}),
        ("plan", {"m": 1, "n": 0, "k": 384}),
        ("plan", {"m": 1.0, "n": 320, "k": 384}),
        ("plan", {"m": 1, "n": 320, "k": 384, "capturing": 1}),
        ("plan", {"m": 1, "n": 320, "k": 384, "timings": {"5": "fast"}}),
        ("plan", {"m": 1, "n": 320, "k": 384, "timings": {"5": 1, "05": 2}}),
        ("plan", {"m": 1, "n": 320, "k": 384, "timings": 5}),
        ("plan_many", {"requests": 5}),
        ("plan_many", {"requests": [[1, 320]]}),
        ("plan_many", {"requests": [[1, 320, 384]], "timings": {"x": 1}}),
    ],
)
def test_a_callers_mistake_tunes_nothing(
    subject: adapter.Adapter, operation: str, arguments: dict[str, Any]
) -> None:
    session = opened(subject)
    with pytest.raises((TypeError, ValueError), match=r"\.$"):
        getattr(subject, operation)(session=session, **{"timings": {}, **arguments})
    assert subject.plans(session) == []
    assert subject.trace(session) == []
    assert subject.stats(session)["tuned"] == 0
    subject.warm_up(session, 8, SHAPES, {})  # and the session still works
    assert subject.complete(session)["failure"] is None


def test_malformed_timings_are_an_error_even_for_a_hit(subject: adapter.Adapter) -> None:
    session = opened(subject)
    subject.plan(session, 1, 320, 384, timings={})
    with pytest.raises(ValueError, match="timings"):
        subject.plan(session, 1, 320, 384, timings={"32": 1})


def test_lifecycle(subject: adapter.Adapter) -> None:
    session = opened(subject)
    assert verdict(subject.complete, session) == ("lifecycle", session)
    subject.warm_up(session, 8, SHAPES, {})
    with pytest.raises(Rejected) as caught:
        subject.warm_up(session, 8, SHAPES, {})
    assert (caught.value.code, caught.value.member) == ("lifecycle", session)
    assert subject.abandon(session) is None
    assert verdict(subject.complete, session) == ("lifecycle", session)


def test_every_claimed_capability_has_its_operations(subject: adapter.Adapter) -> None:
    claimed: Any = subject.describe()["capabilities"]
    assert len(claimed) == len(set(claimed)) == 16
