"""Names of a package that are imported when they are first used.

A start on a frozen map reads one file and measures, multiplies and writes nothing. It should not
wait for the modules that do.
"""

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def lazily(package: str, homes: Mapping[str, tuple[str, ...]]) -> Callable[[str], Any]:
    """The `__getattr__` of a package: `homes` says which names each of its modules has."""
    home = {name: module for module, names in homes.items() for name in names}

    def attribute(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{package}.{home[name]}"), name)

    return attribute
