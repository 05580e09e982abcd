"""`make gpu`: what it says where there is no GPU, and how it runs and reports its stages."""

import importlib.util
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from nvfp4_reference.gemm.cupy import CupyBackend

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "gpu.py"


@pytest.fixture(scope="module")
def gpu():
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("nvfp4_make_gpu", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def stage(gpu):
    """``stage(name, code, ...)``: a stage of Python programs."""

    def make(name, *codes, **options):
        commands = [[sys.executable, "-c", code] for code in codes]
        return gpu.Stage(name, commands, r"told \d+", **options)

    return make


def test_a_mistake_in_the_call_is_one_sentence(tmp_path):
    for arguments, said in (([], "give a folder"), ([str(tmp_path), "nosuch"], "no stage nosuch")):
        done = subprocess.run(
            [sys.executable, SCRIPT, *arguments], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stdout) == (2, "")
        assert said in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_without_a_gpu_it_says_what_is_missing(tmp_path):
    if CupyBackend().available():
        pytest.skip("needs a machine without a GPU that kernels run on")
    folder = tmp_path / "out"
    done = subprocess.run(
        [sys.executable, SCRIPT, folder], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert re.fullmatch(r"there is no GPU to measure: .*\.\n", done.stderr)
    assert not folder.exists()


def test_a_stage_keeps_its_output_and_shows_its_results(gpu, stage, tmp_path, capsys):
    outcome = gpu.Runs(tmp_path, {}).run(stage("good", "print('told 1')", "print('told 2')"))
    assert (outcome.status, outcome.results) == (0, ["told 1", "told 2"])
    assert (tmp_path / "good.txt").read_text() == "told 1\ntold 2\n"
    assert re.fullmatch(r"good +ok +\d+\.\d s  2 results\n", capsys.readouterr().out)


def test_a_stage_that_fails_shows_the_end_of_its_output(gpu, stage, tmp_path, capsys):
    outcome = gpu.Runs(tmp_path, {}).run(stage("bad", "raise SystemExit('a planted mistake')", ""))
    assert outcome.status == 1, "a later command that succeeds hides nothing"
    assert "    a planted mistake" in capsys.readouterr().out


def test_a_stage_whose_packages_are_missing_is_skipped_by_name(gpu, stage, tmp_path, capsys):
    outcome = gpu.Runs(tmp_path, {}).run(stage("more", "", needs=("sys", "no_such_package")))
    assert outcome.status == 0
    assert re.fullmatch(
        r"more +skipped +0.0 s  needs no_such_package\n", capsys.readouterr().out
    ), "a skip counts as passed"
    assert not (tmp_path / "more.txt").exists()


def test_a_command_that_takes_too_long_is_ended(gpu, stage, tmp_path, monkeypatch):
    monkeypatch.setattr(gpu, "LIMIT", 0.5)
    outcome = gpu.Runs(tmp_path, {}).run(stage("slow", "import signal; signal.pause()"))
    assert outcome.status == gpu.TIMED_OUT


def test_what_is_not_timed_runs_side_by_side_and_the_rest_alone(gpu, stage):
    chosen = [stage("a"), stage("b", timed=False), stage("c", timed=False), stage("d"), stage("e")]
    names = [[one.name for one in few] for few in gpu.groups(chosen)]
    assert names == [["a"], ["b", "c"], ["d"], ["e"]]


def test_an_interrupt_ends_every_stage(gpu, stage, tmp_path, monkeypatch):
    """Two stages that never end; the interrupt comes once both have begun."""
    begun = threading.Barrier(3, timeout=60)
    runs = gpu.Runs(tmp_path, {})
    real = subprocess.Popen

    class Started(real):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            begun.wait()

    monkeypatch.setattr(gpu.subprocess, "Popen", Started)

    class Interrupted:
        def result(self):
            begun.wait()
            raise KeyboardInterrupt

    class Pool(gpu.ThreadPoolExecutor):
        def submit(self, *arguments):
            super().submit(*arguments)
            return Interrupted()

    monkeypatch.setattr(gpu, "ThreadPoolExecutor", Pool)
    endless = "import signal; signal.pause()"
    with pytest.raises(KeyboardInterrupt):
        runs.in_parallel([stage("one", endless, endless), stage("two", endless)])
    assert not runs._running


def test_the_report_has_the_table_and_the_results_of_stages(gpu, stage, monkeypatch):
    monkeypatch.setattr(gpu, "machine", lambda: iter(["GPU: a card"]))
    outcomes = [
        gpu.Outcome(stage("build"), 0, 12.25, ["told 1"]),
        gpu.Outcome(stage("demo"), 3, 1.0, ["told 1", "told 2"]),
    ]
    lines = gpu.report(outcomes, 13.5).splitlines()
    assert "- GPU: a card" in lines
    assert "build        ok          12.2 s  told 1" in lines
    assert "demo         status 3     1.0 s  2 results" in lines
    assert lines[-3:] == ["told 1", "told 2", "```"]
