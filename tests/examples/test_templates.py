"""What `init` writes works at once, claims nothing, and overwrites nothing."""

import importlib.util
import inspect
import re
import shutil
import stat
import subprocess
import sys

import pytest

from pytest_nvfp4.commands import init as templates
from pytest_nvfp4.implementations.operations import CAPABILITIES, OPERATIONS

from .conftest import has_nlohmann


@pytest.mark.parametrize("language", templates.TEMPLATES)
def test_template_passes_smoke_at_once_and_its_badge_is_grey(language, command, tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    written = command(folder, "init", language)
    assert written.status == 0, written.output
    template = templates.of(language)
    assert [path.name for path in folder.iterdir()] == [template.name]
    if template.build:
        assert template.build in written.output
        compiler = template.build.split()[0]
        if shutil.which(compiler) is None or not has_nlohmann(compiler):
            pytest.skip(f"needs {compiler} and <nlohmann/json.hpp> for the {language} template")
        strict = ["-Wall", "-Wextra", "-Werror", "-O0"]
        subprocess.run([*template.build.split(), *strict], cwd=folder, check=True, timeout=300)
    smoke = command(folder, "smoke", template.target)
    assert smoke.status == 0, smoke.output
    assert "claims nothing" in smoke.output
    run = command(folder, "run", template.target)
    assert run.status in (0, 5), run.output
    assert set(run.verdicts.values()) == {"not_claimed", "skipped"}
    assert [id_ for id_, verdict in run.verdicts.items() if verdict == "skipped"] == ["RANK-1"]
    assert re.search(r"Badge: nothing claimed · v\S+ \(lightgrey\)", run.output), run.output


@pytest.mark.parametrize("language", templates.TEMPLATES)
def test_template_names_every_operation_and_its_arguments(language, tmp_path):
    text = templates.write(language, tmp_path).read_text()
    for operation, declared in OPERATIONS.items():
        if operation == "describe":
            continue
        form = {
            "python": rf"def {operation}\(\s*self,\s[^)]*\) -> Any",
            "cpp": rf'// \{{"{operation}", {operation}\}}, +[\w, ]+$',
            "shell": rf"# {operation}\) +[\w, ]+",
        }[language]
        found = re.search(form, text, re.MULTILINE)
        assert found, operation
        for argument in declared.parameters:
            assert re.search(rf"\b{argument}\b", found[0].split(operation, 1)[1]), operation
    for capability in CAPABILITIES:
        assert capability in text or capability == "ranks", capability


def test_stubs_of_the_python_template_have_the_interface_s_arguments(tmp_path):
    path = templates.write("python", tmp_path)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for operation, declared in OPERATIONS.items():
        method = getattr(module.Adapter(), operation)
        assert list(inspect.signature(method).parameters) == list(declared.parameters)


@pytest.mark.parametrize("tool", [["ruff", "check"], ["ruff", "format", "--check"], ["mypy"]])
def test_python_template_is_clean(tool, tmp_path):
    path = templates.write("python", tmp_path)
    ignored = ["--ignore", "N818,PLR0917"] if "check" in tool[1:2] else []
    command = [sys.executable, "-m", *tool, *ignored, str(path)]
    line = ["--config", "line-length=100"] if tool[0] == "ruff" else ["--strict"]
    done = subprocess.run([*command, *line], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_shell_template_is_executable(tmp_path):
    assert templates.write("shell", tmp_path).stat().st_mode & stat.S_IXUSR


@pytest.mark.parametrize("language", templates.TEMPLATES)
@pytest.mark.parametrize("there", ["a file", "a dangling link"])
def test_nothing_is_overwritten(command, tmp_path, language, there):
    path = tmp_path / templates.of(language).name
    if there == "a file":
        path.write_text("mine")
    else:
        path.symlink_to("elsewhere")
    result = command(tmp_path, "init", language)
    assert result.status == 4
    assert result.output.count("\n") == 1
    assert "is there already" in result.output
    assert path.is_symlink() or path.read_text() == "mine"
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("rust",), "no template for 'rust'; take python, cpp, shell"),
        (("",), "no template for ''"),
        (("cpp", "no/such/folder"), "cannot write no/such/folder/nvfp4_adapter.cpp"),
        ((), "language"),
    ],
)
def test_mistakes_are_one_sentence(command, tmp_path, words, part):
    result = command(tmp_path, "init", *words)
    assert result.status == 4
    assert result.output.count("\n") == 1
    assert part in result.output
    assert list(tmp_path.iterdir()) == []
