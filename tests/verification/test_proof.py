"""Reports and badges are proven against suite, contracts, deviations and subject."""

import datetime
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from samples import ALL, NOTHING, SPEC, implementation, outcome, report_of

from pytest_nvfp4.results import deviations, report
from pytest_nvfp4.results.deviations import Deviation, Deviations
from pytest_nvfp4.results.report import Implementation
from pytest_nvfp4.results.verdicts import Verdict
from pytest_nvfp4.verification import proof
from pytest_nvfp4.views import badge

ACCEPTED = (Deviation("MERG-2", "On purpose.", expires=datetime.date(2031, 5, 4)),)


@pytest.fixture(autouse=True)
def suite_at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof, "packaged", lambda: SPEC)
    monkeypatch.setattr("pytest_nvfp4.__version__", "0.1.0")
    monkeypatch.setattr("pytest_nvfp4.results.report.suite_digest", lambda: NOTHING)


def made() -> dict[str, Any]:
    results = outcome({"MERG-2": Verdict.KNOWN_DEVIATION})
    return report_of(results, deviations=ACCEPTED)


def resealed(data: dict[str, Any]) -> dict[str, Any]:
    rest = {name: value for name, value in data.items() if name != "digest"}
    return {**rest, "digest": report.digest(rest)}


@pytest.fixture
def file(tmp_path: Path) -> Callable[..., str]:
    def write(content: object, name: str = "report.json") -> str:
        path = tmp_path / name
        path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
        return str(path)

    return write


def problems(*files: str, **given: Any) -> list[str]:
    return [sentence for _, found in proof.verify(files, **given) for sentence in found]


def test_a_report_of_this_suite_is_proven(file: Callable[..., str]) -> None:
    assert problems(file(made())) == []


@pytest.mark.parametrize(
    ("member", "value", "says"),
    [
        ("version", "9.9", "made by pytest-nvfp4 9.9 and this is 0.1.0; verify it with that"),
        ("digest", "11" * 32, "have the digest 111111111111…, but those of this package have 0000"),
        ("specification_version", "0.9", "about specification 0.9, but this package holds 1.0."),
        ("specification_digest", "22" * 32, "made with another text of specification 1.0."),
    ],
)
def test_each_mismatch_with_the_suite_is_one_sentence(
    file: Callable[..., str], member: str, value: str, says: str
) -> None:
    data = made()
    data["suite"][member] = value
    (sentence,) = problems(file(resealed(data)))
    assert says in sentence


def test_an_altered_report_is_found_whatever_else_it_says(file: Callable[..., str]) -> None:
    data = made()
    data["run"]["seed"] += 1
    (sentence,) = problems(file(data))
    assert "it was altered" in sentence


def test_a_known_deviation_needs_an_entry(file: Callable[..., str]) -> None:
    data = made()
    data["deviations"] = []
    (sentence,) = problems(file(resealed(data)))
    assert sentence.startswith("MERG-2, case 'plain', is called a known deviation, but no")


@pytest.mark.parametrize(
    ("entries", "says"),
    [
        (ACCEPTED, None),
        ((), "The run accepted MERG-2 (case '*'), which {} does not."),
        (
            (*ACCEPTED, Deviation("MERG-1", "More.")),
            "{} accepts MERG-1 (case '*'), which the run was not given.",
        ),
        (
            (Deviation("MERG-2", "By mistake.", expires=ACCEPTED[0].expires),),
            "The run was given MERG-2 (case '*') with another reason, link or date than {}.",
        ),
        (
            (Deviation("MERG-2", "On purpose."),),
            "The run was given MERG-2 (case '*') with another reason, link or date than {}.",
        ),
    ],
)
def test_deviations_are_compared_as_they_were_on_the_day_of_the_run(
    file: Callable[..., str], entries: tuple[Deviation, ...], says: str | None
) -> None:
    toml = file(deviations.dumps(Deviations(entries)), "known.toml")
    expected = [] if says is None else [says.format(toml)]
    assert problems(file(made()), accepted=toml) == expected


def test_the_subject_is_compared_with_what_it_says_now(file: Callable[..., str]) -> None:
    def of(**changed: Any) -> list[str]:
        own = {name: getattr(implementation(), name) for name in Implementation.__slots__}
        return problems(file(made()), own=Implementation(**{**own, **changed}))

    assert of() == of(target="typed otherwise") == []
    assert of(version="0.4", target="x:y") == [
        "The report is of the version '0.3', but x:y says '0.4'."
    ]
    assert of(capabilities=ALL - {"merge"} | {"gpu"}, target="x:y") == [
        "In the report it claims merge, which x:y does not claim now.",
        "x:y claims gpu, which it did not in the report.",
    ]


@pytest.mark.parametrize("form", [badge.svg, badge.endpoint])
def test_a_badge_is_proven_by_its_report(
    file: Callable[..., str], form: Callable[[badge.Badge], str]
) -> None:
    data = made()
    earned = badge.from_report(data)
    mine = file(form(earned), "mine.badge")
    assert problems(file(data), mine) == problems(mine, file(data)) == []
    better = form(badge.Badge(earned.message.replace("47/48", "48/48"), "green"))
    (sentence,) = problems(file(data), file(better, "better.badge"))
    assert "It says 'nvfp4 plan cache: writer · MUST 48/48" in sentence
    assert "but the report earns 'nvfp4 plan cache: writer · MUST 47/48" in sentence
    greener = form(badge.Badge(earned.message, "green"))
    (sentence,) = problems(file(data), file(greener, "greener.badge"))
    assert "its colour, flags or drawing are not the report's" in sentence


def test_a_badge_of_a_report_that_is_not_proven_is_not_proven(file: Callable[..., str]) -> None:
    data = made()
    mine = file(badge.svg(badge.from_report(data)), "mine.svg")
    data["suite"]["digest"] = "11" * 32
    found = dict(proof.verify([file(resealed(data)), mine]))
    assert found[mine] == [f"Nothing can be said of it, since {file(data)} is not proven."]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "is not a report: The report is not valid JSON"),
        ("[]", "is not a conformance report; it has no member report_version"),
        ('{"report_version": 2}', "has report version 2, but this is a reader of version 1"),
        ('{"report_version": true}', "has report version True"),
        ('{"schemaVersion": 1, "label": "x", "message": "y"}', "there are 0 reports; name exactly"),
        ("<svg>", "is not a report"),
    ],
)
def test_what_is_no_report_is_refused_in_one_sentence(
    file: Callable[..., str], content: str, says: str
) -> None:
    with pytest.raises(ValueError, match=r"^[^\n]+$") as error:
        problems(file(content))
    assert says in str(error.value)


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "latin").write_bytes(b"\xe4")
    for name, says in (
        ("absent", "No such file"),
        ("fifo", "is not a regular file"),
        ("latin", "is not UTF-8 text"),
        (".", "directory"),
    ):
        with pytest.raises(ValueError, match=says):
            problems(str(tmp_path / name))
