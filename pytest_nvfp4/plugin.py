"""The pytest plugin: it only wires. ``pytest -p nvfp4`` in any repository.

Loading this imports nothing beyond pytest and the standard library, and never touches CUDA; what a
run needs is imported when the run asks for it.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING

import pytest

pytest.register_assert_rewrite(
    "pytest_nvfp4.conformance", "pytest_nvfp4.suite.probe", "pytest_nvfp4.suite.watch"
)

from pytest_nvfp4 import hooks, run_settings, settings  # noqa: E402
from pytest_nvfp4.extras import require_suite  # noqa: E402
from pytest_nvfp4.markers import options as marker_options  # noqa: E402
from pytest_nvfp4.markers.wiring import Markers, observer  # noqa: E402
from pytest_nvfp4.plans import PlanMap, difference_table, differences  # noqa: E402
from pytest_nvfp4.snapshot import wiring as snapshot_wiring  # noqa: E402
from pytest_nvfp4.suite import options as suite_options  # noqa: E402
from pytest_nvfp4.suite.marks import MARKERS  # noqa: E402

if TYPE_CHECKING:
    from pytest_nvfp4.markers.fresh_process.observations import Observer
    from pytest_nvfp4.oracle import Oracle
    from pytest_nvfp4.snapshot.comparison import PlanSnapshot


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Add the hooks that others may implement."""
    pluginmanager.add_hookspecs(hooks)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the suite's options, and the markers'."""
    suite_options.add_options(parser)
    marker_options.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers and what acts on them, and the conformance run where one is wanted."""
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)
    if config.getoption("help", False):
        return  # whatever else is wrong, the help is shown
    settings.refuse_misspelt(config, (*run_settings.SETTINGS, *marker_options.SETTINGS))
    config.pluginmanager.register(Markers(config), "nvfp4-markers")
    config.pluginmanager.register(snapshot_wiring.Snapshots(config), "nvfp4-snapshots")
    if suite_options.conformance_wanted(config):
        with settings.usage_errors():
            require_suite("the conformance suite")
        from pytest_nvfp4.suite.run import ConformanceRun

        config.pluginmanager.register(ConformanceRun(config), "nvfp4-run")


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """Explain two plan maps that should be equal: a table of the plans that differ."""
    explained = snapshot_wiring.explanation(op, left, right)
    if explained is not None:
        return explained
    if op != "==" or not (isinstance(left, PlanMap) or isinstance(right, PlanMap)):
        return None
    if not (isinstance(left, Mapping) and isinstance(right, Mapping)):
        return None
    changes = differences(left, right)
    shared = len(left.keys() | right.keys())
    return [
        f"plan maps differ in {len(changes)} of {shared} plans",
        *difference_table(changes, "left", "right"),
    ]


@pytest.fixture(scope="session")
def nvfp4_oracle() -> Oracle:
    """The binding oracle: `plans` (64 entries), `metadata`, `document` and its digests."""
    from pytest_nvfp4 import oracle

    return oracle.load()


@pytest.fixture
def fresh(request: pytest.FixtureRequest) -> Observer:
    """What a `fresh_process` test notes: ``record(name, value)``, ``measure(name, value, …)``.

    Without a fresh process, as with ``--nvfp4-no-fresh``, nothing is kept or compared.
    """
    return observer(request)


@pytest.fixture
def nvfp4_snapshot(request: pytest.FixtureRequest) -> Generator[PlanSnapshot]:
    """The test's recorded plans: `assert plans == nvfp4_snapshot`, or `nvfp4_snapshot(name=…)`."""
    yield from snapshot_wiring.open_snapshot(request)
