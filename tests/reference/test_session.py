"""The warm-up: what it loads, tunes and saves, in which order, and what it rejects."""

import itertools
import os
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from nvfp4_reference import Document, PlanKey, Session, publication, read_native
from nvfp4_reference.diagnostics import Statistics
from nvfp4_reference.session import Completion
from nvfp4_reference.warm_up import WarmUp

from .documents import ORACLE, names, random_plans, verdict
from .sessions import (
    HERE,
    LONG,
    NK,
    SHAPES,
    BackEnd,
    Call,
    Slow,
    Untouchable,
    at,
    best,
    flashinfer_text,
    keys,
    session,
    write_native,
)

SMALL = keys([1, 2, 4, 8], SHAPES)


def run(environment: dict[str, str], tactic: int = 3, maximum: int = 8) -> Session:
    """A session that has warmed up and completed."""
    found = session(environment)
    found.warm_up(maximum, SHAPES, back_end=best(tactic))
    found.complete()
    return found


def test_a_pass_makes_every_profile_of_every_shape_ready(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file"
    found = session(at(path))
    back_end = best(3)
    assert found.warm_up(8, SHAPES, back_end=back_end) == WarmUp(0, 8, 8)
    assert back_end.products == [tuple(key) for key in SMALL]
    assert found.plans() == dict.fromkeys(sorted(SMALL), 3)
    assert not path.parent.exists()
    assert found.complete() == Completion(8)
    assert read_native(str(path), HERE).plans == found.plans()
    assert names(path.parent) == ["file"]
    assert found.statistics() == Statistics(path=str(path), mode="read-write", tuned=8, saved=8)


def test_a_second_process_tunes_nothing(tmp_path: Path) -> None:
    first = run(at(tmp_path / "file"))
    second = session(at(tmp_path / "file"), back_end=Untouchable())
    assert second.warm_up(8, SHAPES) == WarmUp(8, 0, 0)
    assert second.plans() == first.plans()
    assert second.plan(5, *NK).source == "native"


def test_only_missing_keys_are_tuned_and_a_shape_counts_once(tmp_path: Path) -> None:
    write_native(tmp_path / "file", {SMALL[2]: 9, PlanKey(512, *NK): 8})
    found = session(at(tmp_path / "file"))
    back_end = best(3)
    assert found.warm_up(8, [*SHAPES, *SHAPES], back_end=back_end) == WarmUp(2, 7, 7)
    assert tuple(SMALL[2]) not in back_end.products
    assert found.plans()[SMALL[2]] == 9
    assert found.complete().saved == 9


def test_loading_precedes_the_first_measurement(tmp_path: Path) -> None:
    write_native(tmp_path / "native", {SMALL[-1]: 9})
    (tmp_path / "import").write_text(flashinfer_text({SMALL[-2]: 8}))
    found = session(at(tmp_path / "native", VT_FP4_FLASHINFER_CACHE_PATH=str(tmp_path / "import")))
    ready: list[dict[PlanKey, int]] = []
    back_end = best(3)
    back_end.on_timer = lambda: ready.append(dict(found.plans()))
    found.warm_up(8, SHAPES, back_end=back_end)
    assert ready[0] == {SMALL[-1]: 9, SMALL[-2]: 8}


def test_the_order_of_the_sources(tmp_path: Path) -> None:
    live, imported, native = SMALL[0], SMALL[1], SMALL[2]
    write_native(tmp_path / "native", {live: 20, imported: 21, native: 22})
    (tmp_path / "import").write_text(flashinfer_text({live: 10, imported: 11}))
    environment = at(tmp_path / "native", VT_FP4_FLASHINFER_CACHE_PATH=str(tmp_path / "import"))
    found = session(environment)
    assert found.plan(*live, back_end=best(5)).source == "tuned"
    assert found.warm_up(8, SHAPES, back_end=best(3)) == WarmUp(2, 5, 5)
    served = [found.plan(*key) for key in (live, imported, native, SMALL[3])]
    assert [(plan.tactic, plan.source) for plan in served] == [
        (5, "live"),
        (11, "import"),
        (22, "native"),
        (3, "live"),
    ]
    before = (tmp_path / "import").read_bytes(), (tmp_path / "import").stat()
    found.complete()
    # What was measured or named here wins over the file; the import itself is never written.
    saved = read_native(str(tmp_path / "native"), HERE).plans
    assert [saved[key] for key in (live, imported, native)] == [5, 11, 22]
    assert ((tmp_path / "import").read_bytes(), (tmp_path / "import").stat()) == before


def test_nothing_is_read_before_the_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def touched(*arguments: Any, **named: Any) -> Any:
        raise AssertionError(f"the disk was touched: {arguments}")

    with monkeypatch.context() as patch:
        options = session(at(Path("/nowhere/file"))).options
        for name in ("open", "stat", "lstat", "mkdir", "replace", "unlink"):
            patch.setattr(os, name, touched)
        found = Session(options)
        found.plan(1, *NK, back_end=best(1))
    assert found.plans() == {PlanKey(1, *NK): 1}


# Rejected files


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[:-10],
        lambda text: "",
        lambda text: text.replace('"tactic_id": 9', '"tactic_id": 99'),
        lambda text: text.replace(HERE.gpu, "another"),
        lambda text: text.replace(HERE.gpu, "unknown"),
        lambda text: ORACLE.decode(),
    ],
)
def test_a_rejected_file_does_not_stop_the_warm_up(
    tmp_path: Path, damage: Callable[[str], str], caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "file"
    path.write_text(damage(Document(HERE, dict.fromkeys(SMALL, 9)).render()))
    before = path.read_bytes()
    found = session(at(path))
    assert found.warm_up(8, SHAPES, back_end=best(3)) == WarmUp(0, 8, 8)
    assert found.statistics().rejected == 1
    assert sum('"rejected": "native", "code": "' in text for text in caplog.messages) == 1
    completion = found.complete()
    if before:
        assert completion.saved == 0
        assert completion.failure
        assert path.read_bytes() == before
        assert names(tmp_path) == ["file"]
    else:
        assert completion == Completion(8)
    assert found.plan(8, *NK, back_end=Untouchable()).tactic == 3
    assert found.statistics().saved == completion.saved


def test_a_rejected_import_does_not_stop_the_warm_up(tmp_path: Path) -> None:
    write_native(tmp_path / "native", dict.fromkeys(SMALL, 9))
    for path in (tmp_path / "absent", tmp_path / "native"):
        variables = {"VT_FP4_FLASHINFER_CACHE_PATH": str(path)}
        if path.name == "native":
            variables["VT_FP4_AUTOTUNE_CACHE_PATH"] = str(tmp_path / "other")
        found = session({**at(tmp_path / "native"), **variables})
        found.warm_up(8, SHAPES, back_end=best(3))
        assert found.statistics().rejected == 1
        found.complete()
        assert not (tmp_path / "absent").exists()


def test_an_import_under_another_name_is_not_written(tmp_path: Path) -> None:
    (tmp_path / "import").write_bytes(b"")
    (tmp_path / "link").symlink_to("import")
    for native in (f"{tmp_path}/link", f"{tmp_path}/../{tmp_path.name}/import"):
        found = session(
            at(Path("/"), VT_FP4_FLASHINFER_CACHE_PATH=f"{tmp_path}/import")
            | {"VT_FP4_AUTOTUNE_CACHE_PATH": native}
        )
        found.warm_up(8, SHAPES, back_end=best(3))
        assert "never written" in str(found.complete().failure)
        assert (tmp_path / "import").read_bytes() == b""


@pytest.mark.parametrize("field", list(HERE.as_json()))
def test_a_file_of_another_environment_is_never_laundered(tmp_path: Path, field: str) -> None:
    value: Any = getattr(HERE, field)
    change: dict[str, Any] = {field: value + 1 if isinstance(value, int) else f"{value}x"}
    foreign = keys([1, 2], [(999, 16)])
    path = tmp_path / "file"
    write_native(path, dict.fromkeys(foreign, 9), replace(HERE, **change))
    before = path.read_bytes()
    found = run(at(path))
    assert found.statistics().rejected == 1
    assert found.statistics().saved == 0
    assert path.read_bytes() == before
    assert all(found.lookup(*key) is None for key in foreign)


def test_what_was_installed_from_another_environment_is_served_and_not_saved(
    tmp_path: Path, rng: random.Random
) -> None:
    found = session(at(tmp_path / "file"))
    foreign, ours = random_plans(rng, 5), random_plans(rng, 5)
    found.install(foreign, "native", ours=False)
    found.install(ours, "native")
    found.warm_up(8, SHAPES, back_end=best(3))
    assert found.complete() == Completion(13)
    saved = read_native(str(tmp_path / "file"), HERE).plans
    assert saved.keys() & foreign.keys() == set()
    assert saved.items() >= ours.items()


# Saving


def test_what_counts_is_the_file_as_it_is_at_save_time(tmp_path: Path, rng: random.Random) -> None:
    path = tmp_path / "file"
    kept, changed, added = random_plans(rng, 3), random_plans(rng, 3), random_plans(rng, 3)
    write_native(path, {**kept, **changed})
    found = session(at(path))
    found.warm_up(8, SHAPES, back_end=best(3))
    changed = {key: (tactic + 1) % 32 for key, tactic in changed.items()}
    write_native(path, {**changed, **added, SMALL[0]: 30})
    found.complete()
    # Newer entries stay, ours win where we measured, and what was loaded only fills gaps.
    expected = {**kept, **changed, **added, **dict.fromkeys(SMALL, 3)}
    assert read_native(str(path), HERE).plans == expected


def test_a_file_that_went_away_is_written_whole(tmp_path: Path, rng: random.Random) -> None:
    path = tmp_path / "file"
    plans = random_plans(rng, 3)
    write_native(path, plans)
    found = session(at(path))
    found.warm_up(8, SHAPES, back_end=best(3))
    path.unlink()
    assert found.complete() == Completion(11)
    assert read_native(str(path), HERE).plans == {**plans, **dict.fromkeys(SMALL, 3)}


def test_a_file_that_turned_foreign_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "file"
    found = session(at(path))
    found.warm_up(8, SHAPES, back_end=best(3))
    foreign = write_native(path, {SMALL[0]: 9}, replace(HERE, cuda_driver="12.0"))
    assert "cuda_driver" in str(found.complete().failure)
    assert path.read_text() == foreign.render()


@pytest.mark.parametrize("fault", [OSError(28, "No space left on device"), OSError(5, "I/O")])
def test_a_failed_save_does_not_stop_serving(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fault: OSError,
    caplog: pytest.LogCaptureFixture,
) -> None:
    found = session(at(tmp_path / "file"))
    found.warm_up(8, SHAPES, back_end=best(3))

    def failing(*arguments: Any) -> int:
        raise fault

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", failing)
        completion = found.complete()
    assert completion.saved == 0
    assert str(fault.strerror) in str(completion.failure)
    assert found.statistics().saved == 0
    assert found.plan(8, *NK, back_end=Untouchable()).tactic == 3
    assert not list(tmp_path.iterdir())
    assert any('"rejected": "save", "code": "publication"' in text for text in caplog.messages)
    assert verdict(found.complete) == ("lifecycle", "session")
    found.warm_up(8, SHAPES, back_end=Untouchable())  # all is ready; this time it is saved
    assert found.complete() == Completion(8)


def test_an_interrupted_save_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = session(at(tmp_path / "file"))
    found.warm_up(8, SHAPES, back_end=best(3))

    def interrupt(*arguments: Any, **named: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(publication, "update", interrupt)
        with pytest.raises(KeyboardInterrupt):
            found.complete()
    assert found.complete() == Completion(8)


@pytest.mark.parametrize(
    "environment", [{"VT_FP4_PERSISTENT_CACHE": "0"}, {}, {"XDG_CACHE_HOME": "relative"}]
)
def test_without_files_plans_stay_in_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_native(tmp_path / "file", {SMALL[0]: 9})
    if environment.get("VT_FP4_PERSISTENT_CACHE"):
        environment = at(tmp_path / "file", **environment)
    found = run(environment)
    assert found.plans() == dict.fromkeys(sorted(SMALL), 3)
    counts = found.statistics()
    assert (counts.mode, counts.path) == ("process-local", None)
    assert (counts.loaded, counts.tuned, counts.saved) == (0, 8, 0)
    assert names(tmp_path) == ["file"]


# Lifecycle


def test_warm_ups_do_not_nest_or_overlap(tmp_path: Path) -> None:
    found = session(at(tmp_path / "file"))
    slow = Slow({"3": 1})
    first = Call(found.warm_up, 8, SHAPES, back_end=slow)
    assert slow.begun.wait(LONG)
    assert verdict(found.warm_up, 8, SHAPES) == ("lifecycle", "session")
    assert verdict(found.complete) == ("lifecycle", "session")
    slow.proceed.set()
    assert first.outcome() == WarmUp(0, 8, 8)
    assert verdict(found.begin_warm_up) == ("lifecycle", "session")
    assert found.complete() == Completion(8)


def test_completing_needs_a_pass_and_happens_once(tmp_path: Path) -> None:
    found = session(at(tmp_path / "file"))
    assert verdict(found.complete) == ("lifecycle", "session")
    found.begin_warm_up()
    assert verdict(found.complete) == ("lifecycle", "session")
    found.maximum_pass(4, SHAPES, back_end=best(3))
    found.maximum_pass(8, SHAPES, back_end=best(3))
    found.complete()
    assert verdict(found.complete) == ("lifecycle", "session")
    assert verdict(found.maximum_pass, 8, SHAPES) == ("lifecycle", "session")
    found.warm_up(16, SHAPES, back_end=best(3))
    assert found.complete() == Completion(10)


def test_an_abandoned_warm_up_writes_nothing_and_keeps_serving(tmp_path: Path) -> None:
    found = session(at(tmp_path / "file"))
    found.abandon()
    found.warm_up(8, SHAPES, back_end=best(3))
    found.abandon()
    assert verdict(found.complete) == ("lifecycle", "session")
    assert not list(tmp_path.iterdir())
    assert found.plan(8, *NK, back_end=Untouchable()).tactic == 3
    assert found.warm_up(8, SHAPES, back_end=Untouchable()) == WarmUp(0, 0, 0)
    assert found.complete() == Completion(8)


def test_a_warm_up_that_is_abandoned_or_closed_during_its_pass_is_over() -> None:
    for end in ("abandon", "close"):
        found = session()
        back_end = best(3)
        back_end.on_timer = getattr(found, end)
        assert verdict(lambda f=found, b=back_end: f.warm_up(1, [NK], back_end=b))[0] == "lifecycle"
        assert verdict(found.complete)[0] == "lifecycle"


@pytest.mark.parametrize("fault", [KeyboardInterrupt(), MemoryError(), SystemExit(1), OSError(5)])
def test_a_warm_up_that_raises_writes_nothing(tmp_path: Path, fault: BaseException) -> None:
    path = tmp_path / "file"
    write_native(path, {SMALL[0]: 9})
    before = path.read_bytes(), path.stat()
    found = session(at(path))
    failing = best(3)
    countdown = itertools.count(1)

    def fail() -> None:
        if next(countdown) == 4:
            raise fault

    failing.on_timer = fail
    with pytest.raises(type(fault)):
        found.warm_up(8, SHAPES, back_end=failing)
    assert verdict(found.complete) == ("lifecycle", "session")
    found.close()
    assert (path.read_bytes(), path.stat()) == before
    assert names(tmp_path) == ["file"]


def test_loading_over_a_running_tuning_rejects_and_can_be_repeated(tmp_path: Path) -> None:
    write_native(tmp_path / "file", {SMALL[0]: 9, SMALL[1]: 8})
    found = session(at(tmp_path / "file"))
    slow = Slow({"3": 1})
    owner = Call(found.plan, *SMALL[0], back_end=slow)
    assert slow.begun.wait(LONG)
    assert verdict(found.warm_up, 8, SHAPES) == ("lifecycle", "session")
    assert found.plans() == {}
    assert found.statistics().loaded == 0
    slow.proceed.set()
    assert owner.outcome().tactic == 3
    assert found.warm_up(8, SHAPES, back_end=best(3)) == WarmUp(1, 6, 6)
    assert found.plans()[SMALL[0]] == 3
    assert found.plans()[SMALL[1]] == 8


@pytest.mark.parametrize("maximum", [0, -1, True, 8.0, "8", None, 2**30 + 1])
def test_an_impossible_maximum_is_a_callers_mistake(maximum: Any) -> None:
    found = session()
    with pytest.raises(ValueError, match=r"^max_tokens is .*\.$"):
        found.warm_up(maximum, SHAPES, back_end=Untouchable())
    found.warm_up(1, SHAPES, back_end=best(1))


@pytest.mark.parametrize("shape", [(0, 16), (-1, 16), (16, 0), (16, 8), (16, -16), (True, 16)])
def test_an_impossible_weight_is_a_callers_mistake(shape: Any) -> None:
    found = session()
    with pytest.raises(ValueError, match=r"^[NK] is .*\.$"):
        found.warm_up(8, [NK, shape], back_end=Untouchable())
    assert found.plans() == {}


def test_a_back_end_that_is_missing_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> BackEnd:
        raise LookupError("no GEMM back end is installed.")

    monkeypatch.setattr("nvfp4_reference.plan_cache.default_back_end", missing)
    found = session()
    with pytest.raises(LookupError, match="no GEMM back end"):
        found.plan(1, *NK)
    with pytest.raises(LookupError, match="no GEMM back end"):
        found.warm_up(8, SHAPES)
    assert found.plans() == {}
