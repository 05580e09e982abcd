"""Settings: each is a command-line option, an environment variable and an ini value.

The command line wins over the environment, which wins over the ini file. A relative path starts at
the ini file's folder where the ini file names it, and elsewhere at the folder that pytest was
started in. Every part of the plugin declares its settings with these classes; nothing here imports
pytest, so that the command line can read the declarations too.
"""

from __future__ import annotations

import difflib
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from pytest_nvfp4.errors import UsageError

if TYPE_CHECKING:
    import pytest

T = TypeVar("T")
D = TypeVar("D")
T_co = TypeVar("T_co", covariant=True)


class Given(NamedTuple):
    """A value as it was written: where, and the folder that a relative path in it starts at."""

    text: str
    source: str
    folder: Path


Reader = Callable[[Given], T]
"""Makes a value of what was written; UsageError, one sentence, where it cannot."""


@dataclass(frozen=True, slots=True)
class _Named:
    name: str
    help: str

    @property
    def option(self) -> str:
        """The option, ``--nvfp4-NAME``."""
        return f"--nvfp4-{self.name}"

    @property
    def ini(self) -> str:
        """The ini name, ``nvfp4_NAME``, which is also pytest's name of the option's value."""
        return f"nvfp4_{self.name.replace('-', '_')}"

    @property
    def variable(self) -> str:
        """The environment variable, ``NVFP4_NAME``."""
        return self.ini.upper()


@dataclass(frozen=True, slots=True)
class Flag(_Named):
    """A setting that is on or off."""

    @property
    def opposite(self) -> str:
        """The option that turns it off, whatever the environment and the ini file say."""
        if self.name.startswith("no-"):
            return f"--nvfp4-{self.name.removeprefix('no-')}"
        return f"--no-nvfp4-{self.name}"


@dataclass(frozen=True, slots=True)
class Setting(_Named, Generic[T_co]):
    """A setting with a value, which `read` makes of what was written."""

    metavar: str
    read: Reader[T_co]
    repeatable: bool = False


def add_options(
    parser: pytest.Parser, group: str, title: str, settings: Iterable[Flag | Setting[object]]
) -> None:
    """Register settings with pytest under a heading of its help text."""
    options = parser.getgroup(group, title)
    for setting in settings:
        described = f"{setting.help} [{setting.option}, {setting.variable}]"
        if isinstance(setting, Flag):
            undo = f"undo {setting.option}, {setting.variable} and {setting.ini}"
            options.addoption(
                setting.option,
                action="store_true",
                default=None,
                dest=setting.ini,
                help=setting.help,
            )
            options.addoption(
                setting.opposite, action="store_false", default=None, dest=setting.ini, help=undo
            )
            parser.addini(setting.ini, described, type="bool", default=None)
            continue
        options.addoption(
            setting.option,
            action="append" if setting.repeatable else "store",
            default=None,
            dest=setting.ini,
            help=setting.help,
            metavar=setting.metavar,
        )
        if setting.repeatable:
            parser.addini(setting.ini, described, type="paths", default=None)
        else:
            parser.addini(setting.ini, described, default=None)


def flag(config: pytest.Config, setting: Flag) -> bool:
    """Whether a flag is on."""
    return flag_and_source(config, setting)[0] is True


def flag_and_source(config: pytest.Config, setting: Flag) -> tuple[bool | None, str]:
    """Whether a flag is on, None where it is set nowhere, and where it is set."""
    chosen = config.getoption(setting.ini)
    if chosen is not None:
        return chosen, setting.option if chosen else setting.opposite
    text = os.environ.get(setting.variable)
    if text:
        words = {"1": True, "true": True, "on": True, "0": False, "false": False, "off": False}
        if text.lower() not in words:
            raise _pytest_error(f"{setting.variable} is {text!r}; use true or false")
        return words[text.lower()], setting.variable
    value: bool | None = _ini_value(config, setting, "true or false")
    return value, _in_ini(setting)


def given(config: pytest.Config, setting: Setting[object]) -> list[Given]:
    """What was written for a setting, in the place that wins; an empty text counts as unset."""
    here = config.invocation_params.dir
    chosen = config.getoption(setting.ini)
    if chosen not in (None, "", []):
        texts = chosen if setting.repeatable else [chosen]
        return [Given(str(text), setting.option, here) for text in texts]
    text = os.environ.get(setting.variable)
    if text:
        texts = text.split() if setting.repeatable else [text]
        return [Given(part, setting.variable, here) for part in texts]
    form = "a list of file names" if setting.repeatable else "a text in quotes"
    value = _ini_value(config, setting, form)
    texts = value if setting.repeatable else [value]
    there = here if config.inipath is None else config.inipath.parent
    return [Given(str(text), _in_ini(setting), there) for text in texts or () if text]


def values(config: pytest.Config, setting: Setting[T]) -> list[T]:
    """The values of a setting, read; pytest.UsageError, one sentence, for a bad one."""
    with usage_errors():
        return [setting.read(one) for one in given(config, setting)]


def value(config: pytest.Config, setting: Setting[T], default: D) -> T | D:
    """The value of a setting, or the default; pytest.UsageError, one sentence, for a bad one."""
    return next(iter(values(config, setting)), default)


def refuse_misspelt(
    config: pytest.Config,
    settings: Iterable[Flag | Setting[object]],
    variables: Mapping[str, str] = os.environ,
) -> None:
    """Raise pytest.UsageError for a variable or an ini name that only nearly names a setting.

    Other names that begin like ours, such as those of an adapter, are left alone.
    """
    known = {setting.ini.removeprefix("nvfp4_") for setting in settings}
    written = [(name, name.lower()) for name in variables if name.startswith("NVFP4_")]
    written += [(name, name) for name in _ini_names(config)]
    for name, lower in written:
        rest = lower.removeprefix("nvfp4_")
        if rest in known or rest.startswith(("reference_", "vllm_", "lock_holds")):
            continue
        near = difflib.get_close_matches(rest, sorted(known), 1, cutoff=0.7)
        if near:
            upper = name != lower
            meant = f"nvfp4_{near[0]}".upper() if upper else f"nvfp4_{near[0]}"
            where = "environment variable" if upper else "ini name"
            raise _pytest_error(f"the {where} {name} sets nothing; did you mean {meant}?")


def _ini_names(config: pytest.Config) -> Iterator[str]:
    """The names in the ini file and in ``-o`` that begin with nvfp4_."""
    for override in config.getoption("override_ini", None) or ():
        if override.startswith("nvfp4_"):
            yield override.partition("=")[0]
    try:
        text = config.inipath.read_text(encoding="utf-8") if config.inipath else ""
    except (OSError, UnicodeDecodeError):
        return  # pytest has read it, so it was changed since
    if config.inipath is None or "nvfp4_" not in text:
        return
    names: Iterable[str]
    if config.inipath.suffix == ".toml":
        names = _toml_names(text)
    else:
        section = r"^\[(?:tool:)?pytest\]\s*?$(.*?)(?=^\[|\Z)"
        found = re.search(section, text, re.MULTILINE | re.DOTALL)
        names = re.findall(r"^(nvfp4_\w+)\s*[=:]", found[1], re.MULTILINE) if found else ()
    yield from (name for name in names if name.startswith("nvfp4_"))


def _toml_names(text: str) -> Iterator[str]:
    import tomllib

    root = tomllib.loads(text)
    tool = root.get("tool", {}).get("pytest", {})
    for table in (root.get("pytest", {}), tool, tool.get("ini_options", {})):
        yield from table


def _in_ini(setting: _Named) -> str:
    return f"{setting.ini} in the ini file"


def _ini_value(config: pytest.Config, setting: _Named, form: str) -> Any:
    import pytest

    try:
        return config.getini(setting.ini)
    except (TypeError, ValueError, pytest.UsageError):  # pytest 9.2 raises its own error
        raise _pytest_error(
            f"{_in_ini(setting)} has a value that does not fit; write {form}"
        ) from None


@contextmanager
def usage_errors() -> Iterator[None]:
    """Turn a UsageError into pytest's, which pytest shows as a sentence with exit status 4."""
    try:
        yield
    except UsageError as error:
        raise _pytest_error(str(error)) from None


def _pytest_error(sentence: str) -> Exception:
    import pytest

    return pytest.UsageError(sentence)


# --- Readers


def text(given: Given) -> str:
    """The text as it was written."""
    return given.text


def seconds(given: Given) -> float:
    """A number of seconds above 0 and below a day."""
    try:
        number = float(given.text)
    except ValueError:
        number = 0
    if not 0 < number < 86400:
        raise UsageError(f"{given.source} is {given.text!r}; use a number of seconds above 0")
    return number


def non_negative(given: Given) -> int:
    """An integer from 0, of at most 19 digits."""
    if not (given.text.isascii() and given.text.isdigit() and len(given.text) < 20):
        raise UsageError(f"{given.source} is {given.text!r}; use a non-negative integer")
    return int(given.text)


def one_of(*choices: str) -> Reader[str]:
    """A reader of one of a few words."""

    def read(given: Given) -> str:
        if given.text not in choices:
            raise UsageError(f"{given.source} is {given.text!r}; use {' or '.join(choices)}")
        return given.text

    return read


def program(given: Given) -> str:
    """A program that can be run: a path, or a name on the PATH."""
    found = shutil.which(str(given.folder / given.text)) or shutil.which(given.text)
    if found is None:
        raise UsageError(f"{given.source} is {given.text!r}; name a Python that can be run")
    return found


def input_file(*suffixes: str) -> Reader[Path]:
    """A reader of the absolute path of a file to read, whose name has one of the suffixes."""

    def read(given: Given) -> Path:
        return _path(given, suffixes)

    return read


def output_file(*suffixes: str) -> Reader[Path]:
    """A reader of the absolute path of a file to write, whose name has one of the suffixes.

    It also finds out that the file can be written later. For that it leaves and changes nothing.
    """

    def read(given: Given) -> Path:
        path = _path(given, suffixes)
        _try_to_write(given, path)
        return path

    return read


def output_folder(given: Given) -> Path:
    """The absolute path of a folder to write files in; it is made when the first one is written."""
    path = given.folder / given.text
    _try_to_write(given, path / "file")
    return path


def _path(given: Given, suffixes: tuple[str, ...]) -> Path:
    path = given.folder / given.text
    if path.suffix not in suffixes:
        raise UsageError(
            f"{given.source} is {given.text!r}; its name must end in {' or '.join(suffixes)}"
        )
    return path


def _try_to_write(given: Given, path: Path) -> None:
    """UsageError where a file cannot be made at a path, or replaced there."""
    place = Path(os.path.realpath(path))
    try:
        if place.is_dir():
            raise IsADirectoryError(None, "it is a folder")
        if place.exists() and not place.is_file():  # a pipe or a device, which is written to
            if not os.access(place, os.W_OK):
                raise PermissionError(None, "Permission denied")
            return
        place = place.parent
        while not place.exists():  # missing folders are made when the file is written
            place = place.parent
        with tempfile.TemporaryFile(dir=place):  # a file without a name
            pass
    except OSError as error:
        raise UsageError(
            f"{given.source} is {given.text!r}, where no file can be written: {error.strerror} "
            f"({place}); name another place"
        ) from None
