"""The native document: reading, rejecting, writing and merging."""

import json
import random
import subprocess
import sys
from dataclasses import fields, replace
from typing import Any

import pytest
from nvfp4_reference import Document, NativeMetadata, PlanKey, merged, native_document

from .documents import GB10, editable, edited, encoded, random_document, random_plans, verdict

METADATA = {field.name: field.type for field in fields(NativeMetadata)}
PLAN_INTEGERS = [
    "architecture",
    "device_ordinal",
    "k",
    "m_bucket",
    "n",
    "output_dtype",
    "tactic_id",
    "tactic_set_version",
]
PLAN_TEXTS = ["fp4_layout", "runner", "scale_layout"]

NO_INTEGERS: list[object] = [
    None,
    True,
    False,
    4.0,
    4.9,
    "4",
    [],
    {},
    2**31,
    -(2**31) - 1,
    4294967300,
    10**400,
]
NO_TEXTS: list[object] = [None, True, 1, 1.5, [], {}, ["x"]]


def rejection(root: Any) -> tuple[str, str]:
    return verdict(native_document.parse, encoded(root), GB10)


def test_write_then_read_is_the_identity(rng: random.Random) -> None:
    for count in (0, 1, 2, 64, 300):
        document = random_document(rng, count)
        assert native_document.parse(document.render().encode(), GB10) == document
        assert native_document.validate(document.as_json()) == document


def test_the_text_is_canonical_json(rng: random.Random) -> None:
    odd = replace(GB10, fp4_layout='a"b\\c%s{}\n\u00b5', scale_layout="{k}", gpu="\U0001f600\x7f")
    for metadata in (GB10, odd):
        for count in (0, 1, 7):
            document = Document(metadata, random_plans(rng, count))
            root = document.as_json()
            canonical = json.dumps(root, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
            assert document.render() == canonical
            assert list(root["_metadata"]) == sorted(METADATA)  # type: ignore[call-overload]
            assert native_document.validate(root) == document


def test_the_order_of_insertion_does_not_matter(rng: random.Random) -> None:
    plans = random_plans(rng, 50)
    shuffled = list(plans.items())
    rng.shuffle(shuffled)
    assert Document(GB10, dict(shuffled)).render() == Document(GB10, plans).render()
    keys = [(p["m_bucket"], p["n"], p["k"]) for p in editable(Document(GB10, plans))["plans"]]
    assert keys == sorted(keys)


def test_the_bytes_do_not_depend_on_the_process(rng: random.Random) -> None:
    script = (
        "from nvfp4_reference import *\n"
        "plans = {PlanKey(m, n, 16 * m): m % 32 for m in (1, 2, 4, 768) for n in (5, 3)}\n"
        "print(Document(NativeMetadata.of_this_machine(), plans).render())"
    )
    texts = {
        subprocess.check_output(
            [sys.executable, "-c", script], env={"PYTHONHASHSEED": str(rng.randrange(2**32))}
        )
        for _ in range(3)
    }
    assert len(texts) == 1


def test_unknown_members_are_ignored_everywhere(rng: random.Random) -> None:
    document = random_document(rng)
    root = editable(document)
    for owner in (root, root["_metadata"], root["plans"][1]):
        owner.update({"new": [1, {"x": None}], "_other": 1e300, "gpu2": "unknown"})
    assert native_document.parse(encoded(root), GB10) == document


@pytest.mark.parametrize("root", [[], None, 1, "x", True, 1.5])
def test_the_root_is_an_object(root: object) -> None:
    assert rejection(root) == ("shape", "")


@pytest.mark.parametrize("name", ["_metadata", "plans"])
@pytest.mark.parametrize("value", [None, 1, "x", True])
def test_the_members_of_the_root(rng: random.Random, name: str, value: object) -> None:
    root = editable(random_document(rng))
    root[name] = value
    assert rejection(root) == ("wrong-type", name)
    del root[name]
    assert rejection(root) == ("missing-field", name)


def test_the_two_kinds_do_not_stand_in_for_each_other(rng: random.Random) -> None:
    root = editable(random_document(rng))
    assert rejection({**root, "plans": {}}) == ("wrong-type", "plans")
    assert rejection({**root, "_metadata": []}) == ("wrong-type", "_metadata")


@pytest.mark.parametrize("name", METADATA)
def test_each_metadata_field(rng: random.Random, name: str) -> None:
    member = f"_metadata.{name}"
    for value in NO_INTEGERS if METADATA[name] is int else NO_TEXTS:
        root = editable(random_document(rng))
        root["_metadata"][name] = value
        assert rejection(root) == ("wrong-type", member), value
    root = editable(random_document(rng))
    del root["_metadata"][name]
    assert rejection(root) == ("missing-field", member)
    root["_metadata"][name] = getattr(edited(name), name)
    code = "unknown-format" if name == "format" else "foreign-environment"
    assert rejection(root) == (code, member)
    if METADATA[name] is str and name != "format":
        for vague in ("", "unknown", "None"):
            root["_metadata"][name] = vague
            assert rejection(root) == ("indeterminate-environment", member)


def test_the_output_type_id_is_a_byte(rng: random.Random) -> None:
    root = editable(random_document(rng))
    for value in (-1, 256, 258):
        root["_metadata"]["output_dtype_id"] = value
        assert rejection(root) == ("wrong-type", "_metadata.output_dtype_id")


@pytest.mark.parametrize("position", [0, 2, 4])
@pytest.mark.parametrize("name", PLAN_INTEGERS + PLAN_TEXTS)
def test_each_plan_field(rng: random.Random, name: str, position: int) -> None:
    member = f"plans[{position}].{name}"
    for value in NO_INTEGERS if name in PLAN_INTEGERS else NO_TEXTS:
        root = editable(random_document(rng))
        root["plans"][position][name] = value
        assert rejection(root) == ("wrong-type", member), value
    root = editable(random_document(rng))
    del root["plans"][position][name]
    assert rejection(root) == ("missing-field", member)


@pytest.mark.parametrize("literal", ["4.0", "4e0", "4E0", "40e-1", "4.9", "true", '"4"', "-0.0"])
def test_integers_are_json_integers(rng: random.Random, literal: str) -> None:
    for name in PLAN_INTEGERS:
        root = editable(random_document(rng))
        root["plans"][0][name] = "HERE"
        data = encoded(root).replace(b'"HERE"', literal.encode())
        expected = ("wrong-type", f"plans[0].{name}")
        assert verdict(native_document.parse, data, GB10) == expected


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("m_bucket", 0, "bad-plan"),
        ("m_bucket", 3, "bad-plan"),
        ("m_bucket", -1, "bad-plan"),
        ("m_bucket", 3000, "bad-plan"),
        ("m_bucket", 2**31 - 1, "bad-plan"),
        ("m_bucket", "*", "wrong-type"),
        ("n", 0, "bad-plan"),
        ("n", -5120, "bad-plan"),
        ("k", 0, "bad-plan"),
        ("k", -16, "bad-plan"),
        ("k", 6143, "bad-plan"),
        ("k", 8, "bad-plan"),
        ("runner", "CutlassFp4GemmRunner2", "unknown-runner"),
        ("runner", "*", "unknown-runner"),
        ("runner", "", "unknown-runner"),
        ("tactic_id", -1, "unknown-tactic"),
        ("tactic_id", 32, "unknown-tactic"),
        ("tactic_id", 2**31, "wrong-type"),
        ("architecture", 120, "bad-plan"),
        ("device_ordinal", 1, "bad-plan"),
        ("output_dtype", 4, "bad-plan"),
        ("output_dtype", 258, "wrong-type"),
        ("output_dtype", -1, "wrong-type"),
        ("fp4_layout", "*", "bad-plan"),
        ("scale_layout", "linear", "bad-plan"),
        ("tactic_set_version", 1, "bad-plan"),
    ],
)
def test_each_plan_rule(rng: random.Random, name: str, value: object, code: str) -> None:
    position = rng.randrange(5)
    root = editable(random_document(rng))
    root["plans"][position][name] = value
    assert rejection(root) == (code, f"plans[{position}].{name}")


@pytest.mark.parametrize("item", [None, 1, "x", [], True, [["k", 1]]])
def test_a_plan_is_an_object(rng: random.Random, item: object) -> None:
    root = editable(random_document(rng))
    root["plans"][3] = item
    assert rejection(root) == ("wrong-type", "plans[3]")


@pytest.mark.parametrize("tactic", [0, 31])
def test_one_shape_twice(rng: random.Random, tactic: int) -> None:
    root = editable(random_document(rng))
    root["plans"].insert(3, {**root["plans"][0], "tactic_id": tactic})
    assert rejection(root) == ("duplicate-plan", "plans[3]")


def test_a_wildcard_means_nothing(rng: random.Random) -> None:
    root = editable(random_document(rng))
    root["_metadata"]["gpu"] = "*"
    assert rejection(root) == ("foreign-environment", "_metadata.gpu")


def test_text_that_utf8_cannot_carry_is_refused_before_it_is_written(rng: random.Random) -> None:
    root = editable(random_document(rng))
    root["_metadata"]["gpu"] = "\ud800"
    assert verdict(native_document.validate, root) == ("encoding", "_metadata.gpu")


def test_the_largest_shape() -> None:
    plans = {PlanKey(2**30, 2**31 - 1, 2**31 - 16): 31}
    document = Document(GB10, plans)
    assert native_document.parse(document.render().encode(), GB10).plans == plans


# Merging


def test_prior_plans_are_kept_and_current_ones_win(rng: random.Random) -> None:
    prior, current = random_document(rng, 20), random_document(rng, 20)
    shared = {key: (tactic + 1) % 32 for key, tactic in list(prior.plans.items())[:7]}
    current = Document(GB10, {**current.plans, **shared})
    found = merged(prior, current)
    assert found.plans == {**prior.plans, **current.plans}
    assert list(found.plans) == sorted(found.plans)
    assert found.metadata == GB10


def test_merging_with_itself_or_nothing_changes_nothing(rng: random.Random) -> None:
    document = random_document(rng, 30)
    nothing = Document(GB10, {})
    for pair in ((document, document), (document, nothing), (nothing, document)):
        assert merged(*pair) == document
    assert merged(nothing, nothing) == nothing


def test_the_order_of_plans_does_not_change_a_merge(rng: random.Random) -> None:
    prior, current = random_document(rng, 30), random_document(rng, 30)
    shuffled = list(prior.plans.items())
    rng.shuffle(shuffled)
    again = merged(Document(GB10, dict(shuffled)), current)
    assert again.render() == merged(prior, current).render()


@pytest.mark.parametrize("name", [field.name for field in fields(NativeMetadata)])
def test_two_environments_do_not_merge(rng: random.Random, name: str) -> None:
    prior, current = random_document(rng), Document(edited(name), {})
    assert verdict(merged, prior, current) == ("foreign-environment", f"_metadata.{name}")
