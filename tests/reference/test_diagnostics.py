"""What a session says: counts that are right, one line for each phase, and none for a request."""

import gc
import json
import logging
import random
import sys
import weakref
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from nvfp4_reference import PlanKey, Session, resolve
from nvfp4_reference.diagnostics import Account, Statistics, map_digest

from .documents import random_plans
from .sessions import HERE, NK, SHAPES, Untouchable, at, best, flashinfer_text, session


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.DEBUG)
    return caplog


def lines(log: pytest.LogCaptureFixture) -> list[Any]:
    found = []
    for record in log.records:
        assert record.name == "nvfp4_reference"
        head, _, data = record.getMessage().partition(" ")
        assert head == "nvfp4"
        assert "\n" not in data
        found.append(json.loads(data))
    log.clear()
    return found


def test_one_line_for_each_phase(tmp_path: Path, log: pytest.LogCaptureFixture) -> None:
    path = str(tmp_path / "file")
    found = session(at(tmp_path / "file"), name="one")
    assert lines(log) == [
        {
            "phase": "open",
            "session": "one",
            "mode": "read-write",
            "path": path,
            "import_path": None,
            "fingerprint": HERE.fingerprint,
        }
    ]
    found.warm_up(8, SHAPES, back_end=best(3))
    load, warm = lines(log)
    assert load == {"phase": "load", "session": "one", "loaded": 0, "plans": {}}
    assert (warm["phase"], warm["maximum"], warm["needed"]) == ("warm-up", 8, 8)
    assert (warm["missing"], warm["tuned"]) == (8, 8)
    found.complete()
    (complete,) = lines(log)
    assert complete["phase"] == "complete"
    assert complete["map"] == map_digest(found.plans())
    assert (complete["tuned"], complete["saved"], complete["path"]) == (8, 8, path)


def test_a_request_logs_nothing_and_a_lazy_one_no_path(
    tmp_path: Path, log: pytest.LogCaptureFixture
) -> None:
    secret = tmp_path / "secret-name"
    found = session(at(secret, UNRELATED="secret-value"))
    found.warm_up(8, SHAPES, back_end=best(3))
    found.complete()
    lines(log)
    for m in range(1, 9):
        found.plan(m, *NK, back_end=Untouchable())
        found.lookup(m, *NK)
    assert lines(log) == []
    for _ in range(3):
        found.plan(9, *NK, back_end=best(1))
    assert "secret" not in log.text
    assert lines(log) == [{"lazy": {"m": 9, "bucket": 16, "n": NK[0], "k": NK[1]}}]


def test_every_reject_is_logged_with_code_and_member(
    tmp_path: Path, log: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "native").write_text('{"_metadata": []}')
    (tmp_path / "import").write_text(flashinfer_text({}, gpu="another"))
    found = session(at(tmp_path / "native", VT_FP4_FLASHINFER_CACHE_PATH=str(tmp_path / "import")))
    found.begin_warm_up()
    rejects = [line for line in lines(log) if "rejected" in line]
    assert [(line["rejected"], line["code"], line["member"]) for line in rejects] == [
        ("import", "foreign-environment", "_metadata.gpu"),
        ("native", "wrong-type", "_metadata"),
    ]
    assert found.statistics().rejected == 2


def test_no_usable_root_is_one_warning(log: pytest.LogCaptureFixture) -> None:
    session({"HOME": "relative"})
    assert sum("warning" in line for line in lines(log)) == 1


def test_all_counts_are_right(tmp_path: Path, rng: random.Random) -> None:
    (tmp_path / "import").write_text(flashinfer_text({PlanKey(1, *NK): 4, PlanKey(512, *NK): 4}))
    (tmp_path / "native").write_bytes(b"damage")
    found = session(at(tmp_path / "native", VT_FP4_FLASHINFER_CACHE_PATH=str(tmp_path / "import")))
    found.warm_up(8, SHAPES, back_end=best(3))
    (tmp_path / "native").unlink()
    found.complete()
    found.plan(16, *NK, back_end=best(3))
    assert found.statistics() == Statistics(
        path=str(tmp_path / "native"),
        mode="read-write",
        loaded=2,
        tuned=8,
        rejected=1,
        saved=9,
        lazy=1,
    )


def test_the_fingerprint_is_of_all_compatibility_fields_and_of_nothing_else() -> None:
    assert len(session().fingerprint) == 16
    int(session().fingerprint, 16)
    seen = {HERE.fingerprint}
    for field in fields(HERE):
        value: Any = getattr(HERE, field.name)
        change: dict[str, Any] = {field.name: value + 1 if type(value) is int else f"{value}x"}
        seen.add(Session(resolve({}, replace(HERE, **change))).fingerprint)
    assert len(seen) == 19
    others = ({"LANG": "C"}, at(Path("/x")), {"VT_FP4_PLAN_CACHE": "0"}, {"VT_FP4_DIRECT_SF": "0"})
    assert {session(other).fingerprint for other in others} == {HERE.fingerprint}
    assert session({"VT_FP4_AUTOTUNE_DELAY_US": "0"}).fingerprint not in seen


def test_the_digest_of_a_map_depends_on_its_plans_alone(rng: random.Random) -> None:
    plans = random_plans(rng, 9)
    shuffled = dict(rng.sample(list(plans.items()), len(plans)))
    assert map_digest(plans) == map_digest(shuffled)
    key = rng.choice(list(plans))
    assert map_digest({**plans, key: (plans[key] + 1) % 32}) != map_digest(plans)
    assert map_digest({k: v for k, v in plans.items() if k != key}) != map_digest(plans)


def test_session_announces_an_account_that_outlives_it(tmp_path: Path) -> None:
    accounts: list[Account] = []
    listening = [True]

    def record(event: str, arguments: tuple[Any, ...]) -> None:
        if listening and event == "nvfp4.plan_cache":
            accounts.append(*arguments)

    sys.addaudithook(record)
    try:
        found = session(at(tmp_path / "file"), back_end=best(3))
    finally:
        listening.clear()
    (account,) = accounts
    found.warm_up(4, [NK])
    found.complete()
    assert account.statistics() == found.statistics() == account.statistics()
    assert account.statistics().saved == 3
    assert account.plans() == found.plans() == dict.fromkeys(found.plans(), 3)
    found.close()
    gone = weakref.ref(found)
    del found
    gc.collect()
    assert gone() is None
    assert account.statistics().tuned == len(account.plans()) == 3
