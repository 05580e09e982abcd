"""The command for people who do not live in pytest."""

import json
import os
import re
import subprocess
import sys

import pytest

from pytest_nvfp4 import oracle
from pytest_nvfp4.cli import main
from pytest_nvfp4.model import documents
from pytest_nvfp4.plans import PlanKey, PlanMap

ORACLE = oracle.load()


@pytest.fixture
def file(tmp_path):
    """Write a cache file: ``file(bytes, name=…)`` gives its path."""

    def write(data, name="autotune_configs.json"):
        path = tmp_path / name
        path.write_bytes(data)
        return str(path)

    return write


@pytest.fixture
def command(capsys):
    """Run a subcommand: its exit status and its output, both streams as one."""

    def run(*arguments):
        try:
            status = main(arguments)
        except SystemExit as end:
            status = end.code
        captured = capsys.readouterr()
        return status, captured.out + captured.err

    return run


def test_check_of_the_oracle(command, file):
    status, output = command("check", file(ORACLE.document))
    assert status == 0
    assert "FlashInfer document, accepted: 64 plans" in output
    assert "complete: 4 shapes × 16 profiles up to M 2048" in output
    assert "oracle: the same tactic for all 64 plans in common" in output
    assert "NVIDIA GB10" in output
    assert max(map(len, output.splitlines()[1:])) <= 80


def test_check_shows_what_is_missing_foreign_and_different(command, file):
    plans = dict(ORACLE.plans)
    del plans[PlanKey(64, 5120, 6144)]
    plans[PlanKey(1, 34816, 5120)] = 31
    document = documents.flashinfer(ORACLE.metadata, PlanMap(plans)) | {"('mm_bf16', ())": None}
    status, output = command("check", file(json.dumps(document).encode()))
    assert status == 0
    assert "accepted: 63 plans, 1 foreign entry" in output
    assert "missing: N 5120, K 6144 has no plan for M 64 (1 profile)" in output
    assert "oracle: another tactic for 1 of 63 plans in common" in output
    assert "31 128x256x128 plain sk" in output


def test_check_lists_every_finding_of_a_bad_file(command, file):
    document = documents.flashinfer(ORACLE.metadata, ORACLE.plans)
    document["_metadata"]["gpu"] = None
    del document["_metadata"]["cuda_version"]
    status, output = command("check", file(json.dumps(document).encode()))
    assert status == 1
    assert "rejected: 2 findings" in output
    assert "missing-field at _metadata.cuda_version" in output
    assert "wrong-type at _metadata.gpu" in output


@pytest.mark.parametrize(
    ("data", "part"),
    [
        (b"", "syntax: line 1, column 1"),
        (ORACLE.document[:5000], "syntax: line"),
        (b"\0" * 100, "NUL bytes"),
        (b"[]", "shape"),
        (b"\xff\xfe", "encoding"),
    ],
)
def test_check_of_what_is_no_document(command, file, data, part):
    status, output = command("check", file(data))
    assert status == 1
    assert part in output
    assert "Traceback" not in output


def test_check_of_paths_that_are_no_files(command, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for name, code in (("fifo", "not-regular"), (".", "not-regular"), ("absent", "unreadable")):
        status, output = command("check", str(tmp_path / name))
        assert status == 1
        assert code in output


def test_check_against_another_environment(command, file):
    metadata = dict(ORACLE.metadata) | {"cuda_version": "12.8"}
    mine = file(documents.flashinfer_bytes(metadata, ORACLE.plans))
    assert command("check", mine)[0] == 0
    status, output = command("check", mine, "--expect", "oracle")
    assert status == 1
    assert "tuned under '12.8', but running under '13.0'" in output
    assert command("check", mine, "--expect", mine)[0] == 0
    status, output = command("check", mine, "--expect", file(b"{}", "empty.json"))
    assert status == 4
    assert "has no metadata" in output


def test_diff(command, file):
    plans = dict(ORACLE.plans) | {PlanKey(1, 5120, 6144): 31}
    other = file(documents.flashinfer_bytes(dict(ORACLE.metadata) | {"gpu": "X"}, plans), "b.json")
    same = file(ORACLE.document.rstrip(), "c.json")
    status, output = command("diff", file(ORACLE.document), other)
    assert status == 1
    assert "gpu: NVIDIA GB10 | X" in output
    assert "plans: 1 of 64 differ" in output
    status, output = command("diff", file(ORACLE.document), same)
    assert (status, output) == (0, "the same 64 plans and the same environment\n")
    status, output = command("diff", file(ORACLE.document), file(b"{", "bad.json"))
    assert status == 4
    assert "bad.json is rejected: syntax" in output


def test_list_and_explain(command):
    status, output = command("list", "PUBL")
    assert status == 0
    assert [line.split()[0] for line in output.splitlines()][:2] == ["PUBL-1", "PUBL-2"]
    assert max(map(len, output.splitlines())) <= 80
    status, output = command("explain", "publ-4")
    assert status == 0
    assert "PUBL-4  MUST  capability publication" in output
    for wrong in (("list", "NOPE"), ("explain", "NDOC-99"), ("explain", "NDOC")):
        status, output = command(*wrong)
        assert status == 4
        assert len(output.splitlines()) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("bogus",),
        ("check",),
        ("check", "a", "b"),
        ("smoke", "nosuch"),
        ("verify", "absent.json"),
    ],
)
def test_mistakes_are_one_sentence_and_status_4(command, arguments):
    status, output = command(*arguments)
    assert status == 4
    assert len(output.splitlines()) == 1


def test_smoke(command):
    status, output = command("smoke", "reference")
    assert status == 0
    assert "✓ read_flashinfer" in output
    status, output = command("smoke", "exec:true")
    assert status == 1
    assert "✗ describe: the executable ended" in output


def test_run_and_verify(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --no-such-option\n")
    program = [sys.executable, "-m", "pytest_nvfp4.cli"]
    run = [*program, "run", "reference", "-n", "2", "--contract", "BUCK", "--report", "r.json"]
    done = subprocess.run(run, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "BUCK  M buckets" in done.stdout
    verify = [*program, "verify", "r.json"]
    assert subprocess.run(verify, capture_output=True, timeout=60, check=False).returncode == 0
    forged = (tmp_path / "r.json").read_text().replace('"passed": 3', '"passed": 4')
    (tmp_path / "r.json").write_text(forged)
    done = subprocess.run(verify, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "digest" in done.stdout


def test_output_that_nobody_reads_is_no_traceback(file):
    command = [sys.executable, "-m", "pytest_nvfp4.cli", "check", file(ORACLE.document)]
    shell = subprocess.run(
        ["sh", "-c", '"$@" | true', "sh", *command],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "Traceback" not in shell.stderr
    assert "BrokenPipe" not in shell.stderr


def test_what_commands_a_terminal_never_reaches_it(command, file):
    escape = "\x1b]0;taken over\x07"
    metadata = dict(ORACLE.metadata) | {"gpu": f"GPU{escape}", f"new{escape}": "x"}
    good = file(documents.flashinfer_bytes(metadata, ORACLE.plans), "good.json")
    document = documents.flashinfer(metadata, ORACLE.plans) | {f"('fp4_gemm'{escape}": 1}
    bad = file(json.dumps(document).encode(), "bad.json")
    for arguments in (
        ("check", good),
        ("check", bad),
        ("diff", good, file(ORACLE.document)),
        ("check", escape),
    ):
        _, output = command(*arguments)
        assert "\x1b" not in output
        assert "\x07" not in output
        assert "\\x1b" in output


def test_long_lists_are_cut_unless_all_is_asked_for(command, file):
    plans = PlanMap([(PlanKey(1, n, 16 * k), 0) for n in range(1, 60) for k in range(1, 9)])
    many = file(documents.flashinfer_bytes(ORACLE.metadata, plans))
    _, short = command("check", many)
    _, whole = command("check", many, "--all")
    assert "more lines; --all shows them" in short
    assert len(short.splitlines()) < 120 < len(whole.splitlines())


def test_an_ascii_terminal_is_no_reason_to_stop(file):
    environment = dict(os.environ) | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    for arguments in (("check", file(ORACLE.document)), ("smoke", "reference"), ("list",)):
        done = subprocess.run(
            [sys.executable, "-m", "pytest_nvfp4.cli", *arguments],
            env=environment,
            capture_output=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.isascii()


def test_adapter_that_leaves_a_thread_does_not_keep_the_command_alive(tmp_path):
    (tmp_path / "threading_adapter.py").write_text(
        """
import threading
from nvfp4_reference.adapter import Adapter
class Talkative(Adapter):
    def bucket(self, m):
        if m == 1 and threading.active_count() < 3:
            threading.Thread(target=threading.Event().wait, name="forgotten").start()
        return super().bucket(m)
"""
    )
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest_nvfp4.cli",
            "run",
            "threading_adapter:Talkative",
            "--contract",
            "BUCK-3",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "left threads running" in done.stderr


def test_demo_shows_both_numbers(command):
    status, output = command("demo", "faulty.partial:Quick", "--processes", "2")
    assert status == 0, output
    assert "32 profiles on NumPy" in output
    assert re.search(r"2 alone +\d+ of 32 ", output)
    assert re.search(r"2 at a time +\d+ of 32 ", output)
    assert re.search(r"2 with one map +32 of 32 +32 ", output)
    assert command("demo", "--processes", "1")[0] == 4
    assert command("demo", "nosuch")[0] == 4
