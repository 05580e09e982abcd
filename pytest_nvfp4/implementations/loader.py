"""Find an implementation by the name that the user typed.

``reference``
    a name that some distribution registers in the entry-point group ``nvfp4.implementations``, or
    in ``nvfp4.served`` for a Python adapter that changes its process: that one always runs in a
    process of its own
``package.module:attribute``
    a Python adapter: an object with the operations, or a class or function that makes one;
    the module may lie in the current directory. An object or module with only ``load`` and ``save``
    is enough for the document contracts (see `load_save`); such a module can be named alone
``exec:./adapter --flag``
    an executable that speaks JSON lines, with arguments in shell quoting (no shell runs it)
"""

import difflib
import importlib
import importlib.metadata
import importlib.util
import inspect
import os
import shlex
import shutil
import sys
import types
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pytest_nvfp4.errors import UsageError
from pytest_nvfp4.implementations.load_save import LoadSave, LoadSaveError
from pytest_nvfp4.implementations.operations import OPERATIONS
from pytest_nvfp4.implementations.transports import IN_PROCESS, JSON_LINES, InProcess, JsonLines

GROUP = "nvfp4.implementations"
SERVED = "nvfp4.served"


class TargetError(UsageError):
    """The named implementation cannot be found or made; the text is one sentence."""


@dataclass(frozen=True, slots=True)
class Target:
    """An implementation that was found: the name that the user typed, and how to reach it.

    `reference` is the ``module:attribute`` of a Python adapter, None for an executable; a `served`
    one is driven only in a process of its own.
    """

    text: str
    reference: str | None
    command: tuple[str, ...]
    served: bool = False

    @property
    def transports(self) -> tuple[str, ...]:
        """The transports that this implementation can be driven over."""
        return (IN_PROCESS, JSON_LINES) if self.reference and not self.served else (JSON_LINES,)

    def make_adapter(self) -> object:
        """Import a Python adapter and return a fresh object; TargetError where that fails."""
        found = self._attribute()
        if isinstance(found, type) or (callable(found) and not hasattr(found, "describe")):
            try:
                found = found()
            except Exception as error:
                what = f"{type(error).__name__}: {error}"
                raise TargetError(f"calling {self.reference!r} raised {what}") from error
        if not hasattr(found, "describe") and hasattr(found, "load"):
            try:
                return LoadSave(found, self.text)
            except LoadSaveError as error:
                raise TargetError(str(error)) from None
        if not any(callable(getattr(found, operation, None)) for operation in OPERATIONS):
            raise TargetError(
                f"{self.reference!r} has none of the adapter's operations; it needs describe, or "
                "load and save"
            )
        return found

    def source(self) -> tuple[Path, int] | None:
        """The file and the line of the adapter's source; None where they are unknown."""
        if self.reference is None:
            return next(((Path(word), 1) for word in self.command if _is_text(word)), None)
        try:
            found = self._attribute()
            kinds = (type, types.FunctionType, types.ModuleType)
            written = found if isinstance(found, kinds) else type(found)
            file = inspect.getsourcefile(written)
            line = 1 if inspect.ismodule(written) else inspect.getsourcelines(written)[1]
        except (TargetError, TypeError, OSError):
            return None
        return None if file is None else (Path(file), line)

    def _attribute(self) -> object:
        """Import what the user named."""
        if self.reference is None:
            raise TargetError(
                f"{self.text} is an executable; only a Python adapter can be imported"
            )
        module_name, _, attribute = self.reference.partition(":")
        try:
            found: object = importlib.import_module(module_name)
        except ImportError as error:
            raise TargetError(
                f"cannot import {module_name!r} for {self.text!r}: {error}"
            ) from error
        except Exception as error:
            what = f"{type(error).__name__}: {error}"
            raise TargetError(f"importing {module_name!r} raised {what}") from error
        for name in attribute.split(".") if attribute else ():
            if not hasattr(found, name):
                raise TargetError(
                    f"{module_name!r} has no attribute {attribute!r}; see {self.text!r}"
                )
            found = getattr(found, name)
        return found

    def json_lines(
        self,
        *,
        timeout: float,
        prefix: tuple[str, ...] = (),
        variables: Mapping[str, str] | None = None,
        folder: str | None = None,
    ) -> JsonLines:
        """A transport to a process of its own, started behind `prefix` (strace, say)."""
        environment = dict(os.environ) | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        return JsonLines(
            (*prefix, *self.command),
            timeout=timeout,
            environment=environment | dict(variables or {}),
            folder=folder,
        )

    def in_process(self) -> InProcess:
        """A transport to a fresh Python object."""
        return InProcess(self.make_adapter())


def load(text: str) -> Target:
    """Find the implementation named by `text`; TargetError where there is none."""
    kind, _, rest = text.partition(":")
    if kind == "exec":
        return _executable(text, rest)
    if rest:
        if not all(part.isidentifier() for part in (*kind.split("."), *rest.split("."))):
            raise TargetError(f"{text!r} is not of the form package.module:attribute")
        return _python(text, text)
    registered = {
        entry.name: entry
        for group in (SERVED, GROUP)
        for entry in importlib.metadata.entry_points(group=group)
    }
    if text in registered:
        entry = registered[text]
        return _python(text, entry.value.replace(" ", ""), served=entry.group == SERVED)
    if _is_module(text):
        return _python(text, text)
    near = difflib.get_close_matches(text, registered, 1)
    hint = f"did you mean {near[0]!r}?" if near else f"known names: {', '.join(sorted(registered))}"
    raise TargetError(
        f"unknown implementation {text!r}; {hint} (or package.module:attribute, or exec:COMMAND)"
    )


def _is_text(word: str) -> bool:
    """Whether a word of a command names a text file."""
    try:
        if not os.path.isfile(word):
            return False
        with open(word, "rb") as file:
            return b"\0" not in file.read(1024)
    except OSError:
        return False


def _is_module(text: str) -> bool:
    """Whether there is a module of this name; importing its parent packages may fail."""
    _search_current_folder()
    try:
        return (
            all(part.isidentifier() for part in text.split("."))
            and importlib.util.find_spec(text) is not None
        )
    except (ImportError, ValueError):
        return False


def _search_current_folder() -> None:
    """Let modules of the current folder be found, after everything that is installed."""
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.append(here)


def _python(text: str, reference: str, *, served: bool = False) -> Target:
    _search_current_folder()
    server = (sys.executable, "-m", "pytest_nvfp4.implementations.server", text)
    return Target(text, reference, server, served)


def _executable(text: str, line: str) -> Target:
    try:
        command = shlex.split(line)
    except ValueError as error:
        raise TargetError(f"cannot read the command {line!r}: {error}") from None
    if not command:
        raise TargetError("exec: needs a command, as in exec:./adapter")
    program = shutil.which(command[0])
    if program is None:
        raise TargetError(
            f"there is no executable {command[0]!r}; check its path and its mode bits"
        )
    return Target(text, None, (os.path.abspath(program), *command[1:]))
