"""The counts of the plan cache for `frozen_map`; the reference reports them itself, others here.

def pytest_nvfp4_plan_stats(item):
    engine = item.funcargs.get("engine")
    return engine and {"tuned": 0, "saved": 0, "lazy": 0, "plans": engine.plans()}
"""
