"""The report: it satisfies its schema, is the same for the same run, and betrays every edit."""

import copy
import datetime
import hashlib
import json
import random
from collections.abc import Callable
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from samples import ALL, NOTHING, SPEC, implementation, outcome, report_of, run

from pytest_nvfp4.results import report
from pytest_nvfp4.results.deviations import Deviation
from pytest_nvfp4.results.verdicts import Verdict

V = Verdict
jsonschema = pytest.importorskip("jsonschema")

SCHEMA = json.loads(
    resources.files("pytest_nvfp4.results").joinpath("report.schema.json").read_text("utf-8")
)
OPTIONAL = {"reproduction"}
"""Members that reports of version 1 did not always have."""
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)

MIXED = {
    "MERG-1": V.FAILED,
    "MERG-2": V.KNOWN_DEVIATION,
    "NDOC-6": V.SKIPPED,
    "NDOC-14": V.ERROR,
}


def mixed() -> dict[str, Any]:
    claimed = ALL - {"options"}
    accepted = Deviation("MERG-2", "On purpose.", "pl*", expires=datetime.date(2031, 12, 31))
    return report_of(outcome(MIXED, claimed=claimed), claimed=claimed, deviations=(accepted,))


def resealed(data: dict[str, Any]) -> dict[str, Any]:
    """The report with a digest that fits, as a careful forger would leave it."""
    rest = {name: value for name, value in data.items() if name != "digest"}
    return {**rest, "digest": report.digest(rest)}


def test_the_schema_is_a_schema_with_closed_objects() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)

    def walk(node: Any) -> None:
        if isinstance(node, dict):
            if node.get("type") == "object":
                assert node["additionalProperties"] is False
                assert set(node["properties"]) - set(node["required"]) <= OPTIONAL
                assert set(node["required"]) <= set(node["properties"])
            for child in node.values():
                walk(child)

    walk(SCHEMA)


@pytest.mark.parametrize("make", [mixed, lambda: report_of(outcome()), lambda: report_of(())])
def test_a_report_satisfies_the_schema_and_verifies(make: Callable[[], dict[str, Any]]) -> None:
    made = make()
    VALIDATOR.validate(made)
    assert report.verify(made) == []
    assert report.verify(report.loads(report.dumps(made))) == []


def test_the_summary_counts_contracts_by_level() -> None:
    assert mixed()["summary"] == {
        "must": {
            "passed": 37,
            "failed": 1,
            "known_deviation": 1,
            "skipped": 0,
            "not_claimed": 9,
            "error": 0,
            "total": 48,
        },
        "should": {
            "passed": 4,
            "failed": 0,
            "known_deviation": 0,
            "skipped": 1,
            "not_claimed": 2,
            "error": 1,
            "total": 8,
        },
    }


def test_a_report_says_what_was_tested_and_how() -> None:
    made = mixed()
    assert made["suite"] == {
        "version": "0.1.0",
        "specification_version": "1.0",
        "specification_digest": SPEC.digest,
        "digest": NOTHING,
    }
    assert made["implementation"]["target"] == "toy.adapter:make"
    assert made["implementation"]["capabilities"] == sorted(ALL - {"options"})
    assert made["run"] == {
        "started": "2031-05-04T03:02:01Z",
        "seconds": 12.346,
        "seed": 81234,
        "python": "3.11.9",
        "platform": "Linux x86_64",
        "selection": "",
        "complete": True,
    }
    assert made["deviations"] == [
        {
            "contract": "MERG-2",
            "case": "pl*",
            "reason": "On purpose.",
            "link": None,
            "expires": "2031-12-31",
        }
    ]
    (failed,) = [entry for entry in made["contracts"] if entry["verdict"] == "failed"]
    assert failed["id"] == "MERG-1"
    assert failed["text"] == SPEC.contract("MERG-1").text
    assert failed["cases"][0] == {
        "case": "plain",
        "transport": "in process",
        "verdict": "failed",
        "message": "why it is failed",
        "seconds": 0.25,
        "reproducer": None,
    }


def test_the_text_is_deterministic_and_ends_in_one_line_feed() -> None:
    text = report.dumps(mixed())
    assert text == report.dumps(mixed())
    assert text.endswith("}\n")
    assert list(json.loads(text)) == [*SCHEMA["required"]]


def test_the_start_is_given_in_utc() -> None:
    zone = datetime.timezone(datetime.timedelta(hours=5, minutes=30))
    started = datetime.datetime(2031, 5, 4, 1, 0, 0, 999999, tzinfo=zone)
    keywords: dict[str, Any] = {
        "implementation": implementation(),
        "suite_version": "0",
        "suite_digest": NOTHING,
    }
    made = report.build(SPEC, (), run=replace(run(), started=started), **keywords)
    assert made["run"]["started"] == "2031-05-03T19:30:00Z"
    with pytest.raises(ValueError, match="no time zone"):
        report.build(SPEC, (), run=replace(run(), started=started.replace(tzinfo=None)), **keywords)
    with pytest.raises(ValueError, match=r"at run\.seed: expected `int` <= 9007199254740991"):
        report.build(SPEC, (), run=replace(run(), seed=2**53), **keywords)


@pytest.mark.parametrize(
    ("selected", "whole", "complete"),
    [(None, True, True), (None, False, False), ({"MERG-1"}, True, False), (set(), True, False)],
)
def test_a_run_is_complete_if_it_was_whole_and_selected_everything(
    selected: set[str] | None, whole: bool, complete: bool
) -> None:
    made = report_of(outcome(selected=selected), whole=whole)
    assert made["run"]["complete"] is complete


def test_the_identity_depends_on_the_implementation_and_not_on_what_was_typed() -> None:
    one, two = implementation(), replace(implementation(), target="other:name")
    three = replace(one, version="0.4")
    made = [
        report.build(
            SPEC, (), implementation=i, run=run(), suite_version="0", suite_digest=NOTHING
        )["implementation"]["identity"]
        for i in (one, two, three)
    ]
    assert made[0] == made[1] != made[2]


def test_results_come_back_out_of_a_report() -> None:
    results = outcome(MIXED)
    back = report.contract_results(report_of(results))
    assert [(r.contract.id, r.verdict, r.cases) for r in back] == [
        (r.contract.id, r.verdict, r.cases) for r in results
    ]


def test_a_reproduction_is_carried_where_there_is_one() -> None:
    results = outcome({"MERG-1": V.FAILED})
    (failed,) = [r for r in results if r.contract.id == "MERG-1"]
    shown = replace(failed.cases[0], reproduction="document, 2 bytes:\n{}")
    results = tuple(replace(r, cases=(shown, *r.cases[1:])) if r is failed else r for r in results)
    made = report_of(results)
    VALIDATOR.validate(made)
    assert report.verify(made) == []
    cases = [c for entry in made["contracts"] for c in entry["cases"]]
    assert [c["reproduction"] for c in cases if "reproduction" in c] == ["document, 2 bytes:\n{}"]
    assert [r.cases for r in report.contract_results(made)] == [r.cases for r in results]


def test_hostile_text_is_carried_and_not_believed() -> None:
    name = '<script>alert("1")</script>\x1b[2J\udcff\u202e'
    made = report_of(outcome(), name=name)
    VALIDATOR.validate(made)
    text = report.dumps(made)
    text.encode("utf-8")
    assert report.loads(text)["implementation"]["name"] == name.replace("\udcff", r"\udcff")
    assert report.verify(report.loads(text)) == []


def change(path: str, value: object) -> Callable[[dict[str, Any]], None]:
    def apply(data: Any) -> None:
        *parents, last = [int(p) if p.isdigit() else p for p in path.split("/")]
        for parent in parents:
            data = data[parent]
        data[last] = value

    return apply


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("suite/version", "9.9.9", ""),
        ("contracts/0/verdict", "failed", "PATH-1 is called failed, but its cases make it passed"),
        ("contracts/0/cases", [], "PATH-1 is called passed, but its cases make it skipped"),
        ("contracts/0/cases/0/verdict", "error", "its cases make it error"),
        ("contracts/0/text", "Anything goes.", "PATH-1 is not as specification 1.0 has it"),
        ("contracts/0/level", "should", "PATH-1 is not as specification 1.0 has it"),
        ("contracts/0/area", "PUBL", "PATH-1 is listed under the area PUBL"),
        ("contracts/0/id", "PATH-2", "PATH-2 is listed twice"),
        ("contracts/0/id", "PATH-99", "PATH-99 is not as specification 1.0 has it"),
        ("contracts", [], "complete, but it lacks BUCK-1"),
        ("summary/must/passed", 49, "The summary of must does not add up"),
        ("summary/should/total", 9, "The summary of should does not add up"),
        ("implementation/version", "0.4", "identity does not match"),
        ("suite/specification_digest", NOTHING, "another text of specification 1.0"),
    ],
)
def test_an_edit_is_found(path: str, value: object, says: str) -> None:
    made = report_of(outcome())
    change(path, value)(made)
    assert "The report's digest does not match its content; it was altered." in report.verify(made)
    left = report.verify(resealed(made))
    assert any(says in problem for problem in left) if says else left == []


def test_a_capability_that_appears_or_vanishes_is_found() -> None:
    made = report_of(outcome(claimed=ALL - {"merge"}), claimed=ALL - {"merge"})
    made["implementation"]["capabilities"] = sorted(ALL)
    problems = report.verify(resealed(made))
    assert any("MERG-1 is called not claimed" in problem for problem in problems)


def test_a_report_of_another_specification_is_judged_by_itself_alone() -> None:
    made = report_of(outcome(selected={"MERG-1"}))
    made["suite"]["specification_version"] = "0.9"
    made["contracts"][0]["text"] = "An older wording."
    made["suite"]["specification_digest"] = NOTHING
    assert report.verify(resealed(made)) == []


def leaves(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(data, dict | list):
        items = list(data.items() if isinstance(data, dict) else enumerate(data))
        return [path, *(p for key, child in items for p in leaves(child, (*path, key)))]
    return [path]


STRANGE: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    1.5,
    1e999,
    float("nan"),
    "",
    "x\n",
    "*",
    [],
    {},
    [[]],
    {"a": 1},
)


def test_every_mutation_is_found_and_none_crashes_the_check() -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    source = random.Random(seed)
    original = mixed()
    paths = leaves(original)
    for _ in range(300):
        made = copy.deepcopy(original)
        *parents, last = source.choice(paths[1:])
        node: Any = made
        for parent in parents:
            node = node[parent]
        value = source.choice(STRANGE)
        if source.random() < 0.3:
            del node[last]
        elif isinstance(node, dict) and source.random() < 0.2:
            node[last + "_"] = value
        else:
            node[last] = value
        if json.dumps(made) != json.dumps(original):
            assert report.verify(made) != [], (parents, last, value)


def test_a_run_that_started_at_no_time_is_found() -> None:
    made = report_of(outcome())
    made["run"]["started"] = "2031-02-30T03:02:01Z"
    assert report.verify(resealed(made)) == ["The run cannot have started at 2031-02-30T03:02:01Z."]


@pytest.mark.parametrize("data", [*STRANGE, [mixed()]], ids=repr)
def test_data_that_is_no_report_is_a_problem_and_no_crash(data: object) -> None:
    assert report.verify(data) != []


@pytest.mark.parametrize(
    "text",
    ["", "{", '{"a": 1, "a": 2}', '{"a": NaN}', "[" * 200_000, "9" * 5000, '{"a": 1} x'],
    ids=["empty", "cut", "repeated", "nan", "deep", "long", "trailing"],
)
def test_text_that_is_no_report_is_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(ValueError, match=r"^The report is not valid JSON: .*\.$"):
        report.loads(text)


def test_the_suite_digest_covers_names_and_bytes_of_the_suite_only(tmp_path: Path) -> None:
    for name in ("contracts.toml", "test_a.py", "test_b.py"):
        (tmp_path / name).write_text(name)
    first = report.suite_digest(tmp_path)
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "test_a.pyc").write_bytes(b"x")
    (tmp_path / "CONTRACTS.md").write_text("generated")
    (tmp_path / ".test_a.py.swp").write_text("editor")
    assert report.suite_digest(tmp_path) == first
    (tmp_path / "test_b.py").rename(tmp_path / "test_c.py")
    second = report.suite_digest(tmp_path)
    (tmp_path / "test_a.py").write_text("other")
    third = report.suite_digest(tmp_path)
    (tmp_path / "contracts.toml").write_text("other")
    assert len({first, second, third, report.suite_digest(tmp_path)}) == 4


def test_the_packaged_suite_has_a_digest() -> None:
    assert len(report.suite_digest()) == len(hashlib.sha256().hexdigest())


def test_a_report_is_written_as_it_prints(tmp_path: Path) -> None:
    path = tmp_path / "new" / "report.json"
    report.write(path, mixed())
    assert path.read_bytes() == report.dumps(mixed()).encode("utf-8")
