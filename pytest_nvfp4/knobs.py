"""One setting, three ways to set it: a command-line option, an environment variable, an ini value.

The precedence is that order: the command line wins over the environment, which wins over the ini
file. Every part of the plugin declares its settings as knobs.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pytest


@dataclass(frozen=True, slots=True)
class Knob:
    """One setting: ``--nvfp4-NAME``, ``NVFP4_NAME`` and ``nvfp4_name``."""

    name: str
    help: str
    metavar: str | None = None  # None: a flag
    repeatable: bool = False

    @property
    def option(self) -> str:
        return f"--nvfp4-{self.name}"

    @property
    def ini(self) -> str:
        return f"nvfp4_{self.name.replace('-', '_')}"

    @property
    def variable(self) -> str:
        return self.ini.upper()


def add_knobs(parser: pytest.Parser, group: str, title: str, knobs: Iterable[Knob]) -> None:
    """Register knobs under a heading of the help text."""
    options = parser.getgroup(group, title)
    for knob in knobs:
        action = "store_true" if knob.metavar is None else "append" if knob.repeatable else "store"
        values = {} if knob.metavar is None else {"metavar": knob.metavar}
        options.addoption(
            knob.option, action=action, default=None, dest=knob.ini, help=knob.help, **values
        )
        parser.addini(knob.ini, f"{knob.help} [{knob.option}, {knob.variable}]", default=None)


def raw_value(
    config: pytest.Config, knob: Knob, variables: Mapping[str, str]
) -> tuple[object, str]:
    """A knob's value, None where unset, and where it was set; empty values count as unset."""
    value: object = config.getoption(knob.ini)
    if value not in (None, "", []):
        return value, knob.option
    for value, source in (
        (variables.get(knob.variable), knob.variable),
        (config.getini(knob.ini), f"{knob.ini} in the ini file"),
    ):
        if value:
            return (str(value).split() if knob.repeatable else value), source
    return None, "the default"


def flag(config: pytest.Config, knob: Knob) -> bool:
    """Whether a flag is set."""
    value, source = raw_value(config, knob, os.environ)
    if value in (None, False, True):
        return bool(value)
    words = {"1": True, "true": True, "on": True, "0": False, "false": False, "off": False}
    if str(value).lower() not in words:
        raise pytest.UsageError(f"{source} is {value!r}; use true or false")
    return words[str(value).lower()]


def seconds(value: str | None, source: str) -> float:
    """A number of seconds above 0 and below a day."""
    try:
        number = float(value or "")
    except ValueError:
        number = 0
    if not 0 < number < 86400:
        raise pytest.UsageError(f"{source} is {value!r}; use a number of seconds above 0")
    return number
