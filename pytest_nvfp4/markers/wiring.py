"""Where pytest meets the markers: cheap hooks that load the rest when a test asks for it."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from pytest_nvfp4.markers.fresh_process import CHILD, SNAPSHOTS, TABLE
from pytest_nvfp4.markers.fresh_process import MARK as FRESH
from pytest_nvfp4.markers.frozen_map import MARK as FROZEN
from pytest_nvfp4.markers.gpu_lock import MARK as LOCK
from pytest_nvfp4.markers.gpu_lock import OUTPUT as HOLDS
from pytest_nvfp4.markers.options import (
    fresh_timeout,
    fresh_wanted,
    lock_defaults,
    settings_made,
    whole_run_wanted,
)
from pytest_nvfp4.upstream import snapshots, workers

if TYPE_CHECKING:
    from pytest_nvfp4.markers.fresh_process.fresh_tests import FreshTests
    from pytest_nvfp4.markers.fresh_process.observations import Observer
    from pytest_nvfp4.markers.fresh_process.table import Tables
    from pytest_nvfp4.markers.frozen_map.frozen_summary import FrozenSummary
    from pytest_nvfp4.markers.frozen_map.frozen_tests import FrozenTests
    from pytest_nvfp4.markers.gpu_lock.hold_summary import HoldSummary
    from pytest_nvfp4.markers.gpu_lock.locked_tests import LockedTests

MARKERS = (
    f"{LOCK}(path=…, timeout=…, devices=…, scope='function', require_idle=False): "
    "run while holding the system-wide lock of the GPU",
    f"{FRESH}(runs=1, arms={{name: env}}, order='AB/BA', timeout=…, compare='equal', at_least=…): "
    "run in a new interpreter, once or several times, and compare what the runs record",
    f"{FROZEN}(path, complete=False, stats='auto', trace_children=False): "
    "run on the plans of a file, which must not change",
)


def observer(request: pytest.FixtureRequest) -> Observer:
    """The value of the fixture `fresh` for a test."""
    from pytest_nvfp4.markers.fresh_process.observations import Observer

    child = request.config.pluginmanager.get_plugin(CHILD)
    if child is not None:
        return child.observer  # type: ignore[no-any-return]
    if request.node.get_closest_marker(FRESH) is None:
        pytest.fail(f"the fixture fresh needs the marker {FRESH}; add it", pytrace=False)
    return Observer()


class Markers:
    """A plugin that finds marked tests, and loads what acts on them.

    That is loaded by methods and not by properties: pytest 8.2 reads every attribute of a plugin
    when it looks for fixtures.
    """

    def __init__(self, config: pytest.Config):
        self._config = config
        self._locked: LockedTests | None = None
        self._holds: HoldSummary | None = None
        self._fresh: FreshTests | None = None
        self._tables: Tables | None = None
        self._snapshots_elsewhere = False
        # In a fresh process, the parent holds the lock, and no further process is started.
        self._in_child = config.pluginmanager.has_plugin(CHILD)
        self._fresh_wanted = not self._in_child and fresh_wanted(config)
        self._frozen: FrozenTests | None = None
        self._maps: FrozenSummary | None = None
        for marker in MARKERS:
            config.addinivalue_line("markers", marker)
        self._settings = settings_made(config)
        if self._settings:
            whole_run_wanted(config)
            lock_defaults(config)  # a mistake is reported once here, and not by every worker
            fresh_timeout(config)

    def locked(self) -> LockedTests:
        """The plugin that locks; loaded when it is first needed."""
        if self._locked is None:
            from pytest_nvfp4.markers.gpu_lock.locked_tests import LockedTests

            defaults = lock_defaults(self._config)
            self._locked = LockedTests(self._config, defaults, self.holds())
            self._config.pluginmanager.register(self._locked, "nvfp4-locked-tests")
        return self._locked

    def holds(self) -> HoldSummary:
        """The summary of holds; loaded with the first hold."""
        if self._holds is None:
            from pytest_nvfp4.markers.gpu_lock.hold_summary import HoldSummary

            self._holds = HoldSummary(self._config)
        return self._holds

    def fresh(self) -> FreshTests:
        """The plugin that runs tests in fresh processes; loaded when it is first needed."""
        if self._fresh is None:
            from pytest_nvfp4.markers.fresh_process.fresh_tests import FreshTests

            self._fresh = FreshTests(self._config, fresh_timeout(self._config))
            self._config.pluginmanager.register(self._fresh, "nvfp4-fresh-tests")
        return self._fresh

    def frozen(self) -> FrozenTests:
        """The plugin that freezes maps; loaded when it is first needed."""
        if self._frozen is None:
            from pytest_nvfp4.markers.frozen_map.frozen_tests import FrozenTests

            self._frozen = FrozenTests(self._config)
            self._config.pluginmanager.register(self._frozen, "nvfp4-frozen-tests")
        return self._frozen

    def maps(self) -> FrozenSummary:
        """The summary of frozen maps; loaded with the first map."""
        if self._maps is None:
            from pytest_nvfp4.markers.frozen_map.frozen_summary import FrozenSummary

            self._maps = FrozenSummary(self._config)
        return self._maps

    def _is_locked(self, node: pytest.Item) -> bool:
        return not self._in_child and node.get_closest_marker(LOCK) is not None

    def _is_fresh(self, node: pytest.Item) -> bool:
        return self._fresh_wanted and node.get_closest_marker(FRESH) is not None

    # --- Before the tests

    @pytest.hookimpl(tryfirst=True)  # before xdist starts its workers
    def pytest_sessionstart(self) -> None:
        """Hold the lock for the whole run, where that is wanted."""
        no_tests = self._config.getoption("--collect-only") or workers.is_worker(self._config)
        if not no_tests and whole_run_wanted(self._config):
            self.locked().hold_run()

    def pytest_report_header(self) -> list[str]:
        """The settings that were made, and where."""
        return [f"nvfp4 markers: {', '.join(self._settings)}"] if self._settings else []

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self,
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Turn a mistake in a marker into a collection error of one sentence."""
        report = yield
        problems = []
        for node in report.result or ():
            if isinstance(node, pytest.Item):
                found = filter(None, self._problems(node))
                problems += [f"{node.nodeid}: {problem}" for problem in found]
        if problems:
            report.outcome = "failed"
            report.longrepr = "\n".join(problems)
            report.result = []
        return report

    def _problems(self, node: pytest.Item) -> Iterator[str]:
        if self._is_locked(node):
            yield self.locked().problem(node)
        if self._is_fresh(node):
            yield self.fresh().problem(node)
        if node.get_closest_marker(FROZEN) is not None:
            yield self.frozen().problem(node)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Load the plugins that lock and that start processes, if there is a test for them."""
        if any(map(self._is_locked, items)):
            self.locked().choose(items)
        if any(map(self._is_fresh, items)):
            for option in ("--pdb", "--trace"):
                if self._config.getoption(option, False):
                    raise pytest.UsageError(
                        f"{option} cannot reach into the processes of {FRESH}; add "
                        "--nvfp4-no-fresh to run those tests in this one"
                    )
            self.fresh().prepare()

    # --- A test

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> bool | None:
        """Run a test in a fresh process, if it wants one."""
        if self._is_fresh(item):
            self.fresh().run(item, nextitem, self.locked() if self._is_locked(item) else None)
            return True
        if self._fresh is not None:
            self._fresh.note_set_up()
        return None

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Freeze a map. The plugin that locks was registered after this one, so it comes first."""
        if item.get_closest_marker(FROZEN) is not None:
            self.frozen().begin(item)

    # --- After it

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add what a test's reports have to the summaries, from here or from an xdist worker."""
        names = [name for name, _ in report.user_properties] if report.when == "teardown" else []
        if any(name.startswith(LOCK) for name in names):
            self.holds().add_reported(report)
        if any(name.startswith(FROZEN) for name in names):
            self.maps().add_reported(report)
        if hasattr(report, SNAPSHOTS):
            self._snapshots_elsewhere = True
        if hasattr(report, TABLE):
            if self._tables is None:
                from pytest_nvfp4.markers.fresh_process.table import Tables

                self._tables = Tables()
            self._tables.add(report)

    @pytest.hookimpl(wrapper=True)  # before syrupy
    def pytest_sessionfinish(self) -> Generator[None, object, object]:
        """Keep syrupy from deleting what was used in other processes."""
        if self._snapshots_elsewhere:
            snapshots.keep_unused(self._config)
        return (yield)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Add the holds that ended with an xdist worker."""
        output = workers.returned_by(node)
        if HOLDS in output:
            self.holds().add_received(output)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Write the tables of fresh runs, and the summaries of holds and of frozen maps."""
        if self._tables is not None:
            self._tables.show(terminalreporter)
        if self._holds is not None:
            self._holds.show(terminalreporter)
        if self._maps is not None:
            self._maps.show(terminalreporter)
