"""Reading: only regular files, never blocking, whole or not at all."""

import os
import random
import socket
from pathlib import Path
from typing import Any

import pytest
from nvfp4_reference import files

from .documents import open_descriptors, verdict


def rejection(path: object) -> tuple[str, str]:
    return verdict(files.read_regular, str(path))


def test_a_regular_file_through_links(tmp_path: Path, rng: random.Random) -> None:
    data = rng.randbytes(3 * 2**20 + 5)
    (tmp_path / "file").write_bytes(data)
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "link2").symlink_to(tmp_path / "link")
    assert files.read_regular(str(tmp_path / "link2")) == data
    (tmp_path / "file").write_bytes(b"")
    assert files.read_regular(str(tmp_path / "file")) == b""


def test_what_is_not_regular(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("fifo")
    monkeypatch.chdir(tmp_path)  # a socket's path must be short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        for name in ("fifo", "link", "socket", ".", "/dev/zero", "/dev/null"):
            assert rejection(name) == ("not-regular", "")


def test_what_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").write_bytes(b"{}")
    for name in ("absent", "dangling", "loop", "file/below", "n" * 300, "nul\0", "\ud800"):
        assert rejection(tmp_path / name) == ("unreadable", "")
    assert rejection("") == ("unreadable", "")


def test_the_limit_of_size(tmp_path: Path) -> None:
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(files.SIZE_LIMIT)
    assert len(files.read_regular(str(path))) == files.SIZE_LIMIT
    with path.open("ab") as file:
        file.write(b"x")
    assert rejection(path) == ("too-large", "")


def test_a_file_that_grows_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(b"x")
    monkeypatch.setattr(os, "read", lambda descriptor, size: b"x" * size)
    assert rejection(tmp_path / "file") == ("too-large", "")


@pytest.mark.parametrize("name", ["stat", "open", "fstat", "read"])
def test_an_error_of_any_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    (tmp_path / "file").write_bytes(b"{}")

    def fail(*arguments: Any, **named: Any) -> Any:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, name, fail)
        found = rejection(tmp_path / "file")
    assert found == ("unreadable", "")


def test_reading_leaves_no_descriptor_open(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"{}")
    before = open_descriptors()
    for _ in range(5):
        files.read_regular(str(tmp_path / "file"))
        rejection(tmp_path)
    assert open_descriptors() == before
