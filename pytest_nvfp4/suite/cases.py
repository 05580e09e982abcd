"""The cases of the suite: each contract test, once per set of parameters and transport.

The suite expands its own parameters, by pytest's rules for ids, and does not leave that to pytest.
So the name of a case, which reports and deviations files keep, depends neither on the release of
pytest nor on a hook or an ini value of the surrounding repository.
"""

import importlib
import importlib.resources
import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pytest_nvfp4.results.verdicts import NO_TRANSPORT
from pytest_nvfp4.specification.contracts import Contract, Specification
from pytest_nvfp4.suite.marks import ARGUMENT, CONTRACT, OVER, REQUIRES, TRANSPORT_IDS
from pytest_nvfp4.upstream import items

PACKAGE = "pytest_nvfp4.conformance"

_PARAMETERS = type(pytest.param())
_LONGEST_VALUE_IN_AN_ID = 100

Key = tuple[str, str, str]
"""Contract, case, transport: what identifies a case in a report."""


@dataclass(frozen=True, slots=True)
class Case:
    """One case of one contract over one transport.

    `name` is the name of the function and the ids of its parameters without the transport, as in
    reports; `item` also has the transport and stands in node ids. `file` is the base name of the
    file; `needs` holds what an implementation must have beside the contract's capability, in the
    words of `Description.has`.
    """

    contract: Contract
    name: str
    transport: str
    file: str
    item: str
    function: Callable[..., None]
    parameters: Mapping[str, object]
    needs: frozenset[str]

    @property
    def key(self) -> Key:
        return self.contract.id, self.name, self.transport

    @property
    def nodeid(self) -> str:
        return f"{node_of(self.file)}::{self.item}"

    @property
    def wants_tools(self) -> bool:
        """Whether the function takes the argument `nvfp4`, so that it uses the implementation."""
        return self.transport != NO_TRANSPORT


def node_of(file: str) -> str:
    """The node id of a file of the suite, wherever the package is installed."""
    return f"conformance/{file}"


def suite_files() -> list[Path]:
    """The files of the suite on disk."""
    folder = importlib.resources.files(PACKAGE)
    return sorted(Path(str(file)) for file in folder.iterdir() if file.name.startswith("test_"))


def module_of(file: Path) -> ModuleType:
    """The module of a file of the suite, imported under its one real name."""
    return importlib.import_module(f"{PACKAGE}.{file.stem}")


def cases_of(file: Path, specification: Specification, transports: Sequence[str]) -> Iterator[Case]:
    """Every case of one file in the order of the file; ValueError where two have one name."""
    module, names = module_of(file), set()
    for function in list(vars(module).values()):
        if not _is_contract_test(function, module):
            continue
        for case in _expanded(function, file.name, specification, transports):
            if case.item in names:
                raise ValueError(f"{case.nodeid}: two cases have this name; give their values ids")
            names.add(case.item)
            yield case


def _is_contract_test(value: object, module: ModuleType) -> bool:
    defined_here = inspect.isfunction(value) and value.__module__ == module.__name__
    return defined_here and bool(_marks(value, CONTRACT))


def _marks(function: object, name: str) -> list[pytest.Mark]:
    return [mark for mark in reversed(items.marks_of(function)) if mark.name == name]


def _expanded(
    function: Callable[..., None],
    file: str,
    specification: Specification,
    transports: Sequence[str],
) -> Iterator[Case]:
    contract = specification.contract(_marks(function, CONTRACT)[0].args[0])
    needs = frozenset(mark.args[0] for mark in _marks(function, REQUIRES))
    stacked = [list(_sets(mark)) for mark in _marks(function, "parametrize")]
    only = {mark.args[0] for mark in _marks(function, OVER)}
    over: Sequence[str] = (NO_TRANSPORT,)
    if ARGUMENT in inspect.signature(function).parameters:
        over = [name for name in transports if not only or name in only]
    base = function.__name__
    for sets in itertools.product(*stacked):
        ids = [one.id for one in sets]
        values = {name: value for one in sets for name, value in one.values.items()}
        for transport in over:
            suffix = [] if transport == NO_TRANSPORT else [TRANSPORT_IDS[transport]]
            yield Case(
                contract=contract,
                name=_bracketed(base.removeprefix("test_"), ids),
                transport=transport,
                file=file,
                item=_bracketed(base, [*ids, *suffix]),
                function=function,
                parameters=values,
                needs=needs.union(*(one.needs for one in sets)),
            )


def _bracketed(name: str, ids: Sequence[str]) -> str:
    inside = "-".join(ids)
    return f"{name}[{inside}]" if inside else name


@dataclass(frozen=True, slots=True)
class _Set:
    """One set of values of a ``pytest.mark.parametrize``: its id, its values, what it needs."""

    id: str
    values: Mapping[str, object]
    needs: frozenset[str]


def _sets(mark: pytest.Mark) -> Iterator[_Set]:
    names, rows = mark.args
    names = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    ids = mark.kwargs.get("ids")
    for index, row in enumerate(rows):
        marks: Iterable[Any] = ()
        values = row if len(names) > 1 else (row,)
        if isinstance(row, _PARAMETERS):
            values, marks = row.values, row.marks
        if ids is None or callable(ids):
            parts = [_id(v, name, index, ids) for name, v in zip(names, values, strict=True)]
        else:
            parts = [_escaped(ids[index])]
        needs = frozenset(mark.args[0] for mark in marks if mark.name == REQUIRES)
        yield _Set("-".join(parts), dict(zip(names, values, strict=True)), needs)


def _id(value: object, name: str, index: int, make: Callable[[object], str] | None) -> str:
    """The id of one value, as pytest makes it where nothing is configured."""
    if make is not None:
        return _escaped(make(value))
    if isinstance(value, str | bytes) and len(value) <= _LONGEST_VALUE_IN_AN_ID:
        return _escaped(value)
    if value is None or isinstance(value, int | float):
        return str(value)
    return f"{name}{index}"


def _escaped(text: str | bytes) -> str:
    text = text.decode("latin-1") if isinstance(text, bytes) else text
    return text.encode("unicode_escape").decode("ascii")
