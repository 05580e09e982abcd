"""The command for people who do not live in pytest."""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios

import pytest

from pytest_nvfp4 import extras, oracle
from pytest_nvfp4.cli import main
from pytest_nvfp4.model import documents
from pytest_nvfp4.plans import PlanKey, PlanMap
from pytest_nvfp4.run_settings import RUN_SETTINGS
from pytest_nvfp4.specification import contracts

ORACLE = oracle.load()
PROGRAM = (sys.executable, "-m", "pytest_nvfp4.cli")


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
    for name in ("fifo", "."):
        status, output = command("check", str(tmp_path / name))
        assert status == 1
        assert "not-regular" in output


@pytest.mark.parametrize("arguments", [("check", "{}"), ("diff", "{}", "{}")])
def test_a_cache_file_that_cannot_be_opened_is_a_mistake_in_the_call(command, tmp_path, arguments):
    path = str(tmp_path / "absent")
    status, output = command(*(word.replace("{}", path) for word in arguments))
    assert status == 4
    assert output.startswith(f"nvfp4-conformance: cannot open {path}: No such file or directory; ")


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
    assert [line.split()[2] for line in output.splitlines()][:2] == ["publication", "publication"]
    assert command("list", "publ, NDOC-1")[1].startswith(command("list", "NDOC-1")[1])
    status, output = command("explain", "publ-4")
    assert status == 0
    assert "PUBL-4  MUST  capability publication" in output
    for wrong in (("list", "NOPE"), ("explain", "NDOC-99"), ("explain", "NDCO")):
        status, output = command(*wrong)
        assert status == 4
        assert len(output.splitlines()) == 1


def test_explain_prints_the_contracts_of_an_area(command):
    status, output = command("explain", "publ")
    assert status == 0
    assert output.startswith("PUBL  ")
    assert "capability publication" in output.splitlines()[0]
    for contract in contracts.packaged().contracts:
        assert (f"\n{contract.id}  {contract.level.upper()}" in output) is (contract.area == "PUBL")
    assert max(map(len, output.splitlines())) <= 80


def test_list_is_cut_to_a_terminal_and_never_in_a_file(command):
    texts = [contract.text for contract in contracts.packaged().contracts]
    _, output = command("list")
    assert all(line.endswith(text) for line, text in zip(output.splitlines(), texts, strict=True))
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
    environment = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")}
    subprocess.run(
        [sys.executable, "-m", "pytest_nvfp4.cli", "list", "BUCK"],
        env=environment | {"PYTHONUTF8": "1"},
        stdout=theirs,
        timeout=60,
        check=True,
    )
    os.close(theirs)
    shown = os.read(ours, 65536).decode().splitlines()
    os.close(ours)
    assert [line.split()[0] for line in shown] == ["BUCK-1", "BUCK-2", "BUCK-3"]
    assert [len(line) for line in shown] == [60, 60, 60]
    assert all(line.endswith("…") for line in shown)


def test_help_of_run_shows_every_setting_and_where_others_go(command):
    status, output = command("run", "--help")
    assert status == 0
    for setting in RUN_SETTINGS:
        assert f"  --{setting.name} {setting.metavar}" in output
    assert "goes to pytest" in " ".join(output.split())


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--level", "may"), "--level is 'may'; use must or should"),
        (("--timeout", "0"), "--timeout is '0'; use a number of seconds above 0"),
        (("--seed", "x"), "--seed is 'x'; use a non-negative integer"),
        (("--report", "r.xml"), "--report is 'r.xml'; its name must end in .json"),
        (("--badge", "no/../b.png"), "its name must end in .svg or .json"),
        (("--html", "/dev/null/p.html"), "where no file can be written: Not a directory"),
        (("--flashinfer", "absent"), "--flashinfer is 'absent'; name a Python that can be run"),
    ],
)
def test_a_bad_setting_of_run_is_one_sentence(command, arguments, says):
    status, output = command("run", "reference", *arguments)
    assert status == 4
    assert says in output
    assert len(output.splitlines()) == 1


def test_a_defect_keeps_its_traceback(command, monkeypatch):
    monkeypatch.setattr(contracts, "packaged", lambda: int("a defect"))
    with pytest.raises(ValueError, match="a defect"):
        command("list")


BLOCK = """
import sys
sys.modules.update(dict.fromkeys({modules}))
from pytest_nvfp4.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    "arguments",
    [("list",), ("explain", "NDOC-1"), ("check", "{}"), ("diff", "{}", "{}"), ("--help",)],
    ids=lambda words: words[0],
)
def test_a_base_install_has_these_commands(file, arguments):
    path = file(ORACLE.document)
    words = [word.replace("{}", path) for word in arguments]
    done = subprocess.run(
        [sys.executable, "-c", BLOCK.format(modules=(*extras.SUITE, "pytest", "syrupy")), *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("module", extras.SUITE)
@pytest.mark.parametrize("command_", ["run", "smoke", "demo"])
def test_without_the_suites_libraries_one_sentence_says_what_to_install(
    command, monkeypatch, command_, module
):
    monkeypatch.setitem(sys.modules, module, None)
    status, output = command(command_, "reference")
    assert status == 4
    assert f"needs {module}, which a base install leaves out; run: pip install" in output
    assert output.endswith("'pytest-nvfp4[suite]'\n")
    assert len(output.splitlines()) == 1


@pytest.mark.parametrize("arguments", [("init", "python"), ("verify", "x"), ("compare", "x")])
def test_a_command_that_needs_a_library_of_the_suite_says_so(tmp_path, arguments):
    done = subprocess.run(
        [sys.executable, "-c", BLOCK.format(modules=("msgspec",)), *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 4, done.stderr
    assert done.stderr == (
        f"nvfp4-conformance: `{arguments[0]}` needs msgspec, which a base install leaves out; "
        "run: pip install 'pytest-nvfp4[suite]'\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_run_that_is_interrupted(tmp_path):
    (tmp_path / "interrupted.py").write_text(
        """
from nvfp4_reference.adapter import Adapter
class Interrupted(Adapter):
    def bucket(self, m):
        if m == 2:  # in a test, and not in the examination before
            raise KeyboardInterrupt
        return super().bucket(m)
"""
    )
    done = subprocess.run(
        [*PROGRAM, "run", "interrupted:Interrupted", "--contract", "BUCK-1"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 130, done.stdout + done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("run",),
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


@pytest.mark.parametrize("arguments", [("check", "{}"), ("list",)], ids=["check", "list"])
def test_a_closed_pipe_is_no_traceback_and_no_success(file, arguments):
    path = file(ORACLE.document)
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [*PROGRAM, *(word.replace("{}", path) for word in arguments)],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


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
