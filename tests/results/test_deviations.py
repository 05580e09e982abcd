"""Known deviations: a strict file, strict matching, and a writer that keeps what people wrote."""

import datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import SPEC, case, unhurried

from pytest_nvfp4.results import deviations
from pytest_nvfp4.results.deviations import Deviation, Deviations
from pytest_nvfp4.results.verdicts import NO_TRANSPORT, CaseResult, Verdict

V = Verdict
TODAY = datetime.date(2031, 5, 4)


def parse(text: str) -> Deviations:
    return deviations.parse(text, file="known.toml", specification=SPEC, today=TODAY)


def failed(contract: str, name: str = "plain", message: str = "it broke") -> CaseResult:
    return case(contract, V.FAILED, name=name, message=message)


GOOD = """
[[deviation]]
contract = "MERG-2"
reason = "Plans are kept in insertion order."

[[deviation]]
contract = "NDOC-8"
case = "tactic_id-*"
reason = "The parser rounds."
link = "https://example.org/issues/1"
expires = 2031-05-04
"""


def test_a_file_says_what_it_says() -> None:
    assert parse(GOOD).entries == (
        Deviation("MERG-2", "Plans are kept in insertion order."),
        Deviation(
            "NDOC-8",
            "The parser rounds.",
            case="tactic_id-*",
            link="https://example.org/issues/1",
            expires=TODAY,
        ),
    )
    assert [entry.number for entry in parse(GOOD).entries] == [1, 2]


def test_an_empty_file_accepts_nothing() -> None:
    assert parse("").match("MERG-2", "plain") is None


def test_matching_is_by_contract_and_by_case_glob() -> None:
    known = parse(GOOD)
    assert known.match("MERG-2", "anything [at] all") is known.entries[0]
    assert known.match("NDOC-8", "tactic_id-4.9") is known.entries[1]
    assert known.match("NDOC-8", "Tactic_id-4.9") is None
    assert known.match("NDOC-8", "n-4.9") is None
    assert known.match("NDOC-80", "tactic_id-4.9") is None


ENTRY = '[[deviation]]\ncontract = "MERG-1"\nreason = "r"\n'


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[[deviation]", "known.toml is not valid TOML"),
        ('title = "x"', "unknown member 'title'"),
        ("deviation = 1", "write each entry as [[deviation]]"),
        ("deviation = [1]", "write each entry as [[deviation]]"),
        ("[deviation]\n", "write each entry as [[deviation]]"),
        (ENTRY + 'note = "x"', "known.toml, deviation 1: 'note' is not one of contract, case"),
        (ENTRY.replace("contract", "id"), "'id' is not one of"),
        ('[[deviation]]\nreason = "r"', "deviation 1: 'contract' is missing"),
        ('[[deviation]]\ncontract = "MERG-1"', "deviation 1: 'reason' is missing"),
        (ENTRY.replace('"r"', '"  "'), "'reason' must be a string that is not empty"),
        (ENTRY.replace('"r"', "7"), "'reason' must be a string"),
        (ENTRY.replace('"MERG-1"', "1"), "'contract' must be a string"),
        (ENTRY + 'case = ""', "'case' must be a string"),
        (ENTRY + "link = true", "'link' must be a string"),
        (ENTRY + 'link = "javascript:alert(1)"', "not an http or https address"),
        (ENTRY + 'link = "https://a b"', "not an http or https address"),
        (ENTRY.replace("MERG-1", "MERG-9"), "'MERG-9' is not in specification 1.0; the nearest"),
        (ENTRY.replace("MERG-1", "MERG"), "'MERG' is not in specification 1.0"),
        (ENTRY + "expires = 2031-05-03", "it expired on 2031-05-03; repair"),
        (ENTRY + 'expires = "2031-06-01"', "'expires' must be a date"),
        (ENTRY + "expires = 2031-06-01T00:00:00Z", "'expires' must be a date"),
        (ENTRY + ENTRY, "deviation 2: it repeats deviation 1 (MERG-1, case '*'); keep one"),
        (ENTRY + 'case = "*"\n' + ENTRY, "deviation 2: it repeats deviation 1"),
        (GOOD + ENTRY.replace('"r"', '""'), "known.toml, deviation 3:"),
    ],
)
def test_a_mistake_in_the_file_is_one_sentence_that_says_where(text: str, says: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse(text)
    sentence = str(caught.value)
    assert says in sentence
    assert "known.toml" in sentence
    assert sentence.endswith(".")
    assert not sentence.endswith("..")


def test_several_globs_for_one_contract_are_no_repetition() -> None:
    assert len(parse(ENTRY + 'case = "a*"\n' + ENTRY + 'case = "b*"\n').entries) == 2


@pytest.mark.parametrize("content", [None, b"\xff"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "known.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ValueError, match=r"known\.toml cannot be read"):
        deviations.read(path, specification=SPEC, today=TODAY)


def test_only_a_covered_failure_becomes_a_known_deviation() -> None:
    broken = case("MERG-2", V.ERROR, name="b")
    applied = parse(ENTRY.replace("MERG-1", "MERG-2")).apply(
        [failed("MERG-2"), broken, failed("MERG-3")]
    )
    assert [c.verdict for c in applied] == [V.KNOWN_DEVIATION, V.ERROR, V.FAILED]
    assert applied[0].message == "r (it broke)"


@pytest.mark.parametrize(
    ("cases", "problem"),
    [
        ([], "it covers no case of this run; correct or remove the entry."),
        ([failed("MERG-2")], "it covers no case"),
        ([case("MERG-1", name="other")], "it covers no case"),
        ([case("MERG-1", name="x1")], "everything it covers passes now; remove the entry."),
        ([case("MERG-1", name="x1"), case("MERG-1", V.SKIPPED, name="x2")], "everything it covers"),
        ([case("MERG-1", name="x1"), failed("MERG-1", "x2")], None),
        ([case("MERG-1", name="x1"), case("MERG-1", V.ERROR, name="x2")], None),
        ([case("MERG-1", V.SKIPPED, name="x1")], None),
    ],
)
def test_a_stale_entry_is_an_error_of_its_contract(
    cases: list[CaseResult], problem: str | None
) -> None:
    known = parse(ENTRY + 'case = "x*"')
    applied = known.apply(cases)
    assert len(applied) == len(cases) + (problem is not None)
    if problem is not None:
        stale = applied[-1]
        assert (stale.contract, stale.transport) == ("MERG-1", NO_TRANSPORT)
        assert stale.verdict is V.ERROR
        assert stale.message.startswith("known.toml, deviation 1 (MERG-1, case 'x*'): ")
        assert problem in stale.message


def test_a_contract_of_which_not_every_case_ran_makes_no_entry_stale() -> None:
    known = parse(ENTRY)
    assert known.apply([case("MERG-1")], judged={"MERG-2"}) == (case("MERG-1"),)
    assert len(known.apply([case("MERG-1")], judged={"MERG-1"})) == 2


def test_writing_accepts_the_failures_and_keeps_what_was_written(tmp_path: Path) -> None:
    path = tmp_path / "known.toml"
    results = [
        failed("NDOC-8", "tactic_id-4.9"),
        failed("NDOC-8", "n[0]*?", message='it says "no"\nand\tstops'),
        failed("MERG-3"),
        case("MERG-2"),
        case("PUBL-1", V.ERROR),
    ]
    written = deviations.write(path, results, parse(GOOD))
    again = deviations.read(path, specification=SPEC, today=TODAY)
    assert again == written
    rounds = parse(GOOD).entries[1]
    assert again.entries == (
        Deviation("MERG-3", "Not explained yet: it broke", case="plain"),
        Deviation("NDOC-8", 'Not explained yet: it says "no" and stops', case="n[[]0][*][?]"),
        rounds,
    )
    verdicts = [c.verdict for c in again.apply(results)]
    assert verdicts == [V.KNOWN_DEVIATION] * 3 + [V.PASSED, V.ERROR]


def test_writing_twice_writes_the_same(tmp_path: Path) -> None:
    path = tmp_path / "known.toml"
    results = [failed("MERG-3"), failed("MERG-1"), failed("PUBL-10"), failed("PUBL-2")]
    first = deviations.write(path, results, Deviations())
    before = path.read_bytes()
    deviations.write(path, first.apply(results), first)
    assert path.read_bytes() == before
    assert [e.contract for e in first.entries] == ["MERG-1", "MERG-3", "PUBL-2", "PUBL-10"]


@pytest.mark.parametrize(
    ("results", "judged", "kept"),
    [
        ([], None, False),
        ([], {"MERG-2"}, True),
        ([case("MERG-1")], None, False),
        ([case("MERG-1")], {"MERG-2"}, True),
        ([case("MERG-1", V.SKIPPED)], None, True),
        ([case("MERG-1", V.ERROR)], None, True),
        ([failed("MERG-1")], None, True),
    ],
)
def test_writing_drops_an_entry_only_on_evidence(
    tmp_path: Path, results: list[CaseResult], judged: set[str] | None, kept: bool
) -> None:
    written = deviations.write(tmp_path / "known.toml", results, parse(ENTRY), judged)
    assert bool(written.entries) is kept


def test_a_stale_entry_is_not_kept_by_its_own_error(tmp_path: Path) -> None:
    known = parse(ENTRY)
    written = deviations.write(tmp_path / "known.toml", known.apply([]), known)
    assert written.entries == ()


def test_a_long_message_is_cut_to_a_reason(tmp_path: Path) -> None:
    failure = failed("MERG-1", message="long " * 10_000)
    (entry,) = deviations.write(tmp_path / "known.toml", [failure], Deviations()).entries
    assert 290 < len(entry.reason) < 330
    assert entry.reason.endswith("…")


def test_writing_escapes_a_path_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "known.toml"
    deviations.write(path, [failed("MERG-1", message="at /tmp/\udcff")], Deviations())
    (entry,) = deviations.read(path, specification=SPEC, today=TODAY).entries
    assert entry.reason == r"Not explained yet: at /tmp/\udcff"


texts = st.text(st.characters(codec="utf-8")).filter(str.strip)


@unhurried
@given(
    st.lists(
        st.builds(
            Deviation,
            contract=st.sampled_from([c.id for c in SPEC.contracts]),
            reason=texts,
            case=texts,
            link=st.none() | st.just("https://example.org/?q=\"'\\"),
            expires=st.none() | st.dates(min_value=TODAY),
        ),
        unique_by=lambda entry: (entry.contract, entry.case),
    )
)
def test_any_entry_survives_being_written(entries: list[Deviation]) -> None:
    text = deviations.dumps(Deviations(tuple(entries)))
    assert parse(text).entries == tuple(entries)
    assert text.endswith("\n")
    assert not text.endswith("\n\n\n")


@unhurried
@given(names=st.lists(texts, min_size=1, max_size=4, unique=True), other=texts)
def test_a_written_entry_covers_its_case_and_no_other(
    tmp_path_factory: pytest.TempPathFactory, names: list[str], other: str
) -> None:
    path = tmp_path_factory.mktemp("written") / "known.toml"
    written = deviations.write(path, [failed("MERG-1", name) for name in names], Deviations())
    assert all(written.match("MERG-1", name) for name in names)
    assert (written.match("MERG-1", other) is not None) == (other in names)
