"""On GitHub Actions: annotations that cannot break out of their line, a summary that fits."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import ALL, SPEC, case, implementation, outcome, run, unhurried

from pytest_nvfp4.results.verdicts import ContractResult, Verdict, aggregate
from pytest_nvfp4.views import github
from pytest_nvfp4.views.github import Place

V = Verdict

COMMAND = re.compile(r"::(error|warning) ([^:]*)::(.*)")


def parsed(line: str) -> tuple[str, dict[str, str], str]:
    """A workflow command as the runner reads it."""
    match = COMMAND.fullmatch(line)
    assert match, line
    properties = dict(pair.split("=", 1) for pair in match[2].split(","))

    def plain(text: str) -> str:
        for code, char in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
            text = text.replace(code, char)
        return text

    return match[1], {name: plain(value) for name, value in properties.items()}, plain(match[3])


def summary(results: tuple[ContractResult, ...], limit: int = github.SUMMARY_LIMIT - 1) -> str:
    return github.summary(SPEC, results, implementation=implementation(), run=run(), limit=limit)


def failing(
    message: str, *, contract: str = "NDOC-4", cases: int = 1
) -> tuple[ContractResult, ...]:
    made = [
        case(contract, V.FAILED, name=f"case{number}", message=message) for number in range(cases)
    ]
    return aggregate(SPEC, made, claimed=ALL)


def test_each_failed_contract_is_annotated_where_the_adapter_is_written() -> None:
    found = outcome(
        {"NDOC-4": V.FAILED, "PUBL-5": V.FAILED, "MERG-1": V.ERROR, "BUCK-1": V.SKIPPED}
    )
    lines = [parsed(line) for line in github.annotations(found, Place("src/adapter.py", 12))]
    assert [(level, told["title"]) for level, told, _ in lines] == [
        ("error", "NDOC-4 failed"),
        ("error", "MERG-1 error"),
        ("warning", "PUBL-5 failed"),
    ]
    assert all((told["file"], told["line"]) == ("src/adapter.py", "12") for _, told, _ in lines)
    assert lines[0][2].endswith("in process: plain: why it is failed")


def test_a_run_without_failures_is_not_annotated() -> None:
    accepted = outcome({"NDOC-4": V.KNOWN_DEVIATION, "BUCK-1": V.SKIPPED})
    assert github.annotations(accepted, Place("a.py")) == []
    assert github.annotations((), None) == []


def test_without_a_place_the_annotation_has_none() -> None:
    (line,) = github.annotations(failing("no"), None)
    assert parsed(line)[1].keys() == {"title"}


@pytest.mark.parametrize("level", ["must", "should"])
def test_no_more_annotations_than_are_shown_and_the_rest_is_named(level: str) -> None:
    ids = [contract.id for contract in SPEC.contracts if contract.level == level]
    for number in (1, 10, 11, len(ids)):
        chosen = ids[:number]
        lines = github.annotations(outcome(dict.fromkeys(chosen, V.FAILED)), None)
        assert len(lines) == min(len(chosen), 10)
        if len(chosen) > 10:
            _, told, message = parsed(lines[-1])
            assert told["title"] == f"{len(chosen) - 9} more contracts"
            assert message.split(", ") == chosen[9:]


@unhurried
@given(st.text(max_size=60), st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
def test_no_text_breaks_out_of_its_annotation(message: str, file: str) -> None:
    hostile = f"{message}\n::stop-commands::x\r\n%0A::add-mask::,:%"
    (line,) = github.annotations(failing(hostile), Place(file))
    assert "\n" not in line
    assert "\r" not in line
    _, told, shown = parsed(line)
    assert told["file"] == file
    assert told["title"] == "NDOC-4 failed"
    assert "::add-mask::" in shown


def test_summary_has_a_table_of_the_areas_and_tells_what_is_not_passed() -> None:
    text = summary(outcome({"NDOC-4": V.FAILED, "PUBL-4": V.SKIPPED, "MERG-1": V.KNOWN_DEVIATION}))
    lines = text.splitlines()
    rows = [line for line in lines if line.startswith("|")]
    assert len({line.count("|") for line in rows}) == 1
    assert len(rows) == 2 + len(SPEC.areas) + 1
    total = len(SPEC.contracts) - 3
    assert rows[-1] == f"| **all** | {total} | 1 |  | 1 | 1 |  |"
    assert [line.split(" (")[0] for line in lines if line.startswith("**") and "-" in line] == [
        "**NDOC-4** failed",
        "**MERG-1** known deviation",
        "**PUBL-4** skipped",
    ]
    assert "why it is skipped" in text


def test_summary_of_a_run_where_all_is_well_is_only_the_table() -> None:
    assert summary(outcome()).rstrip().endswith("|")


@pytest.mark.parametrize(
    "hostile",
    [
        "</details><img src=x onerror=alert(1)>",
        "`code` **bold** [link](http://x) ![i](x) | cell | @somebody #1 ~~x~~",
        "one\n\n# heading\n| a | b |\n```\n",
        "\x1b[31mred\u202e",
    ],
)
def test_text_in_the_summary_is_text(hostile: str) -> None:
    text = summary(failing(hostile))
    line = next(line for line in text.splitlines() if line.startswith("- in process"))
    assert not re.search(r"[<>`*\[\]|@~\x1b\u202e]", line)
    assert len([line for line in text.splitlines() if line.startswith("- ")]) == 1
    assert not re.search(r"#(?!\d+;)", line)


def test_many_cases_are_counted() -> None:
    text = summary(failing("no", cases=12))
    assert sum(line.startswith("- in process") for line in text.splitlines()) == 5
    assert "- and 7 more cases" in text


def test_summary_never_passes_its_limit_and_says_what_it_leaves_out() -> None:
    results = outcome({contract.id: V.FAILED for contract in SPEC.contracts})
    results = tuple(
        replace(r, cases=tuple(replace(c, message="µ<" * 5000) for c in r.cases)) for r in results
    )
    whole = summary(results, 10**9)
    size = len(whole.encode())
    assert summary(results, size) == whole
    for limit in (size - 1, size // 2, size // 3, 5000, 2500):
        text = summary(results, limit)
        assert len(text.encode()) <= limit
        told = re.search(r"(\d+) more contracts? (?:is|are) in the report", text)
        assert told
        assert text.count("\n**") - 1 + int(told[1]) == len(SPEC.contracts)
    assert summary(results, 100) == ""


def test_what_is_on_the_page_already_counts(tmp_path: Path) -> None:
    page = tmp_path / "summary.md"
    assert github.room(page) == 2**20 - 1
    github.append_summary(page, "µ")
    github.append_summary(page, "x")
    assert page.read_text(encoding="utf-8") == "µx"
    assert github.room(page) == 2**20 - 4
    page.write_bytes(b"x" * 2**21)
    assert github.room(page) == 0


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, (False, None)),
        ({"GITHUB_ACTIONS": "true"}, (True, None)),
        ({"GITHUB_ACTIONS": "false", "GITHUB_STEP_SUMMARY": ""}, (False, None)),
        ({"GITHUB_STEP_SUMMARY": "/x/y"}, (False, Path("/x/y"))),
    ],
)
def test_only_where_github_asks(
    environment: dict[str, str], expected: tuple[bool, Path | None]
) -> None:
    assert github.wanted(environment) == expected
