"""How to start a fresh process that runs one test as this run would.

The child gets the command line of this run, whole, so that pytest finds the same root, ini file,
plugins, conftest files and options; what it collects is narrowed after all of these are loaded.
"""

import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pytest_nvfp4.upstream import runs, workers

BOOTSTRAP = Path(__file__).with_name("bootstrap.py")

PATH_AT_START = tuple(entry for entry in sys.path if isinstance(entry, str))
"""The import path when the first fresh test was collected, without entries that Python ignores."""

_BUNDLE = re.compile(r"-([^cmWX]*)([cmWX]?)(.*)", re.DOTALL)
"""A word of options: letters, perhaps one that takes a value, and that value."""


def interpreter_flags(orig_argv: Sequence[str]) -> list[str]:
    """The options of a Python command line (`sys.orig_argv`), without what it runs.

    Source: the Python documentation, "Command line and environment", interface options.
    """
    flags = []
    words = iter(orig_argv[1:])
    for word in words:
        if word == "--check-hash-based-pycs":
            flags += [word, next(words, "default")]
            continue
        if not word.startswith("-") or word in ("-", "--"):
            break
        match = _BUNDLE.fullmatch(word)
        assert match is not None, "it matches any word that begins so"
        letters, taking, value = match.groups()
        letters = letters.replace("i", "")  # the child is not interactive
        if taking in ("W", "X"):
            flags.append(f"-{letters}{taking}{value}")
            if not value:
                flags.append(next(words, ""))
            continue
        if letters:
            flags.append(f"-{letters}")
        if taking:  # what to run begins here
            break
    return flags


def test_id(item: pytest.Item) -> str:
    """A test's node id as collected: pytest-xdist may have added the name of a group since."""
    parent = item.parent
    return f"{parent.nodeid}::{item.name}" if parent is not None else item.nodeid


def narrowed_arguments(item: pytest.Item, folder: Path) -> list[str]:
    """What to collect instead of the run's own paths; of that, the child keeps the one test.

    pytest takes a bracket in a path for a parameter: then the folder above is collected. It takes a
    name with two colons for two names: then the whole file is.
    """
    path = str(item.path)
    if "[" in path or "::" in path:
        above = Path(path)
        while "[" in str(above) or "::" in str(above):
            above = above.parent
        return [str(above if above != Path("/") else folder)]
    if "::" in item.name.partition("[")[0]:
        return [path]
    _, _, inside = test_id(item).partition("::")
    return [f"{path}::{inside}" if inside else path]


def extra_arguments(config: pytest.Config) -> list[str]:
    """The options that the child gets besides the command line of this run.

    They switch off plugins that act before the child's own plugin can, and name the plugins that
    `pytest.main` was given, without objects, which only this process has.
    """
    has = config.pluginmanager.has_plugin
    extra = []
    for plugin in config.invocation_params.plugins or ():
        name = plugin.__name__ if isinstance(plugin, ModuleType) else plugin
        if isinstance(name, str) and name != "__main__":
            extra += ["-p", name]
    if has("xdist"):
        extra.append("-n0")
    if has("pytest_cov"):
        extra.append("--no-cov")  # coverage measures subprocesses itself; see the README
    return extra


@dataclass(frozen=True, slots=True)
class Launcher:
    """What all fresh processes of a run have in common."""

    command: tuple[str, ...]
    arguments: tuple[str, ...]
    folder: Path
    color: str
    worker: dict[str, Any]

    @classmethod
    def of(cls, config: pytest.Config) -> "Launcher":
        """What a configured run has."""
        arguments = [str(argument) for argument in config.invocation_params.args]
        # Before a "--", since everything after that is a path.
        end = arguments.index("--") if "--" in arguments else len(arguments)
        arguments[end:end] = extra_arguments(config)
        color = str(config.getoption("--color", "auto"))
        colored = runs.colored(config)
        if colored is not None:  # the child has no terminal by which it could decide
            color = "yes" if colored else "no"
        return cls(
            command=(sys.executable, *interpreter_flags(sys.orig_argv), str(BOOTSTRAP)),
            arguments=tuple(arguments),
            folder=config.invocation_params.dir,
            color=color,
            worker=workers.input_for_stand_in(config),
        )

    def message(self, item: pytest.Item) -> dict[str, Any]:
        """What the child needs to run a test, besides which run it is."""
        return {
            "parent": os.getpid(),
            "argv": list(sys.argv),
            "path": list(PATH_AT_START),
            "arguments": list(self.arguments),
            "collect": narrowed_arguments(item, self.folder),
            "test": test_id(item),
            "color": self.color,
            "worker": self.worker,
        }
