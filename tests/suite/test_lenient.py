"""A lenient reader fails exactly the contracts that its leniencies break, each for its own reason."""

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


def test_a_lenient_reader_fails_what_it_breaks_and_passes_the_rest(conformance, verdicts, pytester):
    selection = ",".join([*REASONS, *KEPT, "BUCK-1"])
    result = conformance("--nvfp4-contract", selection, "--tb=no", impl="faulty.lenient:Lenient")
    assert result.ret == 1
    contracts = {contract["id"]: contract for contract in result.report["contracts"]}
    for contract_id, reasons in REASONS.items():
        assert contracts[contract_id]["verdict"] == "failed", contract_id
        messages = [
            c["message"] for c in contracts[contract_id]["cases"] if c["verdict"] == "failed"
        ]
        for reason in reasons:
            assert any(reason in message for message in messages), (contract_id, reason, messages)
    found = verdicts(result)
    assert {id_: found[id_] for id_ in KEPT} == dict.fromkeys(KEPT, "passed")
    assert found["BUCK-1"] == "not_claimed"
    failed = [c for one in contracts.values() for c in one["cases"] if c["verdict"] == "failed"]
    assert failed
    for case in failed:
        assert case["reproducer"] is not None, case["case"]
        assert (pytester.path / case["reproducer"]).exists()
    assert list((pytester.path / "nvfp4-reproducers").glob("*.jsonl"))
