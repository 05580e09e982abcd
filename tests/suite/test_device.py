"""What only a GPU runs: a correct pretended device passes it, and a CPU is never asked."""

import pytest

CONTRACTS = "CAPT-1,CAPT-3,PROF-1,PROF-2,PROF-5,PROF-6,FRSH-1,FRSH-2"


@pytest.fixture
def ran(conformance):
    """``ran(impl)``: verdicts by contract, and the names of the cases that ran on each."""

    def run(impl):
        result = conformance(f"--nvfp4-contract={CONTRACTS}", impl=impl)
        found = {one["id"]: one for one in result.report["contracts"]}
        bad = [c for one in found.values() for c in one["cases"] if c["verdict"] != "passed"]
        assert bad == [], result.stdout.str()
        cases = {
            id_: {c["case"].partition("[")[0] for c in one["cases"]} for id_, one in found.items()
        }
        return {id_: one["verdict"] for id_, one in found.items()}, cases

    return run


def test_pretended_device_passes_what_a_cpu_is_not_asked(ran):
    verdicts, there = ran("faulty.pretended_device:PretendedDevice")
    assert set(verdicts.values()) == {"passed"}
    verdicts, here = ran("reference")
    assert verdicts.pop("CAPT-3") == "not_claimed"
    assert set(verdicts.values()) == {"passed"}
    for contract in there:
        assert there[contract] > here[contract], f"{contract} has no case of its own on a device"
