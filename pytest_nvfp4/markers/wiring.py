"""Where pytest meets the markers: cheap hooks that load the rest when a test asks for it."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from pytest_nvfp4.markers.options import lock_defaults, settings_made, whole_run_wanted

if TYPE_CHECKING:
    from pytest_nvfp4.markers.frozen.frozen_summary import FrozenSummary
    from pytest_nvfp4.markers.frozen.frozen_tests import FrozenTests
    from pytest_nvfp4.markers.hold_summary import HoldSummary
    from pytest_nvfp4.markers.locked_tests import LockedTests

LOCK = "gpu_lock"
FROZEN = "frozen_map"

MARKERS = (
    f"{LOCK}(path=…, timeout=…, devices=…, scope='function', require_idle=False): "
    "run while holding the system-wide lock of the GPU",
    f"{FROZEN}(path, complete=False, stats='auto', trace_children=False): "
    "run on the plans of a file that nobody may change",
)


class Markers:
    """A plugin that notices marked tests."""

    def __init__(self, config: pytest.Config):
        self._config = config
        self._locked: LockedTests | None = None
        self._holds: HoldSummary | None = None
        self._frozen: FrozenTests | None = None
        self._maps: FrozenSummary | None = None
        for marker in MARKERS:
            config.addinivalue_line("markers", marker)
        self._settings = settings_made(config)
        if self._settings:
            whole_run_wanted(config)
            lock_defaults(config)  # a mistake in them is better told now than by every worker

    @property
    def locked(self) -> LockedTests:
        """What locks; made when it is first needed."""
        if self._locked is None:
            from pytest_nvfp4.markers.locked_tests import LockedTests

            self._locked = LockedTests(self._config, self.holds)
            self._config.pluginmanager.register(self._locked, "nvfp4-locked-tests")
        return self._locked

    @property
    def holds(self) -> HoldSummary:
        """What gathers the holds; made when there is the first to tell of."""
        if self._holds is None:
            from pytest_nvfp4.markers.hold_summary import HoldSummary

            self._holds = HoldSummary(self._config)
        return self._holds

    @property
    def frozen(self) -> FrozenTests:
        """What freezes; made when it is first needed."""
        if self._frozen is None:
            from pytest_nvfp4.markers.frozen.frozen_tests import FrozenTests

            self._frozen = FrozenTests(self._config)
            self._config.pluginmanager.register(self._frozen, "nvfp4-frozen-tests")
        return self._frozen

    @property
    def maps(self) -> FrozenSummary:
        """What gathers the frozen files; made when there is the first to tell of."""
        if self._maps is None:
            from pytest_nvfp4.markers.frozen.frozen_summary import FrozenSummary

            self._maps = FrozenSummary(self._config)
        return self._maps

    @pytest.hookimpl(tryfirst=True)  # before xdist starts its workers
    def pytest_sessionstart(self) -> None:
        """Hold the lock for the whole run, where that is wanted."""
        looking = self._config.option.collectonly or hasattr(self._config, "workerinput")
        if not looking and whole_run_wanted(self._config):
            self.locked.hold_run()

    def pytest_report_header(self) -> list[str]:
        """Which settings were made, and where."""
        return [f"{LOCK}: {', '.join(self._settings)}"] if self._settings else []

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self,
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Turn a mistake in a marker into a collection error of one sentence."""
        report = yield
        problems = []
        for node in report.result or ():
            for problem in self._problems(node) if isinstance(node, pytest.Item) else ():
                problems.append(f"{node.nodeid}: {problem}")
        if problems:
            report.outcome = "failed"
            report.longrepr = "\n".join(problems)
            report.result = []
        return report

    def _problems(self, node: pytest.Item) -> Iterator[str]:
        if node.get_closest_marker(LOCK) is not None:
            yield from filter(None, [self.locked.problem(node)])
        if node.get_closest_marker(FROZEN) is not None:
            yield from filter(None, [self.frozen.problem(node)])

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Load what locks, if there is anything to lock."""
        if any(item.get_closest_marker(LOCK) is not None for item in items):
            self.locked.choose(items)

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Freeze a map. What locks was registered later than this, so it is called before."""
        if item.get_closest_marker(FROZEN) is not None:
            self.frozen.begin(item)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Hear of a test that ran under a hold, here or in an xdist worker."""
        if report.when == "teardown" and any(
            name.startswith(LOCK) for name, _ in report.user_properties
        ):
            self.holds.add_reported(report)
        if report.when == "teardown" and any(
            name.startswith(FROZEN) for name, _ in report.user_properties
        ):
            self.maps.add_reported(report)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Hear from an xdist worker of the holds that ended with it."""
        output = getattr(node, "workeroutput", {})
        if "nvfp4_holds" in output:
            self.holds.add_received(output)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Tell of the holds, and of the frozen maps."""
        if self._holds is not None:
            self._holds.show(terminalreporter)
        if self._maps is not None:
            self._maps.show(terminalreporter)
