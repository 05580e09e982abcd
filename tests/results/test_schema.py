"""The small schema checker agrees with a full implementation on what this package uses."""

import json
from importlib import resources
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import outcome, report_of, unhurried

from pytest_nvfp4.results import schema

jsonschema = pytest.importorskip("jsonschema")
SCHEMA = json.loads(
    resources.files("pytest_nvfp4.results").joinpath("report.schema.json").read_text("utf-8")
)
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 2**54)
    | st.floats(-10, 10, allow_nan=False)
    | st.text(max_size=3)
    | st.sampled_from(["passed", "must", "PATH-1", "ab" * 32, "2031-01-01", "1.0", "in process"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["id", "case", "seconds", "x"]), inner, max_size=3)
    ),
    max_leaves=4,
)


def places(data: Any) -> list[tuple[Any, Any]]:
    if not isinstance(data, dict | list):
        return []
    items = list(data.items() if isinstance(data, dict) else enumerate(data))
    return [(data, key) for key, _ in items] + [p for _, child in items for p in places(child)]


@unhurried
@given(st.data(), values)
def test_it_agrees_with_a_full_implementation(data: st.DataObject, value: object) -> None:
    made = report_of(outcome(selected={"MERG-1", "PUBL-5"}))
    node, key = data.draw(st.sampled_from(places(made)))
    node[key] = value
    assert (schema.problems(made, SCHEMA) == []) == VALIDATOR.is_valid(made)


@pytest.mark.parametrize(
    ("data", "rule", "says"),
    [
        (float("nan"), {"type": "number"}, "out of range"),
        (float("inf"), {"type": "number"}, "out of range"),
        (True, {"type": "integer"}, "not of type integer"),
        (4.5, {"type": "integer"}, "not of type integer"),
        (True, {"const": 1}, "not one of 1"),
        ("a\n", {"pattern": "^a$"}, "does not have the form"),
        ({}, {"required": ["a"]}, "lacks the member 'a'"),
        ({"b": 1}, {"additionalProperties": False}, "unknown member 'b'"),
        ([1], {"items": {"type": "string"}}, "the report[0] is not of type string"),
    ],
)
def test_what_is_wrong_is_said(data: object, rule: dict[str, Any], says: str) -> None:
    (problem,) = schema.problems(data, rule)
    assert says in problem


def test_a_keyword_that_it_does_not_know_is_no_pass() -> None:
    with pytest.raises(ValueError, match="'maxLength', which this checker does not know"):
        schema.problems("x", {"maxLength": 0})
