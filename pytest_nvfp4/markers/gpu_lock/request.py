"""What `@pytest.mark.gpu_lock` asks for."""

import os
from dataclasses import dataclass, replace

from pytest_nvfp4.markers.gpu_lock import DEFAULT_PATH, MARK
from pytest_nvfp4.markers.gpu_lock.devices import Devices, check_devices
from pytest_nvfp4.markers.requests import Marks, RequestError, named_options

FUNCTION, SESSION = "function", "session"

_FORMS = {
    "path": "a path, such as '/tmp/gpu'",
    "timeout": "a number of seconds above 0",
    "devices": "'visible', or a list of indices and UUIDs without repetition",
    "scope": "'function' or 'session'",
    "require_idle": "True or False",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LockRequest:
    """What a test asks for; without `devices`, the whole machine. `timeout` is in seconds."""

    path: str = DEFAULT_PATH
    timeout: float | None = None
    devices: Devices | None = None
    scope: str = FUNCTION
    require_idle: bool = False


def read_request(marks: Marks, defaults: LockRequest) -> LockRequest:
    """What a test's markers ask for; raises RequestError.

    Each marker is (arguments, options); the closest that gives an option wins.
    """
    options = named_options(MARK, marks, _FORMS, "write path={} if that is a path")
    checked = {name: _checked(name, value) for name, value in options.items()}
    return replace(defaults, **checked)  # type: ignore[arg-type]


def _checked(name: str, value: object) -> object:
    wrong = RequestError(f"{MARK}({name}={value!r}) is not possible; use {_FORMS[name]}")
    match name:
        case "path":
            good = isinstance(value, str | os.PathLike) and str(value) and "\0" not in str(value)
            value = str(value)
        case "timeout":
            number = isinstance(value, int | float) and not isinstance(value, bool)
            good = value is None or (number and 0 < value < 86400)  # type: ignore[operator]
        case "devices":
            good = value is None or (value := check_devices(value)) is not None
        case "scope":
            good = value in (FUNCTION, SESSION)
        case _:
            good = isinstance(value, bool)
    if not good:
        raise wrong
    return value
