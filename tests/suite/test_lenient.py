"""A lenient reader fails exactly the contracts that its leniencies break, each for its own reason."""

import pytest

REASONS = {
    "NDOC-8": ["accepted a bad document, which has wrong-type at plans[3].tactic_id"],
    "NDOC-9": ["accepted a bad document, which has duplicate-plan", "which has duplicate-member"],
    "NDOC-12": ["accepted a bad document, which has encoding", "which has syntax"],
    "NDOC-15": ["a rejected document changed the ready map"],
    "FIMP-6": ["accepted a bad document, which has bad-plan"],
    "FIMP-7": ["accepted a bad document, which has wrong-type", "which has unknown-tactic"],
    "FIMP-8": ["accepted a bad document, which has duplicate-member", "which has bad-plan"],
}
KEPT = ("NDOC-1", "NDOC-2", "NDOC-17", "FIMP-1", "FIMP-2", "FIMP-10")


@pytest.fixture
def result(conformance):
    selection = ",".join([*REASONS, *KEPT, "BUCK-1"])
    return conformance("--nvfp4-contract", selection, "--tb=no", impl="faulty.lenient:Lenient")


def test_each_leniency_is_caught_for_its_own_reason(result):
    contracts = {contract["id"]: contract for contract in result.report["contracts"]}
    for contract_id, reasons in REASONS.items():
        assert contracts[contract_id]["verdict"] == "failed", contract_id
        messages = [
            c["message"] for c in contracts[contract_id]["cases"] if c["verdict"] == "failed"
        ]
        for reason in reasons:
            assert any(reason in message for message in messages), (contract_id, reason, messages)
    assert result.ret == 1


def test_what_it_does_right_passes(result, verdicts):
    found = verdicts(result)
    assert {contract_id: found[contract_id] for contract_id in KEPT} == dict.fromkeys(
        KEPT, "passed"
    )


def test_what_it_does_not_claim_is_not_claimed(result, verdicts):
    assert verdicts(result)["BUCK-1"] == "not_claimed"


def test_failures_leave_standalone_reproducers(result, pytester):
    failed = [
        case
        for contract in result.report["contracts"]
        for case in contract["cases"]
        if case["verdict"] == "failed"
    ]
    assert failed
    for case in failed:
        assert case["reproducer"] is not None, case["case"]
        assert (pytester.path / case["reproducer"]).exists()
    assert list((pytester.path / "nvfp4-reproducers").glob("*.jsonl"))
