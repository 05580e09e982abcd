"""Where a test's snapshots lie: one file for each test, in a folder beside its module.

The folder is not syrupy's: there, its default extension takes every file that it does not know for
unused and deletes it with ``--snapshot-update``, also in a run that has not loaded this plugin.

A file has its test's name where that is possible. A name with other characters than a file name
should have, or with too many, is cut and gets a digest of the test's id behind a ``~``, which no
plain name has: so no two tests share a file, and none leaves the folder.
"""

import hashlib
import re
from pathlib import Path

import pytest

FOLDER = "__plan_snapshots__"
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


def folder(module: Path) -> Path:
    """The folder of a module's snapshots."""
    return module.parent / FOLDER / (module.stem if module.suffix == ".py" else module.name)


def shown(path: Path, root: Path) -> str:
    """A path to show: relative to the root where it lies in there."""
    return str(path.relative_to(root) if path.is_relative_to(root) else path)
