"""The published schema and the typed values say the same about every message."""

import copy
import json
import random
from pathlib import Path

import jsonschema
import pytest

from pytest_nvfp4 import oracle
from pytest_nvfp4.implementations import schema, stubs
from pytest_nvfp4.implementations.loader import load
from pytest_nvfp4.implementations.messages import NotAnIntegerError, Rejected
from pytest_nvfp4.implementations.operations import CAPABILITIES, OPERATIONS
from pytest_nvfp4.implementations.plain_data import decode, encode
from pytest_nvfp4.model import documents
from pytest_nvfp4.plans import TACTICS

SCHEMA = json.loads(schema.packaged())


CLOCK = {"default": 100, "5": 1.5}


def test_the_published_schema_is_that_of_the_declared_operations():
    assert schema.packaged() == schema.text(), (
        "interface.schema.json is out of date: nvfp4-conformance schema > it"
    )


def test_the_published_table_is_that_of_the_declared_operations():
    table = Path(__file__).parents[2] / "conformance" / "OPERATIONS.md"
    assert table.read_text() == stubs.table(), (
        "OPERATIONS.md is out of date: nvfp4-conformance schema --table > it"
    )


def validator(definition: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(
        {"$ref": f"#/$defs/{definition}", "$defs": SCHEMA["$defs"]}
    )


def calls(folder):
    """One good call of every operation, in an order that works."""
    adapter = load("reference").make_adapter()
    description = adapter.describe()
    metadata = description["native_metadata"]
    plans = oracle.load().plans
    document = documents.native(metadata, plans)
    native, imported = folder / "native.json", folder / "import.json"
    native.write_bytes(documents.native_bytes(document))
    imported.write_bytes(oracle.load().document)
    session = adapter.open(environment={"HOME": str(folder)})["session"]
    environment = {"HOME": str(folder)}
    expected = dict(oracle.load().metadata)
    arguments = {
        "describe": {},
        "resolve": {"environment": environment, "metadata": metadata},
        "bucket": {"m": 300},
        "profiles": {"maximum": 300},
        "tactic_digest": {"tactics": encode(TACTICS)},
        "read_native": {"path": str(native), "expected": metadata, "session": session},
        "read_flashinfer": {"path": str(imported), "expected": expected, "session": None},
        "serialize": {"document": document},
        "merge": {"prior": document, "current": document},
        "write_native": {"path": str(folder / "new.json"), "document": document},
        "open": {"environment": environment},
        "warm_up": {"session": session, "max_tokens": 4, "shapes": [[256, 128]], "timings": CLOCK},
        "complete": {"session": session},
        "abandon": {"session": session},
        "plan": {
            "session": session,
            "m": 9,
            "n": 256,
            "k": 128,
            "capturing": False,
            "timings": CLOCK,
        },
        "plan_many": {
            "session": session,
            "requests": [[64, 256, 128], [32, 256, 128], [64, 256, 128]],
            "load": None,
            "timings": CLOCK | {"default": "raise"},
        },
        "plans": {"session": session},
        "stats": {"session": session},
        "trace": {"session": session},
        "times": {"session": session},
        "fingerprint": {"session": session},
        "close": {"session": session},
        "gemm": {"m": 1, "n": 16, "k": 16, "tactic": 3, "seed": 1, "direct_sf": True},
        "replay": {"m": 1, "n": 16, "k": 32, "tactic": 3, "seed": 1},
    }
    for operation, given in arguments.items():
        yield operation, given, getattr(adapter, operation)(**copy.deepcopy(given))
    yield "describe", {}, on_a_gpu(description)


def on_a_gpu(description, architecture=90):
    """What the reference would say of itself on a GPU."""
    return description | {
        "capabilities": [*description["capabilities"], "device"],
        "native_metadata": description["native_metadata"] | {"architecture": architecture},
    }


def answered(operation, data):
    return decode(data, OPERATIONS[operation].result)


def decodes(operation, data) -> bool:
    try:
        answered(operation, data)
    except (ValueError, NotAnIntegerError):
        return False
    return True


def test_schema_is_a_schema_and_names_every_operation():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert set(SCHEMA["$defs"]["answers"]) == set(OPERATIONS)
    requests = SCHEMA["$defs"]["request"]["oneOf"]
    assert {r["properties"]["op"]["enum"][0]: r["required"][2:] for r in requests} == {
        name: list(operation.parameters) for name, operation in OPERATIONS.items()
    }
    claims = SCHEMA["$defs"]["Description"]["properties"]["capabilities"]["items"]["enum"]
    assert set(claims) == set(CAPABILITIES)
    assert {op for ops in CAPABILITIES.values() for op in ops} | {"describe"} == set(OPERATIONS)


def test_real_traffic_is_valid_in_both_directions(tmp_path):
    seen = set()
    for operation, given, answer in calls(tmp_path):
        validator("request").validate({"seq": 1, "op": operation, **given})
        validator("reply").validate({"seq": 1, "ok": answer})
        validator(f"answers/{operation}").validate(answer)
        answered(operation, answer)
        seen.add(operation)
    assert seen == set(OPERATIONS)


ODD_VALUES = (None, True, 7, -1, 1.5, "", "x", "0123456789abcdef", [], {}, [1, 2, 3], {"a": 1})


def mutated(data, rng):
    """The data with one thing changed, anywhere in it."""
    data = copy.deepcopy(data)
    places = [(None, None)]

    def walk(value):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, child in list(items):
            places.append((value, key))
            if isinstance(child, dict | list):
                walk(child)

    if isinstance(data, dict | list):
        walk(data)
    owner, key = rng.choice(places)
    if owner is None:
        return rng.choice(ODD_VALUES)
    what = rng.choice(["delete", "replace", "replace", "add"])
    if what == "delete":
        del owner[key]
    elif what == "replace":
        owner[key] = rng.choice(ODD_VALUES)
    elif isinstance(owner, dict):
        owner[rng.choice(["new", "plans", "m"])] = rng.choice(ODD_VALUES)
    else:
        owner.append(rng.choice(ODD_VALUES))
    return data


def test_decoders_and_schema_agree_about_damaged_answers(tmp_path):
    seed = random.SystemRandom().randrange(2**32)
    print("seed", seed)
    rng = random.Random(seed)
    verdicts = set()
    for operation, _, answer in calls(tmp_path):
        if isinstance(answer, dict) and isinstance(answer.get("plans"), list):
            del answer["plans"][3:]  # small, so that every mutation has its chance
        judge = validator(f"answers/{operation}")
        for _ in range(150):
            data = mutated(answer, rng)
            valid = judge.is_valid(data)
            assert decodes(operation, data) == valid, (operation, data)
            verdicts.add((operation, valid))
    assert len(verdicts) > len(OPERATIONS), "the mutations broke too little to say anything"


@pytest.mark.parametrize(
    ("data", "good"),
    [
        ({"code": "syntax", "member": "", "message": "no"}, True),
        ({"code": "", "member": "", "message": "no"}, False),
        ({"code": "syntax", "member": "", "message": " "}, False),
        ({"code": "syntax", "member": None, "message": "no"}, False),
        ({"code": "syntax", "message": "no"}, False),
        ({"code": "syntax", "member": "", "message": "no", "extra": 1}, False),
        ("syntax", False),
    ],
)
def test_rejections(data, good):
    assert validator("Rejected").is_valid(data) == good
    if good:
        assert isinstance(decode(data, Rejected), Rejected)
    else:
        with pytest.raises(ValueError, match="."):
            decode(data, Rejected)


def test_a_repeated_plan_key_is_an_error_that_a_schema_cannot_say():
    row = {"m": 1, "n": 2, "k": 16, "tactic": 0}
    with pytest.raises(ValueError, match="twice"):
        answered("plans", [row, dict(row, tactic=1)])


@pytest.mark.parametrize("architecture", [0, -1, "90", None])
def test_no_device_without_a_gpu(architecture):
    description = load("reference").make_adapter().describe()
    claim = on_a_gpu(description, architecture)
    if architecture is None:
        claim["native_metadata"] = None
        claim["capabilities"].remove("native-document")
    assert not validator("answers/describe").is_valid(claim)
    with pytest.raises(ValueError, match=r"architecture is .*; give the GPU's, as in 90, or claim"):
        answered("describe", claim)


@pytest.mark.parametrize(
    ("data", "good"),
    [
        ({}, True),
        ({"0": 12.5, "31": 0}, True),
        ({"32": 1}, False),
        ({"05": 1}, False),
        ({"-1": 1}, False),
        ({"0": -1e-9}, False),
        ({"0": None}, False),
        ({"0": True}, False),
        ({"0": "1"}, False),
        ([1], False),
    ],
)
def test_times(data, good):
    assert validator("answers/times").is_valid(data) == good == decodes("times", data)
    if good:
        assert answered("times", data) == {int(name): float(mean) for name, mean in data.items()}


@pytest.mark.parametrize("value", ["NaN", "Infinity", "1e999", "1" + "0" * 400])
def test_a_time_that_no_double_holds_is_an_error_that_a_schema_cannot_say(value):
    with pytest.raises(ValueError, match=r"0 is |Number out of range"):
        answered("times", json.loads(f'{{"0": {value}}}'))
