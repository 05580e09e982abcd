"""The terminal summary, as it looks."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import ALL, SPEC, case, implementation, outcome, run, unhurried

from pytest_nvfp4.results.verdicts import (
    IN_PROCESS,
    JSON_LINES,
    NO_TRANSPORT,
    CaseResult,
    ContractResult,
    Verdict,
    aggregate,
)
from pytest_nvfp4.text import columns
from pytest_nvfp4.views import marks, table

V = Verdict


def shown(
    results: tuple[ContractResult, ...],
    *,
    width: int | None = 80,
    ascii_only: bool = False,
    whole: bool = True,
    name: str = "toy-cache",
) -> list[marks.Line]:
    return table.lines(
        SPEC,
        results,
        implementation=implementation(name),
        run=run(whole=whole),
        width=width,
        ascii_only=ascii_only,
    )


def changed(
    cases: Mapping[str, list[CaseResult]], claimed: Collection[str] = ALL
) -> tuple[ContractResult, ...]:
    """Everything claimed passed over both transports; the contracts given have these cases."""
    found = [
        one
        for contract in SPEC.contracts
        if contract.capability in claimed
        for one in cases.get(
            contract.id, [case(contract.id), case(contract.id, transport=JSON_LINES)]
        )
    ]
    return aggregate(SPEC, found, claimed=claimed)


def golden(text: str) -> str:
    return dedent(text).removeprefix("\n")


def test_a_run_without_a_blemish_is_short() -> None:
    assert marks.plain(shown(outcome())) == golden("""
        toy-cache 0.3 (C++) against specification 1.0

                                           in process       JSON lines
                                         MUST  SHOULD     MUST  SHOULD
        ✓ PATH  Options and location      9/9     2/2      9/9     2/2
        ✓ BUCK  M buckets                 3/3       ·      3/3       ·
        ✓ TACT  Tactic numbering          2/2       ·      2/2       ·
        ✓ NDOC  Native document         15/15     2/2    15/15     2/2
        ✓ FIMP  FlashInfer import       11/11       ·    11/11       ·
        ✓ MERG  Merge                     3/3       ·      3/3       ·
        ✓ PUBL  Publication               5/5     4/4      5/5     4/4
        ──────────────────────────────────────────────────────────────
        ✓ all   56 contracts            48/48     8/8    48/48     8/8

        56 passed; 112 cases in 12.3 s, seed 81234
        Badge: writer · MUST 48/48 · SHOULD 8/8 · v1.0 (green)
        """)


BAD = {
    "NDOC-8": [
        case(
            "NDOC-8",
            V.FAILED,
            name="tactic_id-4.9",
            transport=JSON_LINES,
            message="expected a rejection with code wrong-type at plans[0].tactic_id, "
            "but the document was read and gave 1 plan with tactic 4",
            reproducer="nvfp4-reproducers/NDOC-8--tactic_id-4.9.json",
        ),
        case("NDOC-8", name="tactic_id-4.9"),
    ],
    "NDOC-14": [case("NDOC-14", V.SKIPPED, message="less than 1 GB of memory is free")],
    "MERG-2": [
        case("MERG-2", V.KNOWN_DEVIATION, message="Kept in insertion order. (2 of 9 differ)"),
        case("MERG-2", transport=JSON_LINES),
    ],
    "PUBL-1": [
        case("PUBL-1", V.SKIPPED, message="only seen from outside the process"),
        case("PUBL-1", transport=JSON_LINES),
    ],
    "PUBL-4": [case("PUBL-4", V.SKIPPED, name=n, message="strace is not installed") for n in "ab"],
    "PUBL-5": [],
    "PUBL-12": [
        case("PUBL-12"),
        case(
            "PUBL-12",
            V.ERROR,
            name="deviation 1",
            transport=NO_TRANSPORT,
            message="known.toml, deviation 1 (PUBL-12, case '*'): everything it covers passes "
            "now; remove the entry.",
        ),
    ],
}


def test_everything_that_can_go_wrong_is_shown() -> None:
    results = changed(BAD, claimed=ALL - {"flashinfer-import"})
    assert marks.plain(shown(results)) == golden("""
        toy-cache 0.3 (C++) against specification 1.0

                                           in process       JSON lines
                                         MUST  SHOULD     MUST  SHOULD
        ✓ PATH  Options and location      9/9     2/2      9/9     2/2
        ✓ BUCK  M buckets                 3/3       ·      3/3       ·
        ✓ TACT  Tactic numbering          2/2       ·      2/2       ·
        ✗ NDOC  Native document         15/15     1/2    14/15     1/1  1 failed
                                                                        1 skipped
        - FIMP  FlashInfer import           ·       ·        ·       ·  not claimed
        ≈ MERG  Merge                     2/3       ·      3/3       ·  1 known dev.
        ! PUBL  Publication               3/5     3/3      3/3     3/4  1 error
                                                                        2 skipped
        ──────────────────────────────────────────────────────────────
        ! all   56 contracts            34/37     6/7    34/35     6/7

        39 passed, 1 error, 1 failed, 1 known deviation, 3 skipped, 11 not claimed
        87 cases in 12.3 s, seed 81234
        Badge: writer · MUST 33/37 · SHOULD 6/8 · v1.0 (red)

        Skipped
          ○ NDOC-14 less than 1 GB of memory is free
          ○ PUBL-4  strace is not installed
          ○ PUBL-5  no case of it ran

        Skipped over one transport only
          ○ PUBL-1  in process: only seen from outside the process

        Known deviations
          ≈ MERG-2  Kept in insertion order. (2 of 9 differ)

        ✗ NDOC-8 failed  MUST
          An integer field accepts only a JSON integer literal within its range: true,
          "4", 4.0, 4e0, 4.9, 10^400, -4294967292, 4294967300 and, for an 8-bit field,
          258 are all rejected, none is rounded, converted or wrapped.
            ✗ JSON lines: tactic_id-4.9
              expected a rejection with code wrong-type at plans[0].tactic_id, but the
              document was read and gave 1 plan with tactic 4
              reproducer: nvfp4-reproducers/NDOC-8--tactic_id-4.9.json

        ! PUBL-12 error  MUST
          A destination that, links followed, is not a regular file (a directory, FIFO,
          socket, device, dangling link or link loop) is rejected without blocking and
          left exactly as it was; a path where nothing exists is created.
            ! deviation 1
              known.toml, deviation 1 (PUBL-12, case '*'): everything it covers passes
              now; remove the entry.
        """)


def test_the_same_in_ascii() -> None:
    cases = {**BAD, "NDOC-8": [case("NDOC-8", V.FAILED, name="größe", message="漢\x1b[0m")]}
    results = changed(cases, claimed=ALL - {"flashinfer-import"})
    text = marks.plain(shown(results, ascii_only=True, name="Käse"))
    assert text.isascii()
    for line in (
        r"K\xe4se 0.3 (C++) against specification 1.0",
        "+ PATH  Options and location      9/9     2/2      9/9     2/2",
        "x NDOC  Native document         14/15     1/2    14/14     1/1  1 failed",
        "- FIMP  FlashInfer import           .       .        .       .  not claimed",
        "~ MERG  Merge                     2/3       .      3/3       .  1 known dev.",
        "-" * 62,
        "Badge: writer - MUST 33/37 - SHOULD 6/8 - v1.0 (red)",
        "  o PUBL-5  no case of it ran",
        r"    x in process: gr\xf6\xdfe",
        r"      \u6f22\x1b[0m",
    ):
        assert line in text.splitlines()


def test_colour_is_never_the_only_difference() -> None:
    one = {verdict: "".join(t for t, _ in line) for verdict, line in rows_of_each().items()}
    assert len(set(one.values())) == len(one)
    marks = {text[0] for text in one.values()}
    assert len(marks) == len(one)


def rows_of_each() -> dict[Verdict, marks.Line]:
    """The line of the area MERG where its first contract has each verdict."""
    found = {}
    for verdict in Verdict:
        claimed = ALL - ({"merge"} if verdict is V.NOT_CLAIMED else set())
        lines = shown(outcome({"MERG-1": verdict}, claimed=claimed))
        (found[verdict],) = (line for line in lines if len(line) > 1 and line[1][0] == "MERG  ")
    return found


def test_styles_are_those_of_the_terminal_writer() -> None:
    known = {"red", "green", "yellow", "cyan", "bold", "light"}
    for line in shown(changed(BAD, claimed=ALL - {"flashinfer-import"})):
        for text, style in line:
            assert set(style) <= known
            assert "\n" not in text
    styles = {verdict: line[0][1] for verdict, line in rows_of_each().items()}
    assert styles[V.PASSED] == {"green": True}
    assert styles[V.FAILED] == {"red": True, "bold": True}
    assert styles[V.SKIPPED] == {"yellow": True}


def test_pytest_s_own_writer_accepts_every_line(pytestconfig: pytest.Config) -> None:
    writer = pytestconfig.get_terminal_writer()
    for line in shown(changed(BAD)):
        for text, style in line:
            assert text in writer.markup(text, **style)


def test_at_most_five_cases_of_a_contract_are_listed() -> None:
    def listing(number: int) -> list[str]:
        cases = [case("MERG-1", V.FAILED, name=f"n{i:02}") for i in range(number)]
        text = marks.plain(shown(changed({"MERG-1": cases})))
        return [line.strip() for line in text.splitlines()[-6:]]

    names = [f"✗ in process: n{i:02}" for i in range(5)]
    assert listing(5)[-5:] == names
    assert listing(6) == [*names, "and 1 more"]
    assert listing(40) == [*names, "and 35 more"]


def test_an_endless_message_is_cut() -> None:
    failed = case("MERG-1", V.FAILED, message="word " * 100_000)
    lines = marks.plain(shown(changed({"MERG-1": [failed]}))).splitlines()
    assert lines[-7:] == ["      " + " ".join(["word"] * 15)[:74]] * 6 + ["      …"]


LONG = " ".join(f"word{number}" for number in range(200))


@pytest.mark.parametrize("verdict", [V.FAILED, V.ERROR, V.KNOWN_DEVIATION, V.SKIPPED])
def test_in_a_log_nothing_is_cut(verdict: Verdict) -> None:
    cases = {"MERG-1": [case("MERG-1", verdict, name=LONG, message=LONG[::-1])]}
    text = marks.plain(shown(changed(cases), width=None, name=LONG.upper()))
    assert "…" not in text
    assert max(columns(line) for line in text.splitlines()) <= 80
    words = " ".join(text.split())
    assert LONG.upper() in words
    assert LONG[::-1] in words
    assert (LONG in words) == (verdict >= V.FAILED)


def test_an_instruction_is_never_cut() -> None:
    skipped = case("MERG-1", V.SKIPPED, message=f"{LONG}; install it")
    stale = case("MERG-2", V.ERROR, transport=NO_TRANSPORT, message=f"{LONG}; remove the entry.")
    lines = shown(changed({"MERG-1": [skipped], "MERG-2": [stale]}))
    words = " ".join(marks.plain(lines).split())
    assert f"{LONG}; install it" in words
    assert f"{LONG}; remove the entry." in words


def test_a_wide_terminal_is_used() -> None:
    failed = case("MERG-1", V.KNOWN_DEVIATION, message=LONG)
    lines = marks.plain(shown(changed({"MERG-1": [failed]}), width=200)).splitlines()
    assert max(map(columns, lines)) == 200
    assert lines[-1].endswith("…")


def test_one_is_in_the_singular() -> None:
    one = aggregate(SPEC, [case("MERG-1")], claimed=ALL, selected={"MERG-1"})
    text = marks.plain(shown(one))
    assert "✓ all   1 contract " in text
    assert "1 passed; 1 case in 12.3 s" in text


def test_several_are_in_the_plural() -> None:
    verdicts = {"MERG-1": V.ERROR, "MERG-2": V.ERROR, "PUBL-1": V.KNOWN_DEVIATION}
    text = marks.plain(shown(outcome({**verdicts, "PUBL-2": V.KNOWN_DEVIATION})))
    assert "52 passed, 2 errors, 2 known deviations; 112 cases in 12.3 s" in text
    assert "  2 errors\n" in text
    assert "  2 known dev.\n" in text


def test_skips_of_one_transport_with_one_reason_take_one_line() -> None:
    reason = "the implementation is an executable"
    cases = {
        c.id: [case(c.id, V.SKIPPED, message=reason), case(c.id, transport=JSON_LINES)]
        for c in SPEC.contracts
    }
    text = marks.plain(shown(changed(cases)))
    assert text.count(reason) == 1
    assert f"  ○ PATH-1 and 55 more in process: {reason}\n" in text
    assert "○ PATH" not in text.partition("Badge")[0]


@pytest.mark.parametrize(
    ("results", "whole"), [(outcome(selected={"MERG-1", "PUBL-5"}), True), (outcome(), False)]
)
def test_a_partial_run_says_so_and_claims_nothing(
    results: tuple[ContractResult, ...], whole: bool
) -> None:
    text = marks.plain(shown(results, whole=whole))
    assert "Badge: partial run · v1.0 (lightgrey)\n" in text
    assert "writer" not in text


def test_only_selected_areas_have_a_line() -> None:
    text = marks.plain(shown(outcome(selected={"MERG-1", "PUBL-5"})))
    assert "PATH" not in text
    assert "✓ MERG  Merge                     1/1       ·      1/1       ·\n" in text
    assert "✓ PUBL  Publication                 ·     1/1        ·     1/1\n" in text


def test_a_run_without_contracts_is_no_success() -> None:
    text = marks.plain(shown(()))
    assert "✓" not in text
    assert "no contract was selected; 0 cases" in text


def test_a_hostile_name_is_harmless() -> None:
    text = marks.plain(shown(outcome(), name="<script>\x1b]0;pwned\x07" + "y" * 100))
    first = text.splitlines()[0]
    assert first.startswith(r"<script>\x1b]0;pwned\x07yyy")
    assert columns(first) == 80
    assert first.endswith("…")


@unhurried
@given(
    message=st.text(),
    name=st.text(),
    width=st.integers(20, 140),
    verdict=st.sampled_from([v for v in Verdict if v is not V.NOT_CLAIMED]),
    ascii_only=st.booleans(),
)
def test_no_line_is_too_wide_and_none_holds_a_control_character(
    message: str, name: str, width: int, verdict: Verdict, ascii_only: bool
) -> None:
    cases = {
        "PUBL-10": [
            case("PUBL-10", verdict, name=name, message=message),
            case("PUBL-10", transport=JSON_LINES),
        ],
        "NDOC-1": [case("NDOC-1", verdict, name=name, message=message)],
    }
    lines = shown(changed(cases), width=width, ascii_only=ascii_only, name=name)
    for line in marks.plain(lines).splitlines():
        assert columns(line) <= max(width, 80)
        assert line.isprintable() or not line
        assert line.isascii() or not ascii_only


def test_a_path_is_never_cut() -> None:
    path = "/tmp/" + "deep/" * 40 + "NDOC-1--a.json"
    failed = replace(case("NDOC-1", V.FAILED, transport=IN_PROCESS), reproducer=path)
    assert f"      reproducer: {path}\n" in marks.plain(shown(changed({"NDOC-1": [failed]})))
