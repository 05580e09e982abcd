"""What all markers share: their options, the paths in them, and the error for a wrong one."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pytest_nvfp4.errors import UsageError

__all__ = ["Marks", "RequestError", "expand", "named_options"]

Marks = Iterable[tuple[tuple[object, ...], Mapping[str, object]]]
"""A test's markers of one name, the closest first: (arguments, options) of each."""


class RequestError(UsageError):
    """A marker with an option that does not exist or is not possible; the text is one sentence."""


def named_options(mark: str, marks: Marks, forms: Mapping[str, str], hint: str) -> dict[str, Any]:
    """The options of a test's markers; the closest marker that gives an option wins.

    `forms` describes every option that the marker has. `hint` says what to write instead of a value
    without a name: its `{}` is that value. Raises RequestError.
    """
    options: dict[str, Any] = {}
    for arguments, given in marks:
        if arguments:
            raise RequestError(
                f"{mark} takes named options only; {hint.format(repr(arguments[0]))}"
            )
        unknown = next((name for name in given if name not in forms), None)
        if unknown is not None:
            raise RequestError(f"{mark} has no option {unknown!r}; it has {', '.join(forms)}")
        options = {**given, **options}
    return options


def expand(mark: str, path: str, environment: Mapping[str, str], folder: Path) -> Path:
    """An absolute path; a leading ``~`` or ``$HOME`` is the caller's home.

    A relative path starts at `folder`. Links are left as they are. Raises RequestError.
    """
    for start in ("~/", "$HOME/", "${HOME}/"):
        if path.startswith(start):
            home = environment.get("HOME")
            if not home:
                raise RequestError(f"{mark}(path={path!r}) needs HOME, which is not set; set it")
            path = str(Path(home, path.removeprefix(start)))
    return Path(os.path.normpath(folder / path))
