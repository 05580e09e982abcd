"""Reports side by side: what is lined up, what is said in the terminal, what is refused."""

import re
from textwrap import dedent
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import SPEC, outcome, report_of, unhurried

from pytest_nvfp4.results import report
from pytest_nvfp4.results.verdicts import Verdict
from pytest_nvfp4.text import columns
from pytest_nvfp4.views import comparison as compare
from pytest_nvfp4.views import marks, matrix

V = Verdict
READER = frozenset({"buckets", "tactics", "native-document", "flashinfer-import"})


def of(*reports: dict[str, Any]) -> compare.Comparison:
    return compare.of([(None, data) for data in reports], SPEC)


def shown(comparison: compare.Comparison, **how: Any) -> str:
    return marks.plain(matrix.lines(comparison, **{"width": 80, **how}))


def resealed(data: dict[str, Any]) -> dict[str, Any]:
    rest = {name: value for name, value in data.items() if name != "digest"}
    return {**rest, "digest": report.digest(rest)}


def two() -> compare.Comparison:
    changed = {"MERG-1": V.FAILED, "NDOC-6": V.SKIPPED, "BUCK-1": V.ERROR}
    reader = report_of(outcome({"TACT-2": V.FAILED}, claimed=READER), claimed=READER, name="reader")
    return of(report_of(outcome(changed)), reader)


def test_the_matrix_shows_areas_and_every_contract_that_did_not_simply_pass() -> None:
    assert shown(two()) == dedent("""\
        A  toy-cache 0.3 (C++)
           writer · MUST 46/48 · SHOULD 7/8 · v1.0
        B  reader 0.3 (C++)
           reader · MUST 30/31 · SHOULD 2/2 · v1.0

                                                                                A      B
        ✓ PATH  Options and location                                        11/11      -
        ! BUCK  M buckets                                                     2/3    3/3
            BUCK-1  MUST   The bucket of m is the hybrid bucket, exact a…       !      ✓
        ✗ TACT  Tactic numbering                                              2/2    1/2
            TACT-2  MUST   A tactic id outside 0 to 31 never becomes a u…       ✓      ✗
        ○ NDOC  Native document                                             16/17  17/17
            NDOC-6  SHOULD A metadata string that is exactly "", "unknow…       ○      ✓
        ✓ FIMP  FlashInfer import                                           11/11  11/11
        ✗ MERG  Merge                                                         2/3      -
            MERG-1  MUST   The merge of a prior and a current document h…       ✗      -
        ✓ PUBL  Publication                                                   9/9      -

        ! error   ✗ failed   ○ skipped   ✓ passed   - not claimed
        56 contracts; 26 with different verdicts; 52 that passed wherever they are
        claimed are left out (--all shows them).
        """)


def test_rows_know_whether_they_differ_and_whether_they_are_quiet() -> None:
    rows = {row.contract.id: row for row in two().rows}
    assert [rows["MERG-1"].verdicts, rows["MERG-1"].differs] == [(V.FAILED, V.NOT_CLAIMED), True]
    assert (rows["PATH-1"].differs, rows["PATH-1"].quiet) == (True, True)
    assert (rows["NDOC-1"].differs, rows["NDOC-1"].quiet) == (False, True)
    same = of(*(report_of(outcome({"MERG-1": V.FAILED}), name=name) for name in "ab"))
    (row,) = [row for row in same.rows if row.contract.id == "MERG-1"]
    assert (row.differs, row.quiet) == (False, False)


def test_a_contract_that_was_not_selected_is_no_difference() -> None:
    part = report_of(outcome(selected={"MERG-1", "NDOC-1"}), name="part")
    comparison = of(report_of(outcome()), part)
    rows = {row.contract.id: row for row in comparison.rows}
    assert rows["MERG-2"].verdicts == (V.PASSED, None)
    assert not any(row.differs for row in rows.values())
    text = shown(comparison, everything=True)
    assert "· not in the run" in text
    assert "B is a partial run: it did not run to its end." in text
    assert [area.id for area in comparison.areas] == [area.id for area in SPEC.areas]


def test_all_shows_every_contract_once() -> None:
    lines = shown(two(), everything=True).splitlines()
    for contract in SPEC.contracts:
        assert sum(line.split()[:2] == [contract.id, contract.level.upper()] for line in lines) == 1
    assert "--all" not in lines[-1]
    assert "are left out (--all shows them)" in " ".join(shown(two()).split())


def test_in_a_log_nothing_is_cut_and_a_wide_terminal_is_used() -> None:
    text = SPEC.contract("NDOC-6").text
    assert len(text) > 80
    log = shown(two(), width=None)
    assert "…" not in log
    assert max(map(columns, log.splitlines())) <= 80
    start = next(line for line in log.splitlines() if "NDOC-6" in line).index(text[:5])
    room = 80 - 2 * 7 - start
    cells = " ".join(line[start : start + room].strip() for line in log.splitlines())
    assert text in " ".join(cells.split())
    assert max(map(columns, shown(two(), width=200).splitlines())) == 200


@unhurried
@given(st.lists(st.text(min_size=1), min_size=1, max_size=8, unique=True), st.booleans())
def test_no_line_is_too_wide_and_nothing_hidden_gets_through(
    labels: list[str], ascii_only: bool
) -> None:
    data = report_of(outcome({"MERG-1": V.FAILED}, selected={"MERG-1", "BUCK-1"}), name="\x1b[2J")
    comparison = compare.of([(label, data) for label in labels], SPEC)
    text = shown(comparison, ascii_only=ascii_only)
    assert all(columns(line) <= 80 for line in text.splitlines())
    assert "\x1b" not in text
    assert text.isascii() or not ascii_only
    assert text.count("MERG-1  MUST") == 1


def test_colour_repeats_what_is_said() -> None:
    lines = list(matrix.lines(two()))
    painted = "\n".join(map(marks.painted, lines))
    assert "\x1b[31;1m      ✗\x1b[0m" in painted
    assert re.sub(r"\x1b\[[0-9;]*m", "", painted) + "\n" == marks.plain(lines)


def test_contracts_unknown_to_this_package_come_last_and_keep_their_area() -> None:
    data = report_of(outcome(selected={"MERG-1"}))
    data["contracts"][0].update(id="ZEBR-2", area="ZEBR")
    comparison = of(report_of(outcome(selected={"PUBL-1"}), name="b"), resealed(data))
    assert [(area.id, area.title) for area in comparison.areas][-1] == ("ZEBR", "")
    assert "ZEBR" in shown(comparison)


@pytest.mark.parametrize(
    ("member", "value", "says"),
    [
        (
            "specification_version",
            "0.9",
            "different versions of the specification: A (1.0), B (0.9)",
        ),
        ("specification_digest", "22" * 32, "different texts of the specification: A, B."),
        ("version", "9.9", "different versions of the suite: A (0.1.0), B (9.9)"),
        ("digest", "11" * 32, "different conformance files: A, B."),
    ],
)
def test_what_limits_a_comparison_is_said(member: str, value: str, says: str) -> None:
    data = report_of(outcome(), name="b")
    data["suite"][member] = value
    (note,) = of(report_of(outcome()), resealed(data)).notes
    assert says in note
