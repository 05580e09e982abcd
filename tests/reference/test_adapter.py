"""The adapter: the operations of the interface, with JSON values only."""

import inspect
import json
import random
from pathlib import Path
from typing import Any

import pytest
from nvfp4_reference import Rejected, adapter

from .documents import GB10, ORACLE, ORACLE_METADATA, editable, random_document, verdict

OPERATIONS = {
    "describe": [],
    "resolve": ["environment", "metadata"],
    "bucket": ["m"],
    "profiles": ["maximum"],
    "tactic_digest": ["tactics"],
    "read_native": ["path", "expected", "session"],
    "read_flashinfer": ["path", "expected", "session"],
    "serialize": ["document"],
    "merge": ["prior", "current"],
    "write_native": ["path", "document"],
    "open": ["environment"],
    "warm_up": ["session", "max_tokens", "shapes", "timings"],
    "complete": ["session"],
    "abandon": ["session"],
    "plan": ["session", "m", "n", "k", "capturing", "timings"],
    "plan_many": ["session", "requests", "load", "timings"],
    "plans": ["session"],
    "stats": ["session"],
    "trace": ["session"],
    "times": ["session"],
    "fingerprint": ["session"],
    "close": ["session"],
    "gemm": ["m", "n", "k", "tactic", "seed", "direct_sf"],
    "replay": ["m", "n", "k", "tactic", "seed"],
}


@pytest.fixture
def subject() -> adapter.Adapter:
    return adapter.make()


def test_the_operations_are_those_of_the_interface(subject: adapter.Adapter) -> None:
    public = {name for name in dir(subject) if not name.startswith("_")}
    assert public == set(OPERATIONS)
    for name, arguments in OPERATIONS.items():
        assert list(inspect.signature(getattr(subject, name)).parameters) == arguments


def test_describe_is_data_and_agrees_with_itself(subject: adapter.Adapter) -> None:
    found: Any = subject.describe()
    assert json.loads(json.dumps(found)) == found
    assert found["protocol"] == 1
    assert len(found["native_metadata"]) == 18
    assert len(found["import_metadata"]) == 6
    assert found["tactics"][6] == {
        "id": 6,
        "tile": [128, 32, 256],
        "swap_ab": True,
        "scheduler": "stream-k",
        "cluster": [1, 1, 1],
    }
    assert subject.tactic_digest(found["tactics"]) == found["tactic_digest"]
    assert found["native_metadata"]["tactic_descriptor_digest"] == found["tactic_digest"]
    assert subject.tactic_digest(found["tactics"][::-1]) != found["tactic_digest"]


def test_resolve(subject: adapter.Adapter) -> None:
    found: Any = subject.resolve({"HOME": "/h"}, GB10.as_json())
    assert json.loads(json.dumps(found)) == found
    assert GB10.directory in found["native_path"]
    here: Any = subject.resolve({"HOME": "/h"}, None)
    assert here["native_path"] != found["native_path"]
    code, member = verdict(subject.resolve, {"VT_FP4_AUTOTUNE_DELAY_US": "x"}, None)
    assert (code, member) == ("configuration", "VT_FP4_AUTOTUNE_DELAY_US")


def test_a_document_through_all_operations(
    subject: adapter.Adapter, tmp_path: Path, rng: random.Random
) -> None:
    path = str(tmp_path / "file")
    first, second = editable(random_document(rng, 3)), editable(random_document(rng, 4))
    assert subject.write_native(path, first) == {"plans": 3}
    assert subject.write_native(path, second) == {"plans": 7}
    both = subject.merge(first, second)
    assert Path(path).read_text() == subject.serialize(both)
    found: Any = subject.read_native(path, GB10.as_json(), None)
    assert found["ignored"] == 0
    assert [list(plan) for plan in found["plans"]] == [["m", "n", "k", "tactic"]] * 7
    assert found["plans"] == sorted(found["plans"], key=lambda p: (p["m"], p["n"], p["k"]))


def test_a_session(subject: adapter.Adapter, tmp_path: Path, rng: random.Random) -> None:
    session = subject.open({"HOME": "/h"})["session"]
    other = subject.open({})["session"]
    path = tmp_path / "oracle"
    path.write_bytes(ORACLE)
    expected = ORACLE_METADATA.as_json()
    found: Any = subject.read_flashinfer(str(path), expected, session)
    assert subject.plans(session) == found["plans"]
    path.write_bytes(ORACLE.replace(b"Runner', ((16, ", b"Runner', ((17, "))
    with pytest.raises(Rejected):
        subject.read_flashinfer(str(path), expected, session)
    assert subject.plans(session) == found["plans"]
    counts = {"loaded": 64, "rejected": 1, "tuned": 0, "saved": 0, "lazy": 0}
    path_here = subject.resolve({"HOME": "/h"}, None)["native_path"]
    assert subject.stats(session) == {"path": path_here, "mode": "read-write", **counts}
    none = {"path": None, "mode": "process-local", **dict.fromkeys(counts, 0)}
    assert subject.stats(other) == none

    native = editable(random_document(rng, 2))
    shared = found["plans"][0]
    row = {**native["plans"][0], "m_bucket": shared["m"], "n": shared["n"], "k": shared["k"]}
    native["plans"].append({**row, "tactic_id": 31 - shared["tactic"]})
    native_path = str(tmp_path / "native")
    subject.write_native(native_path, native)
    subject.read_native(native_path, GB10.as_json(), session)
    assert subject.stats(session)["loaded"] == 66
    assert shared in subject.plans(session)

    subject.close(session)
    for call in (subject.close, subject.plans, subject.stats):
        assert verdict(call, session) == ("lifecycle", session)
    assert verdict(subject.read_native, native_path, GB10.as_json(), "x") == ("lifecycle", "x")
    assert subject.open({})["session"] not in {session, other}


def test_wrong_documents(subject: adapter.Adapter, tmp_path: Path, rng: random.Random) -> None:
    document = editable(random_document(rng))
    document["plans"][1]["tactic_id"] = 32
    expected = ("unknown-tactic", "plans[1].tactic_id")
    good = editable(random_document(rng))
    assert verdict(subject.serialize, document) == expected
    assert verdict(subject.merge, document, good) == expected
    assert verdict(subject.merge, good, document) == expected
    assert verdict(subject.write_native, str(tmp_path / "file"), document) == expected
    assert verdict(subject.serialize, None) == ("shape", "")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("operation", "arguments"),
    [
        ("bucket", {"m": "x"}),
        ("bucket", {"m": True}),
        ("bucket", {"m": 1.0}),
        ("profiles", {"maximum": None}),
        ("profiles", {"maximum": 0}),
        ("resolve", {"environment": []}),
        ("resolve", {"environment": {"HOME": 1}}),
        ("resolve", {"environment": {}, "metadata": {}}),
        ("resolve", {"environment": {}, "metadata": 7}),
        ("tactic_digest", {"tactics": {}}),
        ("tactic_digest", {"tactics": [{"id": 0}]}),
        ("read_native", {"path": 3, "expected": GB10.as_json()}),
        ("read_native", {"path": "x", "expected": None}),
        ("read_native", {"path": "x", "expected": {**GB10.as_json(), "gpu": 1}}),
        ("read_flashinfer", {"path": "x", "expected": {"gpu": "x"}}),
        ("write_native", {"path": None, "document": random_document(random.Random(1)).as_json()}),
        ("open", {"environment": None}),
        ("plans", {"session": 1}),
    ],
)
def test_a_callers_mistake_is_no_rejection(
    subject: adapter.Adapter, operation: str, arguments: dict[str, Any]
) -> None:
    with pytest.raises((TypeError, ValueError), match=r"\.$"):
        getattr(subject, operation)(**arguments)
