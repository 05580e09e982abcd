"""The markers' knobs."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pytest_nvfp4.knobs import Knob, add_knobs, flag, raw_value, seconds
from pytest_nvfp4.markers.gpu_lock import DEFAULT_PATH, MARK

if TYPE_CHECKING:
    from pytest_nvfp4.markers.gpu_lock.request import LockRequest

WHOLE_RUN = Knob("lock", "hold the GPU lock for the whole run, with all its xdist workers")
PATH = Knob("lock-path", f"file or folder that gpu_lock locks (default: {DEFAULT_PATH})", "PATH")
TIMEOUT = Knob("lock-timeout", "seconds to wait for a GPU lock (default: for ever)", "S")
NO_FRESH = Knob("no-fresh", "run fresh_process tests in this process, once, as for a debugger")
FRESH_TIMEOUT = Knob(
    "fresh-timeout", "seconds for each run of a fresh_process test (default: for ever)", "S"
)
KNOBS = (WHOLE_RUN, PATH, TIMEOUT, NO_FRESH, FRESH_TIMEOUT)


def add_options(parser: pytest.Parser) -> None:
    """Register every knob."""
    title = "Markers for tests on shared GPUs"
    add_knobs(parser, "nvfp4-markers", title, KNOBS)


def settings_made(config: pytest.Config) -> list[str]:
    """The knobs that are set, with their values and where these come from."""
    told = []
    for knob in KNOBS:
        value, source = raw_value(config, knob, os.environ)
        if value is not None:
            told.append(f"{knob.name} {value} from {source}")
    return told


def whole_run_wanted(config: pytest.Config) -> bool:
    """Whether this run is to hold the lock from its start to its end."""
    return flag(config, WHOLE_RUN)


def lock_defaults(config: pytest.Config) -> LockRequest:
    """What a bare `gpu_lock` asks for in this run."""
    from pytest_nvfp4.markers.gpu_lock.request import LockRequest
    from pytest_nvfp4.markers.requests import RequestError, expand

    defaults = LockRequest()
    path, source = raw_value(config, PATH, os.environ)
    if path is not None:
        try:
            absolute = expand(MARK, str(path), os.environ, config.invocation_params.dir)
        except RequestError as error:
            raise pytest.UsageError(f"{source}: {error}") from None
        defaults = replace(defaults, path=str(absolute))
    timeout, source = raw_value(config, TIMEOUT, os.environ)
    if timeout is not None:
        defaults = replace(defaults, timeout=seconds(str(timeout), source))
    return defaults


def fresh_wanted(config: pytest.Config) -> bool:
    """Whether tests may run in processes of their own; not where only their setup is asked for."""
    looking = config.getoption("setuponly", False) or config.getoption("setupplan", False)
    return not (looking or flag(config, NO_FRESH))


def fresh_timeout(config: pytest.Config) -> float | None:
    """Seconds for each fresh run of a test that names none itself."""
    value, source = raw_value(config, FRESH_TIMEOUT, os.environ)
    return None if value is None else seconds(str(value), source)
