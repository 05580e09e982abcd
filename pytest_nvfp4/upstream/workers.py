"""Data between the controller of pytest-xdist and its workers.

pytest-xdist documents the hooks `pytest_configure_node` and `pytest_testnodedown`, the environment
variables ``PYTEST_XDIST_*``, and ``config.workerinput["mainargv"]``. That plugins may put values of
their own into `workerinput` and `workeroutput` is common practice and nowhere promised.
"""

import contextlib
import os
import sys
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

__all__ = [
    "become_worker",
    "input_for_stand_in",
    "is_worker",
    "received",
    "returned_by",
    "send_to_controller",
    "send_to_worker",
]


def is_worker(config: pytest.Config) -> bool:
    """Whether this process is a worker.

    Reason: `xdist.is_xdist_worker` needs a session or a request, which there is not yet while a run
    is configured, and an import of pytest-xdist. pytest's own plugins ask in the same way.
    """
    return hasattr(config, "workerinput")


def received(config: pytest.Config) -> Mapping[str, Any]:
    """What the controller sent to this worker; nothing in any other process."""
    return getattr(config, "workerinput", {})


def send_to_worker(node: Any, name: str, value: object) -> None:
    """Send a value to a worker that is about to start; for the hook `pytest_configure_node`.

    `value` is of built-in types. Reason: there is no documented way.
    """
    node.workerinput[name] = value


def send_to_controller(config: pytest.Config, name: str, value: object) -> None:
    """Send a value to the controller, which gets it when this worker ends.

    `value` is of built-in types; the latest of a name counts. In any other process this does
    nothing. Reason: there is no documented way.
    """
    if hasattr(config, "workeroutput"):
        config.workeroutput[name] = value


def returned_by(node: Any) -> Mapping[str, Any]:
    """What a worker has sent; nothing where it died. For the hook `pytest_testnodedown`."""
    return getattr(node, "workeroutput", {})


def input_for_stand_in(config: pytest.Config) -> dict[str, Any]:
    """What a process that stands in for a worker of this run receives, as plain data.

    In a worker it is that worker's own. Elsewhere the name is the one that pytest-xdist gives to a
    run without workers, and plugins are asked what they would send to a worker.

    Reason: plugins that write files, pytest's own among them, leave that to the parent where they
    see a worker, and expect there what they sent. Members as of pytest-xdist 3.8,
    workermanage.py:308.
    """
    values: dict[str, Any] = dict(received(config))
    if not values:
        values = {
            "workerid": "master",
            "workercount": 1,
            "testrunuid": f"fresh-{os.getpid()}",
            "mainargv": list(sys.argv),
        }
        gateway = SimpleNamespace(id="master")
        node = SimpleNamespace(config=config, workerinput=values, gateway=gateway)
        hook = getattr(config.hook, "pytest_configure_node", None)
        for implementation in hook.get_hookimpls() if hook is not None else ():
            # One that needs a real worker has nothing to send to this one.
            with contextlib.suppress(Exception):
                implementation.function(node=node)
    return {name: value for name, value in values.items() if _is_plain(value)}


def become_worker(config: pytest.Config, values: Mapping[str, Any]) -> None:
    """Make plugins see a worker that received `values`; see `input_for_stand_in`."""
    config.workerinput = dict(values)  # type: ignore[attr-defined]
    config.workeroutput = {}  # type: ignore[attr-defined]


def _is_plain(value: object) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_plain(one) for key, one in value.items())
    return value is None or isinstance(value, str | int | float)
