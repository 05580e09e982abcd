"""Names of a package that are imported when they are first used.

A start on a frozen map reads one file and measures, multiplies and writes nothing. It should not
wait for the modules that do.
"""

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def lazy_attributes(
    package: str, homes: Mapping[str, tuple[str, ...]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a package: `homes` says which names its modules have.

    The modules themselves are there as well.
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
