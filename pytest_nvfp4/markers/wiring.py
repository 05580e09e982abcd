"""Where pytest meets the markers: cheap hooks that load the rest when a test asks for it."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from pytest_nvfp4.markers.options import (
    fresh_timeout,
    fresh_wanted,
    lock_path,
    lock_timeout,
    settings_made,
    whole_run_wanted,
)

if TYPE_CHECKING:
    from pytest_nvfp4.markers.fresh_process.fresh_tests import FreshTests
    from pytest_nvfp4.markers.fresh_process.observations import Observer
    from pytest_nvfp4.markers.fresh_process.tables import Tables
    from pytest_nvfp4.markers.frozen_map.frozen_summary import FrozenSummary
    from pytest_nvfp4.markers.frozen_map.frozen_tests import FrozenTests
    from pytest_nvfp4.markers.gpu_lock.hold_summary import HoldSummary
    from pytest_nvfp4.markers.gpu_lock.locked_tests import LockedTests

LOCK = "gpu_lock"
FRESH = "fresh_process"
CHILD = "nvfp4-fresh-child"  # the plugin's name in a fresh process
FROZEN = "frozen_map"

MARKERS = (
    f"{LOCK}(path=…, timeout=…, devices=…, scope='function', require_idle=False): "
    "run while holding the system-wide lock of the GPU",
    f"{FRESH}(runs=1, arms={{name: env}}, order='AB/BA', timeout=…, compare='equal', at_least=…): "
    "run in a new interpreter, once or several times, and compare what the runs record",
    f"{FROZEN}(path, complete=False, stats='auto', trace_children=False): "
    "run on the plans of a file that nobody may change",
)


def observer(request: pytest.FixtureRequest) -> Observer:
    """What the fixture `fresh` gives to a test."""
    from pytest_nvfp4.markers.fresh_process.observations import Observer

    child = request.config.pluginmanager.get_plugin(CHILD)
    if child is not None:
        return child.observer  # type: ignore[no-any-return]
    if request.node.get_closest_marker(FRESH) is None:
        pytest.fail(f"the fixture fresh needs the marker {FRESH}; add it", pytrace=False)
    return Observer()


class Markers:
    """A plugin that notices marked tests.

    What acts on them is made by methods and not by properties: pytest 8.2 reads every attribute of
    a plugin when it looks for fixtures.
    """

    def __init__(self, config: pytest.Config):
        self._config = config
        self._locked: LockedTests | None = None
        self._holds: HoldSummary | None = None
        self._fresh: FreshTests | None = None
        self._tables: Tables | None = None
        self._snapshots_elsewhere = False
        # In a fresh process, the parent holds the lock and nothing is started anew.
        self._in_child = config.pluginmanager.has_plugin(CHILD)
        self._fresh_wanted = not self._in_child and fresh_wanted(config)
        self._frozen: FrozenTests | None = None
        self._maps: FrozenSummary | None = None
        for marker in MARKERS:
            config.addinivalue_line("markers", marker)
        self._settings = settings_made(config)
        if self._settings:
            whole_run_wanted(config)
            lock_path(config)  # a mistake in them is reported once, and not by every worker
            lock_timeout(config)
            fresh_timeout(config)

    def locked(self) -> LockedTests:
        """What locks; made when it is first needed."""
        if self._locked is None:
            from pytest_nvfp4.markers.gpu_lock.locked_tests import LockedTests

            self._locked = LockedTests(self._config, self.holds())
            self._config.pluginmanager.register(self._locked, "nvfp4-locked-tests")
        return self._locked

    def holds(self) -> HoldSummary:
        """What gathers the holds; made when there is the first to tell of."""
        if self._holds is None:
            from pytest_nvfp4.markers.gpu_lock.hold_summary import HoldSummary

            self._holds = HoldSummary(self._config)
        return self._holds

    def fresh(self) -> FreshTests:
        """What runs tests in fresh processes; made when it is first needed."""
        if self._fresh is None:
            from pytest_nvfp4.markers.fresh_process.fresh_tests import FreshTests

            self._fresh = FreshTests(self._config, fresh_timeout(self._config))
            self._config.pluginmanager.register(self._fresh, "nvfp4-fresh-tests")
        return self._fresh

    def frozen(self) -> FrozenTests:
        """What freezes; made when it is first needed."""
        if self._frozen is None:
            from pytest_nvfp4.markers.frozen_map.frozen_tests import FrozenTests

            self._frozen = FrozenTests(self._config)
            self._config.pluginmanager.register(self._frozen, "nvfp4-frozen-tests")
        return self._frozen

    def maps(self) -> FrozenSummary:
        """What gathers the frozen files; made when there is the first to tell of."""
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
        looking = self._config.option.collectonly or hasattr(self._config, "workerinput")
        if not looking and whole_run_wanted(self._config):
            self.locked().hold_run()

    def pytest_report_header(self) -> list[str]:
        """Which settings were made, and where."""
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
                told = filter(None, self._problems(node))
                problems += [f"{node.nodeid}: {problem}" for problem in told]
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
        """Load what locks and what starts processes, if there is a test for it."""
        if any(map(self._is_locked, items)):
            self.locked().choose(items)
        if any(map(self._is_fresh, items)):
            for option in ("usepdb", "trace"):
                if self._config.getoption(option, False):
                    name = "--pdb" if option == "usepdb" else "--trace"
                    raise pytest.UsageError(
                        f"{name} cannot reach into the processes of {FRESH}; add --nvfp4-no-fresh "
                        "to run those tests in this one"
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
        """Freeze a map. What locks was registered later than this, so it is called before."""
        if item.get_closest_marker(FROZEN) is not None:
            self.frozen().begin(item)

    # --- After it

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Hear what a test's reports tell besides, from here or from an xdist worker."""
        names = [name for name, _ in report.user_properties] if report.when == "teardown" else []
        if any(name.startswith(LOCK) for name in names):
            self.holds().add_reported(report)
        if any(name.startswith(FROZEN) for name in names):
            self.maps().add_reported(report)
        if hasattr(report, "nvfp4_fresh_snapshots"):
            self._snapshots_elsewhere = True
        if hasattr(report, "nvfp4_fresh_table"):
            if self._tables is None:
                from pytest_nvfp4.markers.fresh_process.tables import Tables

                self._tables = Tables()
            self._tables.add(report)

    @pytest.hookimpl(wrapper=True)  # before syrupy
    def pytest_sessionfinish(self) -> Generator[None, object, object]:
        """Keep syrupy from deleting what was used in other processes."""
        if self._snapshots_elsewhere:
            from pytest_nvfp4.markers.fresh_process.snapshots import keep_snapshots

            keep_snapshots(self._config)
        return (yield)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Hear from an xdist worker of the holds that ended with it."""
        output = getattr(node, "workeroutput", {})
        if "nvfp4_holds" in output:
            self.holds().add_received(output)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Tell of the runs, of the holds, and of the frozen maps."""
        if self._tables is not None:
            self._tables.show(terminalreporter)
        if self._holds is not None:
            self._holds.show(terminalreporter)
        if self._maps is not None:
            self._maps.show(terminalreporter)
