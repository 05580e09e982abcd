"""The gate: whether two builds can be compared, and whether one is as fast as the other.

Six fresh processes with one hold of the GPU lock, both arms on one frozen map, in an order that
balances effects of time between the arms.
"""

import pytest
from engine import MAP, Engine

ARMS = {"direct": {"VT_FP4_DIRECT_SF": "1"}, "composed": {"VT_FP4_DIRECT_SF": "0"}}


@pytest.mark.gpu_lock(timeout=600)
@pytest.mark.frozen_map(MAP, complete=True, stats="required")
@pytest.mark.fresh_process(runs=6, arms=ARMS, timeout=300)
def test_same_plans_and_same_bytes_in_every_process(fresh):
    engine = Engine()
    # A bound, such as at_least=1.0 in the marker, makes the gate fail where "direct" is slower.
    fresh.measure("throughput", engine.throughput(), unit="tokens/s", better="higher")
    fresh.record("plans", [[*key, tactic] for key, tactic in sorted(engine.plans().items())])
    fresh.record("output of 1 token", engine.run(1))
    fresh.record("output of 17 tokens", engine.run(17))
