"""Publication: readers see the old or the new document, with any fault and concurrent writers."""

import errno
import fcntl
import json
import os
import random
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from nvfp4_reference import Document, PlanKey, Rejected, native_document, publication, read_native

from .documents import GB10, editable, encoded, names, open_descriptors, random_document, verdict

CALLS = ["open", "read", "write", "fsync", "fchmod", "replace", "stat", "lstat", "fstat"]
CALLS += ["close", "readlink", "urandom"]


@contextmanager
def interposed(hook: Callable[[str, tuple[Any, ...]], None]) -> Iterator[None]:
    """Call `hook` before every system call that the publication makes through `os`."""
    with pytest.MonkeyPatch.context() as patch:
        for owner, calls in ((os, CALLS), (fcntl, ["flock"])):
            for name in calls:
                real = getattr(owner, name)

                def call(
                    *arguments: Any, _name: str = name, _real: Any = real, **named: Any
                ) -> Any:
                    if _name == "close":  # whatever close reports, the descriptor is gone
                        _real(*arguments)
                        hook(_name, arguments)
                        return None
                    hook(_name, arguments)
                    return _real(*arguments, **named)

                patch.setattr(owner, name, call)
        yield


def trace(path: Path, document: Document) -> list[tuple[str, tuple[Any, ...]]]:
    calls: list[tuple[str, tuple[Any, ...]]] = []
    with interposed(lambda name, arguments: calls.append((name, arguments))):
        publication.update(str(path), document)
    return calls


def test_the_order_of_the_calls(tmp_path: Path, rng: random.Random) -> None:
    path = tmp_path / "autotune_configs.json"
    publication.update(str(path), random_document(rng))
    calls = trace(path, random_document(rng))
    order = [name for name, _ in calls]
    replacement = order.index("replace")
    source, target = calls[replacement][1]
    assert target == str(path)
    assert Path(source).parent == tmp_path
    assert re.fullmatch(r"\.nvfp4-[0-9a-f]{32}\.tmp", Path(source).name)
    created = next(a for name, a in calls if name == "open" and a[0] == source)
    assert created[1] & os.O_EXCL
    assert created[1] & os.O_CREAT
    writer = order.index("write")
    assert order.index("flock") < order.index("read") < writer < order.index("fsync") < replacement
    assert calls[order.index("fsync")][1] == (calls[writer][1][0],)
    after = order[replacement:]
    assert after.count("fsync") == 1
    assert after.index("fsync") < after.index("flock")
    assert names(tmp_path) == [path.name]


def test_a_new_file_in_missing_directories(tmp_path: Path, rng: random.Random) -> None:
    document = random_document(rng)
    path = tmp_path / "a" / "b" / "c.json"
    assert publication.update(str(path), document) == document
    assert path.read_text() == document.render()
    assert list(path.parent.iterdir()) == [path]


def test_a_relative_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rng: random.Random
) -> None:
    monkeypatch.chdir(tmp_path)
    publication.update("plans.json", random_document(rng))
    assert names(tmp_path) == ["plans.json"]


def test_what_counts_is_the_file_as_it_is_now(tmp_path: Path, rng: random.Random) -> None:
    path = str(tmp_path / "file")
    first, second = random_document(rng), random_document(rng)
    publication.update(path, first)
    found = publication.update(path, second)
    assert found.plans == {**first.plans, **second.plans}
    assert read_native(path, GB10) == found
    (tmp_path / "file").write_bytes(b"")
    assert publication.update(path, first) == first


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        (lambda text: text[:-10], "syntax"),
        (lambda text: "\0" * len(text), "syntax"),
        (lambda text: text.replace('"architecture": 121', '"architecture": 120'), "foreign"),
        (lambda text: text.replace("autotune_v1", "autotune_v9"), "unknown-format"),
        (lambda text: text.replace('"13.0"', '"unknown"'), "indeterminate"),
        (lambda text: " ", "syntax"),
    ],
)
def test_a_file_that_cannot_be_merged_stays(
    tmp_path: Path, rng: random.Random, damage: Callable[[str], str], code: str
) -> None:
    path = tmp_path / "file"
    path.write_text(damage(random_document(rng).render()))
    before = path.read_bytes(), path.stat()
    assert verdict(publication.update, str(path), random_document(rng))[0].startswith(code)
    assert (path.read_bytes(), path.stat().st_ino) == (before[0], before[1].st_ino)
    assert path.stat().st_mtime_ns == before[1].st_mtime_ns
    assert names(tmp_path) == ["file"]


def test_a_document_that_could_not_be_read_back_is_not_written(tmp_path: Path) -> None:
    document = Document(GB10, {PlanKey(3, 1, 16): 40})
    assert verdict(publication.update, str(tmp_path / "file"), document)[0] == "unknown-tactic"
    assert not names(tmp_path)


def test_what_is_not_regular_is_left_alone(tmp_path: Path, rng: random.Random) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "directory").mkdir()
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "pipe").symlink_to("fifo")
    before = names(tmp_path)
    for name in ("fifo", "directory", "directory/", "new/", "dangling", "loop", "pipe", "."):
        path = f"{tmp_path}/{name}"
        assert verdict(publication.update, path, random_document(rng)) == ("not-regular", "")
    assert names(tmp_path) == before


def test_a_link_stays_and_its_target_changes(tmp_path: Path, rng: random.Random) -> None:
    (tmp_path / "real").mkdir()
    target = tmp_path / "real" / "file"
    publication.update(str(target), random_document(rng))
    (tmp_path / "middle").symlink_to("real/file")
    (tmp_path / "link").symlink_to(tmp_path / "middle")
    found = publication.update(str(tmp_path / "link"), random_document(rng))
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "middle").is_symlink()
    assert read_native(str(target), GB10) == found
    assert names(tmp_path) == ["link", "middle", "real"]
    assert names(tmp_path / "real") == ["file"]


@pytest.mark.parametrize("mask", [0o022, 0o027, 0o077, 0o000])
def test_the_mode_of_a_new_file_follows_the_umask(
    tmp_path: Path, rng: random.Random, mask: int
) -> None:
    path = tmp_path / "file"
    before = os.umask(mask)
    try:
        publication.update(str(path), random_document(rng))
        assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask
        for mode in (0o600, 0o664, 0o606, 0o444):
            path.chmod(mode)
            publication.update(str(path), random_document(rng))
            assert stat.S_IMODE(path.stat().st_mode) == mode
    finally:
        os.umask(before)


def outcome(path: Path, document: Document, hook: Callable[[str, tuple[Any, ...]], None]) -> str:
    """Publish under a fault; check that all is old or all is new, and say which."""
    old = path.read_bytes() if path.exists() else None
    listing = names(path.parent)
    descriptors = open_descriptors()
    code = ""
    with interposed(hook):
        try:
            publication.update(str(path), document)
        except Rejected as rejected:
            code = rejected.code
    assert open_descriptors() == descriptors
    if code:
        assert code in {"publication", "unreadable"}
        assert names(path.parent) == listing
        assert (path.read_bytes() if path.exists() else None) == old
    else:
        assert read_native(str(path), GB10).plans.items() >= document.plans.items()
        assert names(path.parent) == [path.name]
    return "old" if code else "new"


@pytest.mark.parametrize("existing", [False, True], ids=["new-file", "existing-file"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EACCES])
def test_an_error_at_any_call(
    tmp_path: Path, rng: random.Random, existing: bool, number: int
) -> None:
    (tmp_path / "size").mkdir()
    sample = tmp_path / "size" / "file"
    if existing:
        publication.update(str(sample), random_document(rng))
    order = [name for name, _ in trace(sample, random_document(rng))]
    assert {"open", "write", "fsync", "replace", "flock"} <= set(order)
    for index, name in enumerate(order):
        path = tmp_path / f"{index}" / "file"
        path.parent.mkdir()
        if existing:
            publication.update(str(path), random_document(rng))
        remaining = index

        def hook(called: str, arguments: tuple[Any, ...]) -> None:
            nonlocal remaining
            remaining -= 1
            if remaining == -1:
                raise OSError(number, os.strerror(number))

        result = outcome(path, random_document(rng), hook)
        # Only what is asked of the file or the directory for a second time, or for releasing, may
        # fail without consequence. The directory's fsync is no such call: old bytes come back.
        if index > order.index("replace") and name != "fsync":
            assert result == "new"
        elif name in {"open", "write", "fsync", "fchmod", "replace", "flock"}:
            assert result == "old"
        publication.update(str(path), random_document(rng))  # and the next save succeeds


def test_interruptions_are_retried(tmp_path: Path, rng: random.Random) -> None:
    path = tmp_path / "file"
    publication.update(str(path), random_document(rng))
    interrupted: set[str] = set()

    def hook(name: str, arguments: tuple[Any, ...]) -> None:
        if name not in interrupted and name != "urandom":
            interrupted.add(name)
            raise InterruptedError(errno.EINTR, "Interrupted system call")

    assert outcome(path, random_document(rng), hook) == "new"
    assert {"open", "write", "fsync", "replace", "flock", "close"} <= interrupted


def test_a_call_that_is_only_ever_interrupted_fails(tmp_path: Path, rng: random.Random) -> None:
    path = tmp_path / "file"
    publication.update(str(path), random_document(rng))

    def hook(name: str, arguments: tuple[Any, ...]) -> None:
        if name == "write":
            raise InterruptedError(errno.EINTR, "Interrupted system call")

    assert outcome(path, random_document(rng), hook) == "old"


def test_short_writes_are_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rng: random.Random
) -> None:
    path = tmp_path / "file"
    document = random_document(rng)
    real = os.write
    with monkeypatch.context() as patch:
        patch.setattr(
            os, "write", lambda descriptor, data: real(descriptor, data[: rng.randrange(1, 99)])
        )
        publication.update(str(path), document)
    assert path.read_text() == document.render()
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda descriptor, data: 0)
        assert verdict(publication.update, str(path), document) == ("publication", str(path))
    assert path.read_text() == document.render()
    assert names(tmp_path) == ["file"]


def test_an_interrupt_from_the_keyboard_leaves_nothing(tmp_path: Path, rng: random.Random) -> None:
    path = tmp_path / "file"
    publication.update(str(path), random_document(rng))
    before = path.read_bytes()

    def hook(name: str, arguments: tuple[Any, ...]) -> None:
        if name == "replace":
            raise KeyboardInterrupt

    with interposed(hook), pytest.raises(KeyboardInterrupt):
        publication.update(str(path), random_document(rng))
    assert path.read_bytes() == before
    assert names(tmp_path) == ["file"]


def test_a_parent_that_is_no_directory(tmp_path: Path, rng: random.Random) -> None:
    (tmp_path / "file").write_bytes(b"x")
    path = str(tmp_path / "file" / "below")
    assert verdict(publication.update, path, random_document(rng)) == ("publication", path)
    for odd in (f"{tmp_path}/{'n' * 300}", f"{tmp_path}/nul\0", "/proc/absent/file"):
        assert verdict(publication.update, odd, random_document(rng)) == ("publication", odd)


KILLED = """
import json, os, signal, sys
from nvfp4_reference import native_document, publication
folder, calls, replace_damaged = sys.argv[1], sys.argv[2].split(), sys.argv[3] == "damaged"
document = native_document.validate(json.load(sys.stdin))

def killing(real):
    def call(*arguments, **named):
        global remaining
        if remaining == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        remaining -= 1
        return real(*arguments, **named)
    return call

codes = []
while not codes or codes[-1]:
    remaining = len(codes)
    child = os.fork()
    if child == 0:
        for name in calls:
            setattr(os, name, killing(getattr(os, name)))
        path = os.path.join(folder, str(remaining), "file")
        publication.update(path, document, replace_damaged=replace_damaged)
        os._exit(0)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
json.dump(codes, sys.stdout)
"""


def kill_at_any_call(
    folder: Path, old: bytes, document: Document, calls: str, *, damaged: bool = False
) -> list[tuple[int, Path]]:
    """Publish over `old` once for each call, in a process that is killed there, and once whole.

    Returns the exit codes, and the file that each process was to replace.
    """
    for index in range(50):
        path = folder / str(index) / "file"
        path.parent.mkdir()
        path.write_bytes(old)
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(folder), calls, "damaged" if damaged else "whole"],
        input=encoded(document.as_json()),
        stdout=subprocess.PIPE,
        check=True,
    )
    codes: list[int] = json.loads(done.stdout)
    return [(code, folder / str(index) / "file") for index, code in enumerate(codes)]


def test_a_kill_at_any_call_leaves_old_or_new(tmp_path: Path, rng: random.Random) -> None:
    old, document = random_document(rng).render().encode(), random_document(rng)
    seen = set()
    calls = "open write fsync replace close fchmod read"
    for code, path in kill_at_any_call(tmp_path, old, document, calls):
        new = path.read_bytes()
        native_document.parse(new, GB10)
        seen.add((code, old == new))
    assert seen == {(-signal.SIGKILL, True), (-signal.SIGKILL, False), (0, False)}


WRITER = """
import json, sys
from nvfp4_reference import native_document, publication, Document
document = native_document.validate(json.load(sys.stdin))
for key, tactic in document.plans.items():
    publication.update(sys.argv[1], Document(document.metadata, {key: tactic}))
"""


@pytest.mark.parametrize("count", [10, pytest.param(40, marks=pytest.mark.wide)])
def test_processes_at_once_lose_nothing_and_readers_see_whole_documents(
    tmp_path: Path, rng: random.Random, count: int
) -> None:
    path = tmp_path / "file"
    documents = [random_document(rng, count) for _ in range(4)]
    writers = []
    for document in documents:
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path)], stdin=subprocess.PIPE, text=True
        )
        assert writer.stdin is not None
        json.dump(editable(document), writer.stdin)
        writer.stdin.close()
        writers.append(writer)
    seen = 0
    while any(writer.poll() is None for writer in writers):
        if path.exists():
            found = len(read_native(str(path), GB10).plans)
            assert found >= seen  # a published plan is never lost
            seen = found
    assert [writer.returncode for writer in writers] == [0] * 4
    expected = {key: tactic for document in documents for key, tactic in document.plans.items()}
    assert read_native(str(path), GB10).plans == expected
    assert names(tmp_path) == ["file"]


def failing_directory_fsync(number: int, then: str = "") -> Callable[[str, tuple[Any, ...]], None]:
    """A hook that fails the fsync after the rename, and from then on the call `then`."""
    renamed = failed = False

    def hook(name: str, arguments: tuple[Any, ...]) -> None:
        nonlocal renamed, failed
        if failed and name == then:
            raise OSError(number, os.strerror(number))
        if renamed and not failed and name == "fsync":
            failed = True
            raise OSError(number, os.strerror(number))
        renamed = renamed or name == "replace"

    return hook


def test_a_directory_that_cannot_be_synced_gets_its_old_file_back(
    tmp_path: Path, rng: random.Random
) -> None:
    path = tmp_path / "file"
    assert outcome(path, random_document(rng), failing_directory_fsync(errno.EIO)) == "old"
    assert names(tmp_path) == []
    publication.update(str(path), random_document(rng))
    path.chmod(0o604)
    assert outcome(path, random_document(rng), failing_directory_fsync(errno.EIO)) == "old"
    assert stat.S_IMODE(path.stat().st_mode) == 0o604
    path.write_bytes(b"")
    assert outcome(path, random_document(rng), failing_directory_fsync(errno.EIO)) == "old"


def test_a_file_system_without_directory_fsync_saves_all_the_same(
    tmp_path: Path, rng: random.Random
) -> None:
    path = tmp_path / "file"
    assert outcome(path, random_document(rng), failing_directory_fsync(errno.EINVAL)) == "new"


def test_old_bytes_that_cannot_be_put_back_are_not_claimed(
    tmp_path: Path, rng: random.Random
) -> None:
    path = tmp_path / "file"
    publication.update(str(path), random_document(rng))
    document = random_document(rng)
    with (
        interposed(failing_directory_fsync(errno.EIO, then="write")),
        pytest.raises(Rejected, match="the new plans are in place") as caught,
    ):
        publication.update(str(path), document)
    assert (caught.value.code, caught.value.member) == ("publication", str(path))
    assert read_native(str(path), GB10).plans.items() >= document.plans.items()
    assert names(tmp_path) == ["file"]
