"""Counting: the order of verdicts, cases across processes, and contracts from cases."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import ALL, SPEC, case, outcome, unhurried

from pytest_nvfp4.results.verdicts import (
    IN_PROCESS,
    JSON_LINES,
    NO_TRANSPORT,
    TRANSPORTS,
    CaseResult,
    Counts,
    Verdict,
    aggregate,
    count,
    join,
    judge,
)

V = Verdict
MERG_1 = SPEC.contract("MERG-1")

of_cases = st.sampled_from([verdict for verdict in Verdict if verdict is not V.NOT_CLAIMED])
texts = st.text(st.characters(codec="utf-8"))


def test_the_order_is_the_documented_one() -> None:
    assert V.NOT_CLAIMED < V.SKIPPED < V.PASSED < V.KNOWN_DEVIATION < V.FAILED < V.ERROR
    assert sorted(V, reverse=True)[0] is V.ERROR
    assert V.FAILED >= V.FAILED
    assert V.KNOWN_DEVIATION.words == "known deviation"


def test_a_verdict_compares_with_verdicts_only() -> None:
    with pytest.raises(TypeError):
        assert V.PASSED < 3


@unhurried
@given(st.lists(st.sampled_from(Verdict)), st.lists(st.sampled_from(Verdict)))
def test_joining_is_that_of_a_lattice(one: list[Verdict], two: list[Verdict]) -> None:
    parts = [verdict for verdict in (join(one), join(two)) if verdict]
    assert join([*one, *two]) == join([*two, *one]) == join(parts)
    assert join([*one, *one]) == join(one)


def test_nothing_has_no_join() -> None:
    assert join([]) is None


@unhurried
@given(
    st.builds(
        CaseResult,
        contract=texts,
        case=texts,
        transport=st.sampled_from(TRANSPORTS),
        verdict=of_cases,
        message=texts,
        seconds=st.floats(0, 1e6),
        reproducer=st.none() | texts,
    )
)
def test_a_case_crosses_processes_unchanged(result: CaseResult) -> None:
    assert CaseResult.from_json(json.loads(json.dumps(result.to_json()))) == result


@pytest.mark.parametrize(
    "change",
    [{"verdict": "fine"}, {"verdict": "not_claimed"}, {"transport": "telepathy"}, {"seconds": -1}],
)
def test_data_that_is_no_case_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"fine|not claimed|telepathy|impossible"):
        CaseResult.from_json({**case("MERG-1").to_json(), **change})


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), -0.1])
def test_a_duration_is_a_finite_positive_number(seconds: float) -> None:
    with pytest.raises(ValueError, match="impossible duration"):
        replace(case("MERG-1"), seconds=seconds)


def test_a_contract_has_the_highest_verdict_of_its_cases() -> None:
    cases = [case("MERG-1", v) for v in (V.PASSED, V.FAILED, V.SKIPPED, V.KNOWN_DEVIATION)]
    assert judge(MERG_1, cases, claimed=True).verdict is V.FAILED


@unhurried
@given(st.lists(of_cases), st.booleans())
def test_a_contract_passes_only_if_a_case_of_it_did(found: list[Verdict], claimed: bool) -> None:
    verdict = judge(MERG_1, [case("MERG-1", v) for v in found], claimed=claimed).verdict
    assert (verdict is V.PASSED) == (V.PASSED in found and max(found) is V.PASSED)
    if not set(found) - {V.SKIPPED}:
        assert verdict is (V.SKIPPED if claimed else V.NOT_CLAIMED)


def test_a_case_that_ran_counts_without_a_claim_and_a_skip_does_not() -> None:
    ran = judge(MERG_1, [case("MERG-1", V.FAILED)], claimed=False)
    skipped = judge(MERG_1, [case("MERG-1", V.SKIPPED)], claimed=False)
    assert (ran.verdict, skipped.verdict) == (V.FAILED, V.NOT_CLAIMED)


def test_a_claimed_contract_without_a_case_is_skipped_with_a_reason() -> None:
    (result,) = aggregate(SPEC, [], claimed={"merge"}, selected={"MERG-2"})
    assert (result.contract.id, result.verdict) == ("MERG-2", V.SKIPPED)
    assert result.reason == "no case of it ran"


def test_reasons_are_those_of_the_cases_once_each() -> None:
    messages = ["no strace", "no strace", "no second user"]
    cases = [case("MERG-1", V.SKIPPED, message=m, name=str(i)) for i, m in enumerate(messages)]
    assert judge(MERG_1, cases, claimed=True).reason == "no strace; no second user"
    assert judge(MERG_1, [], claimed=False).reason.endswith("does not claim 'merge'")
    assert judge(MERG_1, [case("MERG-1")], claimed=True).reason == ""


def test_each_transport_has_its_own_verdict() -> None:
    cases = [case("MERG-1", V.FAILED), case("MERG-1", transport=JSON_LINES)]
    result = judge(MERG_1, cases, claimed=True)
    assert result.over(IN_PROCESS) is V.FAILED
    assert result.over(JSON_LINES) is V.PASSED
    assert result.over(NO_TRANSPORT) is None


def test_results_do_not_depend_on_the_order_in_which_cases_arrive() -> None:
    cases = [
        case(c.id, name=name, transport=transport)
        for c in SPEC.contracts
        for name in ("b", "a")
        for transport in (JSON_LINES, IN_PROCESS)
    ]
    forward = aggregate(SPEC, cases, claimed=ALL)
    assert forward == aggregate(SPEC, reversed(cases), claimed=ALL)
    assert [r.contract for r in forward] == list(SPEC.contracts)
    found = [(c.case, c.transport) for c in forward[0].cases]
    assert found == [("a", IN_PROCESS), ("a", JSON_LINES), ("b", IN_PROCESS), ("b", JSON_LINES)]


def test_a_case_that_belongs_nowhere_is_refused() -> None:
    with pytest.raises(ValueError, match="'MERGE-1' is not in specification"):
        aggregate(SPEC, [case("MERGE-1")], claimed=ALL)
    with pytest.raises(ValueError, match="MERG-1, which was not selected"):
        aggregate(SPEC, [case("MERG-1")], claimed=ALL, selected={"MERG-2"})


def test_counts_add_up() -> None:
    counts = count(r.verdict for r in outcome({"MERG-1": V.FAILED}, claimed=ALL - {"options"}))
    assert counts == Counts(passed=44, failed=1, not_claimed=11)
    assert counts.total == len(SPEC.contracts)
    assert counts.of(V.NOT_CLAIMED) == 11
