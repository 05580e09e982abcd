"""Import the names of a package when they are first used.

A start on a frozen map reads one file; it does not measure, multiply or write. So it does not
import the modules that do.
"""

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def lazy_attributes(
    package: str, homes: Mapping[str, tuple[str, ...]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a package.

    `homes` maps each module of the package to the names that it provides. The modules are
    attributes as well.
    """
    home = {name: module for module, names in homes.items() for name in names}

    def attribute(name: str) -> Any:
        if name in homes:
            return importlib.import_module(f"{package}.{name}")
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{package}.{home[name]}"), name)

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes, *home})

    return attribute, names
