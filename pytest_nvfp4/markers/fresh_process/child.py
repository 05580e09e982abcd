"""The plugin of a fresh process: narrow the run to its test, and send the parent what happens.

It is to the parent what a worker is to pytest-xdist: plugins that write files leave that to the
parent, the terminal is the parent's, and reports are sent by pytest's own serialisation.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Generator, Mapping
from typing import Any

import pytest

from pytest_nvfp4.markers.fresh_process import SNAPSHOTS
from pytest_nvfp4.markers.fresh_process.channel import Channel
from pytest_nvfp4.markers.fresh_process.launch import test_id
from pytest_nvfp4.markers.fresh_process.observations import Observer
from pytest_nvfp4.upstream import items as upstream_items
from pytest_nvfp4.upstream import reports, runs, snapshots, workers


class Child:
    """Acts in the fresh process only; `launch` is the parent's first message."""

    def __init__(self, channel: Channel, launch: Mapping[str, Any]):
        self._channel = channel
        self._launch = launch
        self._sent_output = False
        self._snapshots = False

    @property
    def observer(self) -> Observer:
        """The value of the fixture `fresh`, a new one for each request."""
        run = self._launch["run"]
        return Observer(run["number"], run["runs"], run["arm"], self._channel.send)

    # --- The run is the parent's, but for the test

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        """Make other plugins see a worker, and narrow what is collected."""
        self._config = config
        launch = self._launch
        workers.become_worker(config, launch["worker"])
        runs.leave_files_to_parent(config, basetemp=launch["basetemp"], color=launch["color"])
        runs.collect_only(config, launch["collect"])

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(
        self, items: list[pytest.Item]
    ) -> Generator[None, None, None]:
        """Keep the one test, even where another plugin would deselect a test that is alone."""
        wanted = self._launch["test"]
        before = [item for item in items if test_id(item) == wanted]
        yield
        items[:] = [item for item in items if test_id(item) == wanted] or before

    # --- Messages to the parent

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Send why the test could not be collected."""
        if report.failed:
            self._channel.send("not-collected", report.longreprtext)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        """Send the descriptors of captured output, once: the parent reads them after a crash."""
        if not self._sent_output:
            self._sent_output = True
            self._channel.send("output", None, descriptors=(1, 2))

    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> None:
        """See whether the test uses syrupy's fixture, by its name or at run time."""
        self._snapshots |= upstream_items.fixture_name(fixturedef) == "snapshot"

    def pytest_runtest_logstart(self) -> None:
        """Send that the test begins."""
        self._channel.send("began", None)

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Send a report; where output is shown at once, wait until the report is shown, too."""
        shown = self._config.getoption("--capture", "fd") == "no"
        if shown and sys.stdout is not None:
            sys.stdout.flush()
        self._channel.send("report", self._plain(report))
        if shown:
            self._channel.wait()

    def _plain(self, report: pytest.TestReport) -> dict[str, Any]:
        """A report as data; what JSON cannot hold is never left out without a message."""
        if self._snapshots:
            setattr(report, SNAPSHOTS, True)
        data, attributes, properties = reports.to_data(self._config, report)
        for name, value in attributes.items():
            self._channel.send("warning", _left_behind(name, value))
        if properties:
            name, value = properties[0]
            reports.fail(
                data,
                f"user property {name!r} holds a {type(value).__name__}, which cannot leave a "
                "fresh process; give text or a number",
            )
        return data

    def pytest_warning_recorded(
        self, warning_message: warnings.WarningMessage, when: str, nodeid: str
    ) -> None:
        """Send a warning of the test; the parent has those of configuration and collection."""
        if when == "runtest":
            self._channel.send("warning", describe_warning(warning_message))

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Send that the test ends the whole run."""
        called = isinstance(excinfo.value, pytest.exit.Exception)
        self._channel.send("exit", runs.exit_request(excinfo.value) if called else None)

    @pytest.hookimpl(trylast=True)
    def pytest_internalerror(self, excrepr: object) -> None:
        """Send what went wrong in pytest or a plugin."""
        self._channel.send("internal-error", str(excrepr))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, None, None]:
        """Send the exit status as the last message, once every plugin has finished."""
        snapshots.keep_unused(self._config)
        yield
        self._channel.send("end", runs.exit_status(session))


class Silence:
    """A plugin that takes the terminal and the cache from pytest."""

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        """Do so after every plugin has configured itself."""
        runs.silence(config)


def _left_behind(name: str, value: object) -> dict[str, Any]:
    text = (
        f"report attribute {name!r} holds a {type(value).__name__} and stays in its process; "
        "give it text or a number"
    )
    return {
        "text": text,
        "category": ["pytest", "PytestWarning"],
        "filename": __file__,
        "lineno": 0,
    }


def describe_warning(warning: warnings.WarningMessage) -> dict[str, Any]:
    """A warning as data: its text, its category's module and name, and where it came from."""
    return {
        "text": str(warning.message),
        "category": [warning.category.__module__, warning.category.__name__],
        "filename": warning.filename,
        "lineno": warning.lineno,
    }
