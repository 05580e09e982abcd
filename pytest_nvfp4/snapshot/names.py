"""Where a test's snapshots lie: one file for each test, in the snapshot folder beside its module.

Names say what they belong to where that is possible. A test whose id has other characters than a
file name should, or too many, gets a digest of its id behind a ``~``, which no plain name has: so
no two tests share a file, and none leaves the folder.
"""

import hashlib
import os
import re
from pathlib import Path

import pytest

EXTENSION = "plans"

_PLAIN = re.compile(r"[A-Za-z0-9_.,=+@()\[\]-]+")
_OTHER = re.compile(r"[^A-Za-z0-9_.,=+@()\[\]-]+")
_LONGEST = 120
_KEPT = 80


def id_within_module(item: pytest.Item) -> str:
    """A test's name within its module: ``TestClass.test_name[parameters]``."""
    classes = [node.name for node in item.listchain() if isinstance(node, pytest.Class)]
    return ".".join([*classes, item.name])


def stem(test: str) -> str:
    """The file's name without extension."""
    if len(test) <= _LONGEST and _PLAIN.fullmatch(test) and not test.startswith("."):
        return test
    digest = hashlib.sha256(test.encode("utf-8", "surrogatepass")).hexdigest()
    kept = _OTHER.sub("_", test)[:_KEPT].lstrip(".")
    return f"{kept}~{digest[:16]}"


def folder(module: Path, dirname: str, root: Path) -> Path:
    """The folder of a module's snapshots; `dirname` is that of syrupy, beside the module.

    Where `dirname` leads out of the module's own folder, modules of several folders meet there, so
    they are told apart by their folder under the root.
    """
    beside = Path(os.path.normpath(module.parent / dirname))
    if module.parent not in beside.parents:
        beside = Path(os.path.normpath(f"{beside}/{_below(module.parent, root)}"))
    return beside / (module.stem if module.suffix == ".py" else module.name)


def shown(path: Path, root: Path) -> str:
    """A path for people: from the root where it lies there."""
    return str(path.relative_to(root) if path.is_relative_to(root) else path)


def _below(path: Path, root: Path) -> Path:
    return path.relative_to(root) if path.is_relative_to(root) else path.relative_to(path.anchor)
