"""Paths as markers name them, and the error for what a marker cannot mean."""

import os
from collections.abc import Mapping
from pathlib import Path


class RequestError(ValueError):
    """A marker that asks for something that does not exist; the text is one sentence."""


def expand(mark: str, path: str, environment: Mapping[str, str], folder: Path) -> Path:
    """An absolute path; a leading ``~`` or ``$HOME`` is the caller's home.

    A relative path starts at `folder`. Links are left as they are.
    """
    for start in ("~/", "$HOME/", "${HOME}/"):
        if path.startswith(start):
            home = environment.get("HOME")
            if not home:
                raise RequestError(f"{mark}(path={path!r}) needs HOME, which is not set; set it")
            path = str(Path(home, path.removeprefix(start)))
    return Path(os.path.normpath(folder / path))
