"""A trace of this process and its children, read from the log that strace wrote."""

import ctypes
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pytest_nvfp4.faults import strace
from pytest_nvfp4.faults.attached import NotAttachedError, Tracer, read_changes
from pytest_nvfp4.faults.calls import Call

LOG = """
10 openat(AT_FDCWD</d>, "a", O_RDWR|O_CREAT, 0666) = 3</d/a>
10 write(3</d/a>, ""..., 1) = 1
10 clone3({flags=CLONE_VM|CLONE_FS|CLONE_THREAD, exit_signal=0} => {parent_tid=[11]}, 88) = 11
11 rename("a", "b") = 0
10 chdir("sub") = 0
11 unlink("c") = 0
10 vfork( <unfinished ...>
12 chdir("/e") = 0
12 execve("/bin/sh", [""..., ""...], 0x1 /* 9 vars */ <unfinished ...>
10 <... vfork resumed>) = 12
12 <... execve resumed>) = 0
12 mkdir("x", 0777) = 0
12 clone(child_stack=NULL, flags=CLONE_CHILD_CLEARTID|SIGCHLD) = 13
13 unlinkat(AT_FDCWD</e>, "x", AT_REMOVEDIR) = 0
13 symlink("text", "l") = 0
13 symlinkat("text", 5</f>, "l") = 0
13 link("l", "/g/m") = 0
13 fchdir(5</f>) = 0
13 setxattr("y", ""..., ""..., 1, 0) = 0
13 utimensat(4</f/y>, NULL, NULL, 0) = 0
13 utimensat(AT_FDCWD</f>, "y", NULL, 0) = 0
13 openat2(AT_FDCWD</f>, "y", {flags=O_RDONLY|O_TRUNC, resolve=0}, 24) = 6</f/y>
13 open("y", O_RDONLY) = 6</f/y>
13 rename("no", "where") = -1 ENOENT (No such file or directory)
13 +++ exited with 0 +++
"""


def test_log_is_followed_through_forks_and_changes_of_directory():
    calls = read_changes(LOG.strip().splitlines(), [10], "/d")
    assert [(one.call, one.name) for one in calls] == [
        (Call("open", "/d/a", creates=True, writes=True), "openat"),
        (Call("write", "/d/a"), "write"),
        (Call("rename", "/d/a", "/d/b"), "rename"),
        (Call("unlink", "/d/sub/c"), "unlink"),
        (Call("write", "/e/x"), "mkdir"),
        (Call("unlink", "/e/x"), "unlinkat"),
        (Call("link", "", "/e/l"), "symlink"),
        (Call("link", "", "/f/l"), "symlinkat"),
        (Call("link", "/e/l", "/g/m"), "link"),
        (Call("write", "/f/y"), "setxattr"),
        (Call("write", "/f/y"), "utimensat"),
        (Call("write", "/f/y"), "utimensat"),
        (Call("open", "/f/y", writes=True), "openat2"),
        (Call("open", "/f/y"), "open"),
    ]
    assert [(one.pid, one.program) for one in calls] == [
        *[(None, "this process")] * 4,
        (12, "sh"),
        *[(13, "sh")] * 9,
    ]


needs_strace = pytest.mark.skipif(
    strace.unavailable() is not None, reason=f"needs strace: {strace.unavailable()}"
)

PROGRAM = "import os; os.rename('a', 'b'); os.unlink('b')"


@needs_strace
def test_threads_compiled_code_and_children_are_seen(tmp_path, monkeypatch):
    (tmp_path / "a").touch()
    monkeypatch.chdir(tmp_path)
    tracer = Tracer()
    try:
        thread = threading.Thread(target=os.mkdir, args=["made"])
        thread.start()
        thread.join()
        assert ctypes.CDLL(None).truncate(b"a", 0) == 0
        subprocess.run([sys.executable, "-c", PROGRAM], check=True)
        calls = tracer.stop()
    finally:
        tracer.close()
    os.rmdir("made")
    seen = [one for one in calls if f"{tmp_path}/" in one.call.path and one.call.name != "open"]
    assert [(one.name, one.call, one.pid is None) for one in seen] == [
        ("mkdir", Call("write", f"{tmp_path}/made"), True),
        ("truncate", Call("write", f"{tmp_path}/a"), True),
        ("rename", Call("rename", f"{tmp_path}/a", f"{tmp_path}/b"), False),
        ("unlink", Call("unlink", f"{tmp_path}/b"), False),
    ]
    assert "TracerPid:\t0\n" in Path("/proc/self/status").read_text()


@needs_strace
def test_process_that_is_traced_already_says_so():
    first = Tracer()
    try:
        with pytest.raises(NotAttachedError, match="strace may not trace this process"):
            Tracer()
    finally:
        first.close()
