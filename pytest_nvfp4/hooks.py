"""The hooks that pytest-nvfp4 calls, for a conftest.py or a plugin to implement."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pytest

__all__ = ["PlanStats", "pytest_nvfp4_plan_stats"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanStats:
    """The counters of a plan cache, and the plans that it selected.

    `tuned` plans measured, `saved` plans written to a file, `lazy` lookups that found no plan once
    the engine was ready, `rejected` documents refused. `plans` maps (M bucket, N, K) to the tactic
    that runs, or lists rows (M bucket, N, K, tactic); None where the cache does not report them.
    """

    tuned: int
    saved: int
    lazy: int
    rejected: int = 0
    plans: Mapping[tuple[int, int, int], int] | Iterable[tuple[int, int, int, int]] | None = None


@pytest.hookspec(firstresult=True)
def pytest_nvfp4_plan_stats(item: pytest.Item) -> PlanStats | Mapping[str, object] | None:
    """The statistics of the plan cache under test, for a test that is marked with `frozen_map`.

    Called after the test's call and before its fixtures end, so `item.funcargs` has the engine.
    Return a `PlanStats`, or a dict with its members, or None where there are no statistics. All
    counts must be 0 for the test to pass, so count from where nothing may be tuned any more: from
    the engine's start, or from the test's. The first result that is not None is used, instead of
    what pytest-nvfp4 finds by itself.
    """
