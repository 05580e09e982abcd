"""The plugin of a fresh process: narrow the run to its test, and tell the parent how that goes.

It is to the parent what a worker is to pytest-xdist: plugins that write files leave that to the
parent, the terminal is the parent's, and reports travel by pytest's own serialisation.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Generator, Mapping
from typing import Any

import pytest

from pytest_nvfp4.markers.fresh_process.channel import Channel
from pytest_nvfp4.markers.fresh_process.launch import test_id
from pytest_nvfp4.markers.fresh_process.observations import Observer
from pytest_nvfp4.markers.fresh_process.snapshots import SNAPSHOTS, keep_snapshots

NAME = "nvfp4-fresh-child"

OPAQUE = "nvfp4_opaque"
"""Tells of a report whose explanation was an object that only its text is left of."""

# Plugins of pytest's: three keep what they know of all tests in the cache, and know one here; one
# draws on the terminal.
_TO_BE_QUIET = ("lfplugin", "nfplugin", "stepwiseplugin", "terminalprogress")


class Child:
    """Acts in the fresh process only."""

    def __init__(self, channel: Channel, launch: Mapping[str, Any]):
        self._channel = channel
        self._launch = launch
        self._handed_over = False
        self._snapshots = False

    @property
    def observer(self) -> Observer:
        """What the fixture `fresh` gives; anew for each time that the test asks."""
        told = self._launch["run"]
        return Observer(told["number"], told["runs"], told["arm"], self._channel.send)

    # --- Being the parent's, in everything but the test

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        """Make other plugins see a worker; and narrow what is collected."""
        self._config = config
        config.workerinput = dict(self._launch["workerinput"])  # type: ignore[attr-defined]
        config.workeroutput = {}  # type: ignore[attr-defined]
        config.option.basetemp = self._launch["basetemp"]
        if hasattr(config.option, "color"):  # not with -p no:terminal
            config.option.color = self._launch["color"]
        config.option.log_file = os.devnull  # or the parent's would be emptied
        config.option.cacheclear = False  # it has been, and others have written since
        config.option.pastebin = None
        config.args = list(self._launch["collect"])

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(
        self, items: list[pytest.Item]
    ) -> Generator[None, None, None]:
        """Keep the one test, whatever others would deselect where it is alone."""
        wanted = self._launch["test"]
        before = [item for item in items if test_id(item) == wanted]
        yield
        items[:] = [item for item in items if test_id(item) == wanted] or before

    # --- Telling

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Tell why the test could not be collected."""
        if report.failed:
            self._channel.send("not-collected", report.longreprtext)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        """Hand over where output goes, once: what a crash leaves there is all there will be."""
        if not self._handed_over:
            self._handed_over = True
            self._channel.send("output", None, descriptors=(1, 2))

    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> None:
        """Note a snapshot that the test asks for by its name, or at run time."""
        self._snapshots = self._snapshots or fixturedef.argname == "snapshot"

    def pytest_runtest_logstart(self) -> None:
        """Tell that the test begins."""
        self._channel.send("began", None)

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Tell a report; where our output is seen at once, wait until the report is, too."""
        shown = self._config.getoption("capture", "fd") == "no"
        if shown and sys.stdout is not None:
            sys.stdout.flush()
        self._channel.send("report", self._plain(report))
        if shown:
            self._channel.wait()

    def _plain(self, report: pytest.TestReport) -> dict[str, Any]:
        """A report as data that can travel; what cannot is never dropped in silence."""
        config = self._config
        data: dict[str, Any] = config.hook.pytest_report_to_serializable(
            config=config, report=report
        )
        if self._snapshots:
            data[SNAPSHOTS] = True
        data[OPAQUE] = isinstance(data["longrepr"], str) and hasattr(report.longrepr, "toterminal")
        for name, value in list(data.items()):
            if _travels(value):
                continue
            del data[name]
            if name == "user_properties":
                data[name] = [pair for pair in value if _travels(pair)]
                bad = next(pair for pair in value if not _travels(pair))
                data["outcome"] = "failed"
                data["longrepr"] = (
                    f"user property {bad[0]!r} holds a {type(bad[1]).__name__}, which cannot leave "
                    "a fresh process; give text or a number"
                )
            else:
                self._channel.send("warning", _left_behind(name, value))
        return data

    def pytest_warning_recorded(
        self, warning_message: warnings.WarningMessage, when: str, nodeid: str
    ) -> None:
        """Tell a warning of the test; the parent has seen those of configuration and collection."""
        if when == "runtest":
            self._channel.send("warning", describe_warning(warning_message))

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Tell that the test ends the whole run."""
        error = excinfo.value
        if isinstance(error, pytest.exit.Exception):
            self._channel.send("exit", {"reason": error.msg, "status": error.returncode})
        else:
            self._channel.send("exit", None)

    @pytest.hookimpl(trylast=True)
    def pytest_internalerror(self, excrepr: object) -> None:
        """Tell what went wrong in pytest or a plugin."""
        self._channel.send("internal-error", str(excrepr))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, None, None]:
        """Tell that this was all, once every plugin has finished."""
        keep_snapshots(self._config)
        yield
        self._channel.send("end", int(session.exitstatus))


class Quiet:
    """Takes the terminal and the cache away from pytest, after every plugin has configured itself.

    The terminal reporter stays, as others ask it how to colour, but it writes to nobody.
    """

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        """Replace the one, and unregister those that would write what they know of one test."""
        manager = config.pluginmanager
        for name in _TO_BE_QUIET:
            if manager.has_plugin(name):
                manager.unregister(name=name)
        old = manager.get_plugin("terminalreporter")
        if old is not None:
            manager.unregister(old)
            nobody = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
            config.add_cleanup(nobody.close)
            manager.register(type(old)(config, nobody), "terminalreporter")


def _travels(value: object) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def _left_behind(name: str, value: object) -> dict[str, Any]:
    text = f"report attribute {name!r} holds a {type(value).__name__} and stays in its process"
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
