"""The markers' settings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pytest_nvfp4 import settings
from pytest_nvfp4.errors import UsageError
from pytest_nvfp4.markers.gpu_lock import DEFAULT_PATH, MARK
from pytest_nvfp4.settings import Flag, Given, Setting

if TYPE_CHECKING:
    import pytest

    from pytest_nvfp4.markers.gpu_lock.request import LockRequest


def _lock_path(given: Given) -> Path:
    import os

    from pytest_nvfp4.markers.requests import RequestError, expand

    try:
        return expand(MARK, given.text, os.environ, given.folder)
    except RequestError as error:
        raise UsageError(f"{given.source}: {error}") from None


_WHOLE_RUN = Flag("lock", "hold the GPU lock for the whole run, with all its xdist workers")
_PATH = Setting(
    "lock-path",
    f"file or folder that gpu_lock locks (default: {DEFAULT_PATH})",
    "PATH",
    _lock_path,
)
_TIMEOUT = Setting(
    "lock-timeout", "seconds to wait for a GPU lock (default: for ever)", "S", settings.seconds
)
_NO_FRESH = Flag("no-fresh", "run fresh_process tests in this process, once, as for a debugger")
_FRESH_TIMEOUT = Setting(
    "fresh-timeout",
    "seconds for each run of a fresh_process test (default: for ever)",
    "S",
    settings.seconds,
)
SETTINGS: tuple[Flag | Setting[object], ...] = (
    _WHOLE_RUN,
    _PATH,
    _TIMEOUT,
    _NO_FRESH,
    _FRESH_TIMEOUT,
)
"""All settings of the markers."""


def add_options(parser: pytest.Parser) -> None:
    """Register every setting with pytest."""
    settings.add_options(parser, "nvfp4-markers", "Markers for tests on shared GPUs", SETTINGS)


def settings_made(config: pytest.Config) -> list[str]:
    """The settings that were made, with their values and where these come from."""
    made = []
    for setting in SETTINGS:
        if isinstance(setting, Flag):
            chosen, source = settings.flag_and_source(config, setting)
            made += [f"{setting.name} {chosen} from {source}"] if chosen is not None else []
        else:
            places = settings.given(config, setting)
            made += [f"{setting.name} {place.text} from {place.source}" for place in places]
    return made


def whole_run_wanted(config: pytest.Config) -> bool:
    """Whether this run is to hold the lock from its start to its end."""
    return settings.flag(config, _WHOLE_RUN)


def lock_defaults(config: pytest.Config) -> LockRequest:
    """What a `gpu_lock` without options asks for in this run; the timeout None: for ever."""
    from pytest_nvfp4.markers.gpu_lock.request import LockRequest

    path = settings.value(config, _PATH, Path(DEFAULT_PATH))
    return LockRequest(path=str(path), timeout=settings.value(config, _TIMEOUT, None))


def fresh_wanted(config: pytest.Config) -> bool:
    """Whether tests may run in processes of their own; not where only their setup is asked for."""
    looking = config.getoption("setuponly", False) or config.getoption("setupplan", False)
    return not (looking or settings.flag(config, _NO_FRESH))


def fresh_timeout(config: pytest.Config) -> float | None:
    """Seconds for each fresh run of a test that names none itself; None: for ever."""
    return settings.value(config, _FRESH_TIMEOUT, None)
