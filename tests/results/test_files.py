"""Writing result files: whole or not at all, through links, and into pipes."""

import os
from pathlib import Path

import pytest

from pytest_nvfp4.results.files import publish


def test_a_file_is_replaced_in_one_step_and_nothing_is_left(tmp_path: Path) -> None:
    path = tmp_path / "a" / "report.json"
    publish(path, b"one")
    before = path.stat().st_ino
    publish(path, b"two")
    assert path.read_bytes() == b"two"
    assert path.stat().st_ino != before
    assert list(path.parent.iterdir()) == [path]


def test_modes_follow_the_umask_and_then_stay(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    publish(path, b"")
    fresh = tmp_path / "fresh"
    fresh.touch()
    assert path.stat().st_mode == fresh.stat().st_mode
    path.chmod(0o640)
    publish(path, b"x")
    assert path.stat().st_mode & 0o7777 == 0o640


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    publish(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_what_is_no_file_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        publish(pipe, b"hello")
        assert os.read(reader, 100) == b"hello"
    finally:
        os.close(reader)
    assert pipe.is_fifo()


def test_a_failure_leaves_the_old_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "report.json"
    path.write_bytes(b"old")

    def refuse(*_: object) -> None:
        raise OSError("no")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="no"):
        publish(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_is_no_place_for_a_report(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        publish(tmp_path, b"x")
    assert list(tmp_path.iterdir()) == []
