"""How to start a fresh process that runs one test as this run would.

The child is given the arguments of this run, whole, so that pytest finds the same root, ini file,
plugins, conftest files and options; only what it collects is narrowed, once all of these are there.
"""

import contextlib
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

BOOTSTRAP = Path(__file__).with_name("bootstrap.py")

PATH_AT_START = tuple(entry for entry in sys.path if isinstance(entry, str))
"""The import path when the first fresh test was collected, but for what Python ignores in it."""

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
        letters = letters.replace("i", "")  # nobody is there to talk to afterwards
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
    """What to collect instead of the run's own paths; the child then takes the one test of it.

    A path that holds a bracket cannot be told from a parameter: then the folder above is collected;
    nor can a name that holds two colons be told from two names: then the whole file is.
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
    """What the child is told besides the arguments of this run, by options.

    What has to be switched off, since plugins act on it early; and the plugins that `pytest.main`
    was given, but for objects, which only this process has.
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
    workerinput: dict[str, Any]

    @classmethod
    def of(cls, config: pytest.Config) -> "Launcher":
        """Read it off a configured run."""
        arguments = [str(argument) for argument in config.invocation_params.args]
        # Before a "--", since everything after that is a path.
        end = arguments.index("--") if "--" in arguments else len(arguments)
        arguments[end:end] = extra_arguments(config)
        color = str(config.getoption("color", "auto"))
        if config.pluginmanager.has_plugin("terminalreporter"):
            # The child has no terminal to ask: let it decide as this one did.
            color = "yes" if config.get_terminal_writer().hasmarkup else "no"
        return cls(
            command=(sys.executable, *interpreter_flags(sys.orig_argv), str(BOOTSTRAP)),
            arguments=tuple(arguments),
            folder=config.invocation_params.dir,
            color=color,
            workerinput=_workerinput(config),
        )

    def letter(self, item: pytest.Item) -> dict[str, Any]:
        """What the child is told of a test, besides which run it is."""
        return {
            "parent": os.getpid(),
            "argv": list(sys.argv),
            "path": list(PATH_AT_START),
            "arguments": list(self.arguments),
            "collect": narrowed_arguments(item, self.folder),
            "test": test_id(item),
            "color": self.color,
            "workerinput": self.workerinput,
        }


def _workerinput(config: pytest.Config) -> dict[str, Any]:
    """What makes plugins leave files and caches to the parent, as they do under pytest-xdist.

    In a worker it is that worker's own. Elsewhere the name is the one that pytest-xdist gives to a
    run without workers, and plugins are asked what they would tell one.
    """
    told: dict[str, Any] = dict(getattr(config, "workerinput", {}))
    if not told:
        told = {
            "workerid": "master",
            "workercount": 1,
            "testrunuid": f"fresh-{os.getpid()}",
            "mainargv": list(sys.argv),
        }
        node = SimpleNamespace(
            config=config, workerinput=told, gateway=SimpleNamespace(id="master")
        )
        tell = getattr(config.hook, "pytest_configure_node", None)
        for implementation in tell.get_hookimpls() if tell is not None else ():
            # One that needs a real worker has nothing to say to this one.
            with contextlib.suppress(Exception):
                implementation.function(node=node)
    return {name: value for name, value in told.items() if _is_plain(value)}


def _is_plain(value: object) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_plain(one) for key, one in value.items())
    return value is None or isinstance(value, str | int | float)
