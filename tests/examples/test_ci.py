"""The action and the workflows to copy: their scripts run, and take input as data."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
ACTION = ROOT / "action.yml"
GITHUB = ROOT / "examples" / "ci" / "github.yml"
GITLAB = ROOT / "examples" / "ci" / "gitlab.yml"

BASH = ("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c")
"""As GitHub runs a step."""


def scripts(path):
    """Step name → shell script, of each step with a name and a block of commands."""
    form = r"- name: (.+)\n(?:(?! *- ).*\n)*?( *)run: \|\n((?:\2 .*\n|\n)+)"
    return {
        name: textwrap.dedent(body) for name, _, body in re.findall(form, path.read_text() + "\n")
    }


def test_every_script_is_found_and_is_bash():
    found = scripts(ACTION) | scripts(GITHUB)
    assert list(found) == ["Install the suite", "Run the suite", "Publish the badge"]
    blocks = ACTION.read_text().count("run: |") + GITHUB.read_text().count("run: |")
    assert blocks == len(found)
    for name, script in found.items():
        done = subprocess.run(["bash", "-n"], input=script.encode(), check=False)
        assert done.returncode == 0, name
        assert "${{" not in script, f"{name}: input is pasted into a script"


def test_inputs_and_outputs_of_the_action_are_those_that_it_declares():
    text = ACTION.read_text()
    declared = re.search(r"^inputs:\n((?:  .*\n|\n)+)", text, re.MULTILINE)[1]
    names = set(re.findall(r"^  (\w+):$", declared, re.MULTILINE))
    assert set(re.findall(r"\binputs\.(\w+)", text)) == names
    published = set(re.findall(r"steps\.run\.outputs\.(\w+)", text))
    assert published == set(re.findall(r'"(\w+)=\$PWD', scripts(ACTION)["Run the suite"]))
    used = set(re.findall(r"^ {10}(?:# )?(\w+): ", GITHUB.read_text(), re.MULTILINE))
    assert used - {"python-version", "name", "path"} <= names


@pytest.fixture
def step(tmp_path):
    """``step(implementation, options)`` runs the action's second step as GitHub would."""

    def run(implementation, options):
        (tmp_path / "output").touch()
        done = subprocess.run(
            [*BASH, scripts(ACTION)["Run the suite"]],
            cwd=tmp_path,
            env={
                "PATH": os.environ["PATH"],
                "PYTHON": sys.executable,
                "IMPLEMENTATION": implementation,
                "OPTIONS": options,
                "WORKERS": "2",
                "RESULTS": "re sults",
                "GITHUB_OUTPUT": str(tmp_path / "output"),
                "GITHUB_ACTIONS": "true",
                "GITHUB_STEP_SUMMARY": str(tmp_path / "page.md"),
            },
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        done.outputs = dict(
            line.split("=", 1) for line in (tmp_path / "output").read_text().splitlines()
        )
        return done

    return run


def test_action_runs_the_suite_and_leaves_its_results(step, tmp_path):
    done = step("reference", "--contract BUCK-1,BUCK-2 --seed '7'")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"2 of \d+ contracts, seed 7,", done.stdout), done.stdout
    assert {path.name for path in (tmp_path / "re sults").iterdir()} == {
        "report.json",
        "badge.json",
        "badge.svg",
    }
    for path in done.outputs.values():
        assert Path(path).is_file()
    assert done.outputs.keys() == {"report", "badge"}
    assert "| BUCK" in (tmp_path / "page.md").read_text()


def test_action_fails_with_the_run_and_keeps_its_report(step, tmp_path):
    shutil.copy(ROOT / "examples" / "adapters" / "reader.py", tmp_path)
    done = step("reader:Reader", "--contract FIMP-8")
    assert done.returncode == 1, done.stdout + done.stderr
    assert Path(done.outputs["report"]).is_file()
    assert "::error file=reader.py,line=" in done.stdout


def test_input_of_the_action_is_data(step, tmp_path):
    done = step("$(touch one)`touch two`; touch three", "'$(touch four)' ; touch five")
    assert done.returncode == 4, done.stdout + done.stderr
    names = {path.name for path in tmp_path.iterdir()}
    assert not names & {"one", "two", "three", "four", "five"}


@pytest.mark.parametrize("options", ["--seed '7", '--contract "BUCK', "--seed 7\\"])
def test_options_that_cannot_be_read_fail_the_action(step, options):
    done = step("reference", options)
    assert done.returncode == 1
    assert "::error::The input `options` cannot be read as words: No " in done.stderr
    assert "BUCK" not in done.stdout


def test_blank_options_are_no_options(step):
    done = step("absent", "  ")
    assert done.returncode == 4
    assert "unknown implementation 'absent'" in done.stdout + done.stderr


def test_the_action_installs_what_the_suite_needs(tmp_path):
    """The first step, with an interpreter that writes down what it is started with."""
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\nfor word; do echo "$word"; done\n')
    python.chmod(0o755)
    done = subprocess.run(
        [*BASH, scripts(ACTION)["Install the suite"]],
        env={
            "PATH": os.environ["PATH"],
            "PYTHON": str(python),
            "STRACE": "false",
            "GITHUB_ACTION_PATH": "/some where/action",
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "/some where/action[suite]"


def test_badge_is_published_on_a_branch_of_its_own(tmp_path):
    if shutil.which("git") is None:
        pytest.skip("needs git to publish a badge")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "RUNNER_TEMP": str(tmp_path),
        "GITHUB_SHA": "0123abc",
        "GIT_CONFIG_NOSYSTEM": "1",
    }

    def git(*words, where=tmp_path / "clone"):
        return subprocess.run(
            ["git", "-c", "user.name=x", "-c", "user.email=x@localhost", *words],
            cwd=where,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    git("init", "-q", "--bare", "origin.git", where=tmp_path)
    git("clone", "-q", "origin.git", "clone", where=tmp_path)
    (tmp_path / "clone" / "source.txt").write_text("x")
    git("add", ".")
    git("commit", "-qm", "source")
    source = git("rev-parse", "HEAD").strip()
    (tmp_path / "results").mkdir()
    for content in ("1", "2"):
        git("switch", "-q", "--detach", source)
        git("branch", "-q", "-f", "nvfp4-badge", source)  # every run checks out anew
        git("branch", "-q", "-D", "nvfp4-badge")
        for name in ("badge.json", "badge.svg"):
            (tmp_path / "results" / name).write_text(content)
        subprocess.run(
            ["bash", "-e", "-c", scripts(GITHUB)["Publish the badge"]],
            cwd=tmp_path / "clone",
            env=environment,
            check=True,
            capture_output=True,
        )
        origin = tmp_path / "origin.git"
        files = git("ls-tree", "--name-only", "nvfp4-badge", where=origin).split()
        assert files == ["badge.json", "badge.svg"]
        assert git("show", "nvfp4-badge:badge.json", where=origin) == content


def test_gitlab_command_runs_and_writes_what_is_kept(tmp_path):
    text = GITLAB.read_text()
    folded = re.search(r"script:\n    - >\n((?:      .*\n)+)", text)[1]
    words = shlex.split(folded.replace("exec:./adapter", "reference --contract BUCK-2"))
    assert words[0] == "nvfp4-conformance"
    words[0] = str(Path(sys.executable).with_name(words[0]))
    environment = {"PATH": os.environ["PATH"]}
    subprocess.run(
        words, cwd=tmp_path, env=environment, check=True, timeout=300, capture_output=True
    )
    results = tmp_path / "nvfp4-results"
    for name in re.findall(r"nvfp4-results/([\w.]+\.\w+)", text):
        assert (results / name).is_file(), name
    assert 'value="passed"' in (results / "junit.xml").read_text()
