"""The form of a report: the published schema says the same as the types that check reports."""

import json
from importlib import resources
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import outcome, report_of, unhurried

from pytest_nvfp4.results.report_format import malformation, schema

jsonschema = pytest.importorskip("jsonschema")
PUBLISHED = resources.files("pytest_nvfp4.results").joinpath("report.schema.json")
SCHEMA = json.loads(PUBLISHED.read_text("utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 2**54)
    | st.floats(-10, 10, allow_nan=False).filter(lambda number: not number.is_integer())
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


def test_the_published_schema_is_that_of_the_types() -> None:
    advice = (
        "python -m pytest_nvfp4.results.report_format > pytest_nvfp4/results/report.schema.json"
    )
    assert schema() == SCHEMA, f"write it again: {advice}"


@unhurried
@given(st.data(), values)
def test_schema_and_types_agree(data: st.DataObject, value: object) -> None:
    made = report_of(outcome(selected={"MERG-1", "PUBL-5"}))
    node, key = data.draw(st.sampled_from(places(made)))
    node[key] = value
    assert (malformation(made) is None) == VALIDATOR.is_valid(made)


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("run.seconds", float("nan"), "malformed at run.seconds: expected `float` >= 0.0."),
        ("run.seconds", float("inf"), "malformed at run.seconds: expected `float` <= 1000000000.0"),
        ("run.seed", True, "malformed at run.seed: expected `int`, got `bool`."),
        ("run.seed", 4.5, "malformed at run.seed: expected `int`, got `float`."),
        ("run.seed", 4.0, "malformed at run.seed: expected `int`, got `float`."),
        ("report_version", True, "malformed at report_version: expected `int`, got `bool`."),
        ("report_version", 2, "malformed at report_version: invalid enum value 2."),
        ("digest", "ab" * 32 + "\n", "malformed at digest: expected `str` matching regex"),
        ("suite", {}, "malformed at suite: object missing required field `version`."),
        ("run.x", 1, "malformed at run: object contains unknown field `x`."),
        ("deviations", [1], "malformed at deviations[0]: expected `object`, got `int`."),
    ],
)
def test_what_is_wrong_is_said_with_its_place(path: str, value: object, says: str) -> None:
    made = report_of(outcome(selected={"MERG-1"}))
    *parents, last = path.split(".")
    node: Any = made
    for parent in parents:
        node = node[parent]
    node[last] = value
    problem = malformation(made)
    assert problem is not None
    assert problem.startswith(f"The report is {says}")
    assert problem.endswith(".")
