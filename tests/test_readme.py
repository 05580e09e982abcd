"""What the README shows is what is there."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
ADAPTERS = ROOT / "examples" / "adapters"


def test_shown_adapters_are_the_files_and_short():
    shown = re.findall(r"<!-- (examples/\S+) -->\n```\w+\n(.*?)```", README, re.DOTALL)
    assert [name for name, _ in shown] == [
        "examples/adapters/reader.py",
        "examples/adapters/reader.mjs",
    ]
    for name, text in shown:
        assert text == (ROOT / name).read_text(), name
        assert len(text.splitlines()) < 30, name


def test_named_paths_and_options_exist():
    for name in re.findall(r"\]\(([\w/]+\.\w+)\)", README):
        assert (ROOT / name).exists(), name
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "nvfp4", "--help"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    for option in re.findall(r"`(--nvfp4-[a-z-]+)", README):
        assert option in done.stdout, option


@pytest.mark.parametrize("target", ["reader:Reader", "exec:./reader.mjs"])
def test_shown_adapters_import_the_oracle_and_fail_the_rest(target, tmp_path):
    if target.startswith("exec") and shutil.which("node") is None:
        pytest.skip("needs Node.js for the adapter in another language")
    folder = tmp_path / "adapters"
    shutil.copytree(ADAPTERS, folder)
    base = [str(Path(sys.executable).with_name("nvfp4-conformance"))]
    environment = {"PATH": os.environ["PATH"]}

    def run(*words):
        return subprocess.run(
            [*base, *words],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    smoke = run("smoke", target)
    assert smoke.returncode == 0, smoke.stdout + smoke.stderr
    done = run("run", target, "--contract", "FIMP-1,FIMP-6,FIMP-7,FIMP-8")
    assert done.returncode == 1
    assert "1 passed" in done.stdout, done.stdout
