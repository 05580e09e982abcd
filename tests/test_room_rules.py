"""What the rooms import from outside, and what loading them costs.

Which room may import which is for import-linter to check: see pyproject.toml and `make lint`.
"""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

STANDARD = sys.stdlib_module_names

# Folder → what its files may import at all, and what only inside functions.
ROOMS = {
    "pytest_nvfp4": (
        {"pytest", "pytest_nvfp4", "msgspec", "jinja2", "markupsafe"},
        {"hypothesis", "syrupy", "numpy", "wcwidth", "tomli_w"},
    ),
    "conformance": ({"pytest", "pytest_nvfp4"}, set()),
    "src/adapters": (set(), set()),  # what is adapted is imported by name, when it is made
    "src/reference_impl": ({"numpy", "ml_dtypes"}, {"cupy", "flashinfer", "torch", "tvm_ffi"}),
    "fixtures": (set(), set()),
}


def imports(path):
    """(module, is it at the top level) of every import in a file, relative ones resolved away."""
    tree = ast.parse(path.read_text())
    top = {id(node) for node in tree.body}
    guarded = {
        id(node)
        for block in tree.body
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in block.body
    }
    for node in ast.walk(tree):
        if id(node) in guarded:
            continue
        if isinstance(node, ast.Import):
            yield from ((alias.name, id(node) in top) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module, id(node) in top
            yield from ((f"{node.module}.{alias.name}", id(node) in top) for alias in node.names)


def files(room):
    found = sorted((ROOT / room).rglob("*.py"))
    assert found, f"no files in {room}"
    return found


@pytest.mark.parametrize("room", ROOMS)
def test_room_imports_only_what_it_may(room):
    always, lazily = ROOMS[room]
    # The one module that is about arrays; others import it in functions (see the heavy test).
    arrays = ROOT / "pytest_nvfp4" / "model" / "nvfp4.py"
    extension = ROOT / "pytest_nvfp4" / "snapshot" / "extension.py"  # likewise, about syrupy
    messages = ROOT / "pytest_nvfp4" / "implementations"  # typed messages, needed by runs alone
    for path in files(room):
        for module, at_top in imports(path):
            root = module.partition(".")[0]
            allowed = root in STANDARD or root in always or (root in lazily and not at_top)
            allowed = allowed or (path == arrays and root == "numpy")
            allowed = allowed or (path == extension and root == "syrupy")
            allowed = allowed or (path.parent == messages and root == "msgspec")
            assert allowed, f"{path.relative_to(ROOT)} imports {module}"


def test_suite_and_plugin_never_import_each_others_insides():
    for path in files("pytest_nvfp4"):
        for module, _ in imports(path):
            for data in ("conformance", "fixtures", "templates"):
                assert not module.startswith(f"pytest_nvfp4.{data}"), path
    for path in files("conformance"):
        for module, _ in imports(path):
            assert not module.startswith("pytest_nvfp4.conformance"), (
                f"{path}: a helper in the suite"
            )


def test_no_file_imports_private_pytest():
    for room in [*ROOMS, "tests"]:
        for path in files(room):
            for module, _ in imports(path):
                assert not module.startswith("_pytest"), f"{path.relative_to(ROOT)}"


def loaded_by(statement):
    """The names of all modules that a statement loads in a fresh interpreter."""
    code = f"{statement}; import sys; print(*sys.modules, sep='\\n')"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    return set(done.stdout.split())


HEAVY = (
    *("hypothesis", "numpy", "torch", "cupy", "syrupy", "flashinfer", "nvfp4_reference", "xdist"),
    *("msgspec", "jinja2", "markupsafe", "wcwidth", "tomli_w"),
)


def test_loading_the_plugin_loads_nothing_heavy():
    loaded = loaded_by("import pytest_nvfp4.plugin")
    assert "pytest_nvfp4.plugin" in loaded
    assert [name for name in HEAVY if name in loaded] == []


def test_the_command_line_loads_nothing_heavy():
    loaded = loaded_by("from pytest_nvfp4.cli import main; main(['list', 'BUCK'])")
    assert [name for name in (*HEAVY, "pytest") if name in loaded] == []


def test_adapters_stand_where_the_suite_and_what_they_adapt_are_absent():
    blocked = "import sys; sys.modules.update(dict.fromkeys(('pytest', 'pytest_nvfp4', "
    blocked += "'nvfp4_reference', 'torch', 'flashinfer', 'vllm')))"
    loaded = loaded_by(f"{blocked}; import nvfp4_adapters.flashinfer_tuner")
    assert "nvfp4_adapters.tuner_session" in loaded


def test_reference_stands_where_pytest_is_absent():
    blocked = "import sys; sys.modules['pytest'] = sys.modules['pytest_nvfp4'] = None"
    loaded = loaded_by(
        f"{blocked}; import nvfp4_reference.adapter; nvfp4_reference.adapter.make().describe()"
    )
    assert "nvfp4_reference" in loaded
