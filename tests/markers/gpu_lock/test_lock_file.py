"""One lock on one file: opening, excluding, waiting, letting go."""

import errno
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from pytest_nvfp4.markers.gpu_lock import lock_file
from pytest_nvfp4.markers.gpu_lock.lock_file import LockError, LockFile, LockTimeoutError, open_lock


def refusal(path):
    with pytest.raises(LockError) as caught:
        open_lock(path)
    return str(caught.value)


def silent(sentence):
    """A notice that nobody needs."""


# --- Opening


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_created_for_everybody_whatever_the_umask(path, umask):
    before = os.umask(umask)
    try:
        LockFile(path).close()
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o666


def test_kept_after_release_with_bytes_and_inode(path):
    path.write_bytes(b"mine")
    before = path.stat()
    file = LockFile(path)
    assert file.try_lock()
    file.close()
    after = path.stat()
    assert (after.st_ino, after.st_mode, after.st_mtime_ns) == (
        before.st_ino,
        before.st_mode,
        before.st_mtime_ns,
    )
    assert path.read_bytes() == b"mine"


def test_existing_file_is_opened_without_creating(path, monkeypatch):
    path.touch()
    flags = []
    real = os.open
    monkeypatch.setattr(os, "open", lambda p, f, *mode: flags.append(f) or real(p, f, *mode))
    LockFile(path).close()
    assert len(flags) == 1
    assert not flags[0] & (os.O_CREAT | os.O_WRONLY | os.O_RDWR)
    assert flags[0] & os.O_NOFOLLOW
    assert flags[0] & os.O_CLOEXEC


def test_somebody_else_creates_it_first(path, monkeypatch):
    real = os.open

    def rival(p, flags, *mode):
        if flags & os.O_CREAT:
            os.close(real(path, os.O_RDONLY | os.O_CREAT, 0o600))
        return real(p, flags, *mode)

    monkeypatch.setattr(os, "open", rival)
    mine = LockFile(path)
    assert os.path.samestat(os.fstat(mine.descriptor), path.stat())
    mine.close()


@pytest.mark.parametrize("target", ["file", "nowhere"])
def test_symbolic_link_is_refused(path, tmp_path, target):
    (tmp_path / "file").touch()
    path.symlink_to(tmp_path / target)
    assert "it is a symbolic link" in refusal(path)
    assert not (tmp_path / "nowhere").exists()


def test_fifo_is_refused_without_blocking(path):
    os.mkfifo(path)
    assert "neither a file nor a folder" in refusal(path)


def test_absent_folder_is_named(tmp_path):
    assert f"there is no folder {tmp_path / 'no'}; create it" in refusal(tmp_path / "no" / "gpu")


def test_denied_open_names_owner_and_mode(path, monkeypatch):
    path.touch()
    path.chmod(0o600)

    def deny(*_):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "open", deny)
    text = refusal(path)
    assert "permission denied (it belongs to " in text
    assert "mode 0600); ask for mode 0666, or name another path" in text


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv")
def test_other_users_can_lock_it_in_a_sticky_folder():
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o1777)
        LockFile(Path(folder, "gpu")).close()
        nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        subprocess.run([*nobody, "flock", "-n", f"{folder}/gpu", "true"], check=True)
        theirs = f"{folder}/theirs"
        subprocess.run([*nobody, "flock", "-n", theirs, "true"], check=True)
        LockFile(Path(theirs)).close()  # with O_CREAT, even root may be refused here


# --- Excluding


@pytest.mark.parametrize("kind", ["file", "folder", "absent"])
def test_flock_command_and_we_exclude_each_other(path, kind, hold, free):
    if kind == "file":
        path.touch()
    elif kind == "folder":
        path.mkdir()
    mine = LockFile(path)
    assert mine.try_lock()
    assert not free(path)
    mine.close()
    assert free(path)
    holder = hold(path)
    second = LockFile(path)
    assert not second.try_lock()
    holder.release()
    assert second.try_lock()
    second.close()


def test_shared_locks_exclude_only_exclusive_ones(path, free):
    one, two = LockFile(path, exclusive=False), LockFile(path, exclusive=False)
    assert one.try_lock()
    assert two.try_lock()
    assert free(path, "-s")
    assert not free(path)
    one.close()
    assert not free(path)
    two.close()
    assert free(path)


def test_no_child_inherits_it(path, free):
    mine = LockFile(path)
    assert mine.try_lock()
    child = subprocess.Popen(["sh", "-c", "read _"], stdin=subprocess.PIPE, close_fds=False)
    mine.close()
    assert free(path)
    child.communicate(b"\n")


FORK = """
import os, sys
from pathlib import Path
from pytest_nvfp4.markers.gpu_lock.lock_file import LockFile
mine = LockFile(Path(sys.argv[1]))
assert mine.try_lock()
pid = os.fork()
if pid == 0:
    {child}
{parent}
"""


def test_forked_child_does_not_release(path, script, free):
    parent = "os.waitpid(pid, 0); print('held', flush=True); sys.stdin.read()"
    process = script(FORK.format(child="mine.close(); os._exit(0)", parent=parent), path)
    assert process.stdout.readline() == "held\n"
    assert not free(path)
    process.communicate()
    assert free(path)


def test_forked_child_does_not_outlive_a_killed_holder_with_the_lock(path, script, free):
    child = "print('child', flush=True); sys.stdin.read(); os._exit(0)"
    process = script(FORK.format(child=child, parent="os.waitpid(pid, 0)"), path)
    assert process.stdout.readline() == "child\n"
    assert not free(path)
    process.kill()
    process.wait()
    assert free(path)  # while the child is alive


# --- Waiting


def test_release_frees_it_whatever_copies_there_are(path, free):
    mine = LockFile(path)
    assert mine.try_lock()
    copy = os.dup(mine.descriptor)
    mine.close()
    assert free(path)
    os.close(copy)


def test_killed_holder_frees_it_at_once(path, hold):
    holder = hold(path)
    mine = LockFile(path)
    mine.wait(None, lambda _: holder.kill())
    assert mine.locked
    mine.close()


@pytest.fixture
def at_once(monkeypatch):
    """The first notice comes without delay: what it does happens during the wait."""
    monkeypatch.setattr(lock_file, "FIRST_NOTICE", 0.0)


@pytest.mark.usefixtures("at_once")
def test_notice_says_who_holds_it(path, hold):
    holder = hold(path)
    told = []
    mine = LockFile(path)
    mine.wait(None, lambda sentence: (told.append(sentence), holder.release()))
    assert len(told) == 1
    assert told[0].startswith(f"waiting for {path} for 0 s, held by pid {holder.pid} `flock -o ")
    assert " of " in told[0]
    assert told[0].endswith(" s")
    mine.close()


@pytest.mark.usefixtures("at_once")
def test_notices_come_again(path, hold, monkeypatch):
    monkeypatch.setattr(lock_file, "NEXT_NOTICES", 0.0)
    holder = hold(path)
    told = []
    mine = LockFile(path)
    mine.wait(None, lambda sentence: (told.append(sentence), len(told) == 3 and holder.release()))
    assert len(told) >= 3
    mine.close()


@pytest.mark.usefixtures("at_once")
def test_grandchild_that_keeps_the_descriptor_keeps_the_lock_and_is_named(path, hold):
    left = "exec 7<&0; cat <&7 >/dev/null & echo held; echo $!"  # cat outlives sh and flock
    holder = hold(path, "-x", script=left)
    grandchild = int(holder.process.stdout.readline())
    holder.process.wait()
    mine = LockFile(path)
    told = []

    def notice(sentence):
        told.append(sentence)
        os.kill(grandchild, signal.SIGKILL)

    mine.wait(None, notice)
    assert f"pid {grandchild} `cat` of " in told[0]
    mine.close()


@pytest.mark.usefixtures("at_once")
def test_timeout_is_a_sentence_and_leaves_nothing_behind(path, hold, free):
    holder = hold(path)
    mine = LockFile(path)
    with pytest.raises(LockTimeoutError) as caught:
        mine.wait(time.monotonic(), silent)
    text = str(caught.value)
    assert text.startswith(f"{path} was not free within ")
    assert f"held by pid {holder.pid} `flock" in text
    assert text.endswith("wait longer with timeout=, or end what holds it")
    holder.release()
    # Our abandoned waiter may be granted the lock now; then it lets go, and flock gets it.
    subprocess.run(["flock", "-w", "60", str(path), "true"], check=True)
    assert free(path)


@pytest.mark.usefixtures("at_once")
def test_replaced_file_is_locked_anew(path, hold, free):
    holder = hold(path)
    mine = LockFile(path)

    def replace(_):
        path.unlink()
        path.touch()
        holder.release()

    mine.wait(None, replace)
    assert os.path.samestat(os.fstat(mine.descriptor), path.stat())
    assert not free(path)
    mine.close()


INTERRUPTED = """
import sys
from pathlib import Path
from pytest_nvfp4.markers.gpu_lock import lock_file
lock_file.FIRST_NOTICE = 0.0
mine = lock_file.LockFile(Path(sys.argv[1]))
try:
    mine.wait(None, lambda sentence: print("waiting", flush=True))
except KeyboardInterrupt:
    print("interrupted")
"""


def test_interrupt_ends_the_wait(path, hold, script):
    hold(path)
    process = script(INTERRUPTED, path)
    assert process.stdout.readline() == "waiting\n"
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate()
    assert (output, errors, process.returncode) == ("interrupted\n", "", 0)


def test_refusing_file_system_is_a_sentence(path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EBADF, "Bad file descriptor")

    mine = LockFile(path)
    monkeypatch.setattr(lock_file.fcntl, "flock", refuse)
    with pytest.raises(LockError, match="is it NFS"):
        mine.try_lock()
    mine.close()
