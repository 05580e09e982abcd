"""A publication is read from its calls, whether they were interposed or traced."""

import errno
import os
import subprocess
import sys

import pytest

from pytest_nvfp4.faults import audit, interpose, strace
from pytest_nvfp4.faults.calls import Call, changes_below, publication

FOLDER, FINAL, TEMPORARY = "/d", "/d/final", "/d/temporary"
OPEN = Call("open", TEMPORARY, creates=True, writes=True)
WRITE, SYNC = Call("write", TEMPORARY), Call("fsync", TEMPORARY)
RENAME, SYNC_FOLDER = Call("rename", TEMPORARY, FINAL), Call("fsync", FOLDER)
GOOD = [OPEN, WRITE, SYNC, RENAME, SYNC_FOLDER]


def test_good_publication():
    seen = publication(GOOD, FINAL)
    assert seen.temporary == TEMPORARY
    assert seen.synced_before
    assert seen.directory_synced_after
    assert not seen.written_in_place


@pytest.mark.parametrize(
    "calls",
    [
        [OPEN, WRITE, RENAME],
        [OPEN, SYNC, WRITE, RENAME],
        [OPEN, WRITE, RENAME, SYNC],
        [OPEN, WRITE, Call("fsync", "/d/other"), RENAME],
        [OPEN, WRITE, SYNC, WRITE, RENAME],
    ],
)
def test_temporary_not_synced_before_the_rename(calls):
    assert not publication(calls, FINAL).synced_before


@pytest.mark.parametrize(
    "calls", [[*GOOD[:3], SYNC_FOLDER, RENAME], GOOD[:4], [*GOOD[:4], Call("fsync", FINAL)]]
)
def test_directory_not_synced_after_the_rename(calls):
    assert not publication(calls, FINAL).directory_synced_after


def test_writing_in_place():
    calls = [Call("open", FINAL, writes=True), Call("write", FINAL), Call("fsync", FINAL)]
    seen = publication(calls, FINAL)
    assert seen.temporary is None
    assert seen.written_in_place
    assert changes_below(calls, FOLDER) == calls[:2]
    assert changes_below([Call("open", FINAL), Call("fsync", FOLDER)], FOLDER) == []


PROGRAM = """
import os, sys
folder = sys.argv[1]
final, temporary = os.path.join(folder, "a b \\N{GREEK SMALL LETTER MU}"), os.path.join(folder, "t")
fd = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
os.write(fd, b"x")
os.fsync(fd)
os.close(fd)
os.replace(temporary, final)
fd = os.open(folder, os.O_RDONLY)
os.fsync(fd)
os.close(fd)
"""


def check_program(calls, folder):
    seen = publication(calls, f"{folder}/a b \N{GREEK SMALL LETTER MU}")
    assert seen.temporary == f"{folder}/t"
    assert seen.synced_before
    assert seen.directory_synced_after


def test_interposed_calls(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["program", str(tmp_path)])
    real = os.open
    with interpose.interposed() as calls:
        exec(compile(PROGRAM, "program", "exec"), {})
    assert os.open is real
    check_program(calls, tmp_path)


def test_built_in_open_and_relative_paths_are_seen(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with interpose.interposed() as calls:
        with open("t", "w") as file:
            file.write("x")
            file.flush()
            os.fsync(file.fileno())
        os.rename("t", "final")
    assert publication(calls, str(tmp_path / "final")).synced_before


@pytest.mark.skipif(
    strace.unavailable() is not None, reason=f"needs strace: {strace.unavailable()}"
)
def test_traced_calls(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    log = str(tmp_path / "log")
    command = [*strace.prefix(log), sys.executable, "-c", PROGRAM, str(folder)]
    subprocess.run(command, check=True, timeout=120)
    check_program(strace.read_log(log, str(folder)), folder)


@pytest.mark.skipif(
    strace.unavailable() is not None, reason=f"needs strace: {strace.unavailable()}"
)
@pytest.mark.parametrize(
    ("family", "call"), [("rename", "os.rename('a', 'b')"), ("fsync", "os.fsync(1)")]
)
def test_traced_calls_can_be_made_to_fail(tmp_path, family, call):
    (tmp_path / "a").touch()
    command = [*strace.failing_prefix(family, "EIO"), sys.executable, "-c", f"import os; {call}"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert "OSError: [Errno 5]" in done.stderr


def test_interrupted_lines_of_a_log_are_joined(tmp_path):
    log = tmp_path / "log"
    log.write_text(
        '7 rename("/d/t", <unfinished ...>\n'
        "8 fsync(3</d/x>) = 0\n"
        '7 <... rename resumed>"/d/f") = 0\n'
        '7 rename("/d/t", "/d/g") = -1 ENOENT (No such file or directory)\n'
        "8 +++ exited with 0 +++\n"
    )
    assert strace.read_log(str(log), "/d") == [
        Call("fsync", "/d/x"),
        Call("rename", "/d/t", "/d/f"),
    ]


def test_failing_families_are_restored(tmp_path):
    real = os.replace
    with interpose.failing("rename", errno.EIO), pytest.raises(OSError, match="Input/output"):
        os.replace(tmp_path, tmp_path)
    assert os.replace is real


def test_audited_calls(tmp_path, monkeypatch):
    keep = os.replace  # a reference of its own does not hide anything from the interpreter
    (tmp_path / "read").touch()
    monkeypatch.chdir(tmp_path)
    with audit.audited() as calls:
        open("read").close()
        open("written", "w").close()
        os.close(os.open("created", os.O_CREAT | os.O_RDONLY))
        keep("written", "renamed")
        os.utime("renamed")
        os.mkdir("folder")
        os.rmdir("folder")
        os.unlink("created")
    open("afterwards", "w").close()
    assert [call for call in calls if call.path == str(tmp_path / "read")] == [
        Call("open", str(tmp_path / "read"))
    ]
    changes = [(c.name, os.path.basename(c.path)) for c in changes_below(calls, str(tmp_path))]
    assert changes == [
        ("open", "written"),
        ("open", "created"),
        ("rename", "written"),
        ("write", "renamed"),
        ("write", "folder"),
        ("unlink", "folder"),
        ("unlink", "created"),
    ]


def test_audited_calls_by_descriptor_and_on_links(tmp_path, monkeypatch):
    (tmp_path / "a").touch()
    folder = os.open(tmp_path, os.O_RDONLY)
    with audit.audited() as calls, audit.audited() as others:
        os.mkdir("made", dir_fd=folder)
        os.rename("a", "b", src_dir_fd=folder, dst_dir_fd=folder)
        os.symlink("b", "l", dir_fd=folder)
        os.link("b", "c", src_dir_fd=folder, dst_dir_fd=folder)
        os.chmod("b", 0o600, dir_fd=folder)
        os.utime(folder)
        os.unlink("c", dir_fd=folder)
    os.close(folder)
    monkeypatch.chdir(tmp_path / "made")
    (tmp_path / "made").rmdir()
    with audit.audited() as gone:
        open(tmp_path / "b").close()
        with pytest.raises(OSError, match="No such file"):
            os.open("nowhere", os.O_WRONLY | os.O_CREAT)
    at = str(tmp_path)
    assert (
        calls
        == others
        == [
            Call("write", f"{at}/made"),
            Call("rename", f"{at}/a", f"{at}/b"),
            Call("link", "", f"{at}/l"),
            Call("link", f"{at}/b", f"{at}/c"),
            Call("write", f"{at}/b"),
            Call("write", at),
            Call("unlink", f"{at}/c"),
        ]
    )
    assert gone == [Call("open", f"{at}/b"), Call("open", "", creates=True, writes=True)]
