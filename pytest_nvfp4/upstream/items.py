"""Tests as pytest collects them."""

from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

import pytest

__all__ = ["Parameters", "fixture_name", "marks_of", "module_of", "parameters"]


class Parameters(NamedTuple):
    """A test's parameter id, the text in the brackets of its name, and its values by name."""

    id: str
    values: dict[str, Any]


def parameters(item: pytest.Item) -> Parameters | None:
    """What a test is parametrized with; None where it is not.

    Reason: the documented name of a test has the parameters' ids joined into one text, from which
    one of them cannot be read off. `callspec` is what all plugins use.
    """
    callspec = getattr(item, "callspec", None)
    return None if callspec is None else Parameters(callspec.id, dict(callspec.params))


ModuleT = TypeVar("ModuleT", bound=pytest.Module)


def module_of(
    kind: type[ModuleT],
    parent: pytest.Collector,
    *,
    path: Path,
    nodeid: str,
    module: ModuleType,
    **arguments: Any,
) -> ModuleT:
    """The collector of a test file that is already imported, under a node id of our choice.

    `kind` is its class, which takes `arguments` besides.

    Reason: the file is imported under its one real name whatever ``--import-mode`` is, and has the
    same node id wherever it is installed. `from_parent` takes `nodeid` from any node, and sets of a
    module without importing it again as soon as `obj` is there; neither is documented.
    """
    collector: ModuleT = kind.from_parent(parent, path=path, nodeid=nodeid, **arguments)
    collector.obj = module
    return collector


def marks_of(function: object) -> list[pytest.Mark]:
    """The marks that decorators have put on a test function, the last one first.

    Reason: without a collected test there is no documented way to read them.
    """
    return list(reversed(getattr(function, "pytestmark", [])))


def fixture_name(fixturedef: pytest.FixtureDef[object]) -> str:
    """The name by which tests ask for a fixture; for the hook `pytest_fixture_setup`.

    Reason: `FixtureDef` documents its scope, and not its name.
    """
    return fixturedef.argname
