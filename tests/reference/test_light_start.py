"""A start on a frozen map imports only what it needs, and every public name is available."""

import ast
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import nvfp4_reference
import pytest
from nvfp4_reference.environment import NativeMetadata
from nvfp4_reference.native_document import Document
from nvfp4_reference.plans import PlanKey

START = """
import json, os, sys
from nvfp4_reference import Session, resolve
session = Session(resolve(os.environ))
session.warm_up(1, [(64, 128)])
assert session.plan(1, 64, 128).tactic == 7
session.complete()
print(json.dumps(sorted(sys.modules)))
"""

PACKAGES = ("", ".gemm", ".gemm.cupy", ".gemm.flashinfer")
WRITES_OR_MULTIPLIES = ("publication", "flashinfer_import", "gemm")


def test_a_frozen_start_imports_nothing_that_writes_or_multiplies(tmp_path: Path) -> None:
    path = tmp_path / "plans.json"
    document = Document(NativeMetadata.of_this_machine(), {PlanKey(1, 64, 128): 7})
    path.write_text(document.render(), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", START],
        env={
            **{name: value for name, value in os.environ.items() if not name.startswith("VT_")},
            "VT_FP4_AUTOTUNE_CACHE_PATH": str(path),
            "VT_FP4_AUTOTUNE_CACHE_READONLY": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    loaded = set(json.loads(done.stdout))
    assert "nvfp4_reference.session" in loaded
    assert not loaded & {f"nvfp4_reference.{name}" for name in WRITES_OR_MULTIPLIES}
    assert "numpy" not in loaded


NAMES = """
import importlib, sys
module = importlib.import_module(sys.argv[1])
assert set(module.__all__) <= set(dir(module)), set(module.__all__) - set(dir(module))
getattr(module, sys.argv[2])
"""


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_there(package: str) -> None:
    module = importlib.import_module(f"nvfp4_reference{package}")
    for name in module.__all__:
        assert getattr(module, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = module.nothing


@pytest.mark.parametrize(
    ("package", "name"),
    [
        ("nvfp4_reference", "tactics"),
        ("nvfp4_reference", "buckets"),
        ("nvfp4_reference.gemm", "run"),
    ],
)
def test_a_name_is_there_where_the_package_alone_is_imported(package: str, name: str) -> None:
    command = [sys.executable, "-c", NAMES, package, name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("package", PACKAGES)
def test_lazy_names_are_hidden_from_a_type_checker(package: str) -> None:
    """With a module-level `__getattr__`, a type checker would accept any name of the package."""
    source = importlib.import_module(f"nvfp4_reference{package}").__file__
    assert source is not None
    guards = [
        statement
        for statement in ast.parse(Path(source).read_text(encoding="utf-8")).body
        if "__getattr__" in ast.unparse(statement)
    ]
    assert [ast.unparse(guard).splitlines()[0] for guard in guards] == ["if not TYPE_CHECKING:"]


@pytest.mark.wide
def test_a_type_checker_knows_what_is_not_there(tmp_path: Path) -> None:
    package = Path(nvfp4_reference.__file__).parent
    (tmp_path / "nvfp4_reference").symlink_to(package, target_is_directory=True)
    for name in PACKAGES:
        with (tmp_path / "user.py").open("a") as user:
            user.write(f"from nvfp4_reference{name} import nothing\n")
    command = [sys.executable, "-m", "mypy", "--follow-imports=silent", "user.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.count('has no attribute "nothing"') == len(PACKAGES), done.stdout


@pytest.mark.parametrize("back_end", ["cupy", "flashinfer"])
def test_the_environment_of_a_card_is_known_without_what_multiplies(back_end: str) -> None:
    program = (
        f"import sys, nvfp4_reference.gemm.{back_end}.metadata; sys.exit('numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
