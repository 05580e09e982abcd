"""At the default path a damaged file is replaced, and a file that is usable elsewhere never is."""

import errno
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from nvfp4_reference import Document, PlanKey, Rejected, publication, read_native, resolve
from nvfp4_reference.session import Completion

from .documents import GB10, ORACLE, editable, encoded, names
from .sessions import HERE, SHAPES, Untouchable, at, best, keys, session
from .test_publication import interposed, kill_at_any_call

SMALL = dict.fromkeys(sorted(keys([1, 2, 4, 8], SHAPES)), 3)
GOOD = Document(HERE, {PlanKey(1, 999, 16): 9})


def without(member: str) -> bytes:
    root = editable(GOOD)
    del root["_metadata"][member]
    return encoded(root)


def with_metadata(**changes: Any) -> bytes:
    root = editable(GOOD)
    root["_metadata"].update(changes)
    return encoded(root)


def with_root(**changes: Any) -> bytes:
    return encoded({**editable(GOOD), **changes})


def default_file(home: Path) -> Path:
    path = resolve({"HOME": str(home)}).native_path
    assert path is not None
    file = Path(path)
    file.parent.mkdir(parents=True)
    return file


DAMAGED: dict[str, Callable[[], bytes]] = {
    "truncated": lambda: GOOD.render().encode()[:-9],
    "zeros": lambda: bytes(len(GOOD.render())),
    "two documents": lambda: GOOD.render().encode() * 2,
    "one space": lambda: b" ",
    "invalid UTF-8": lambda: b"\xff" + GOOD.render().encode(),
    "a repeated member": lambda: GOOD.render().replace('"plans"', '"plans": [], "plans"').encode(),
    "a list": lambda: b"[]",
    "an empty object": lambda: b"{}",
    "no metadata": lambda: b'{"plans": []}',
    "null metadata": lambda: with_root(_metadata=None),
    "no plans": lambda: with_root(plans=None),
    "a lost field": lambda: without("gpu"),
    "a lost format": lambda: without("format"),
    "a field of another type": lambda: with_metadata(architecture="0"),
    "a format of another type": lambda: with_metadata(format=1),
    "a bad plan": lambda: GOOD.render().replace('"k": 16', '"k": 17').encode(),
    "an unknown tactic": lambda: (
        GOOD.render().replace('"tactic_id": 9', '"tactic_id": 99').encode()
    ),
    "an unknown runner": lambda: GOOD.render().replace("CutlassFp4", "Other").encode(),
    "a failed probe": lambda: with_metadata(cuda_driver="unknown"),
    "a probe that reported None": lambda: with_metadata(cuda_driver="None"),
}
USABLE: dict[str, Callable[[], bytes]] = {
    "another driver": lambda: with_metadata(cuda_driver="13.0"),
    "another machine": lambda: Document(GB10, GOOD.plans).render().encode(),
    "another delay": lambda: with_metadata(delay_microseconds=1),
    "another format": lambda: with_metadata(format="vllm.cpp_nvfp4_autotune_v2"),
    "another format with other fields": lambda: encoded({"_metadata": {"format": "other"}}),
    "another format with other plans": lambda: with_root(
        _metadata={"format": "other_v1", "gpu": None}, plans={"a": 1}
    ),
    "FlashInfer's": lambda: ORACLE,
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_damage_at_the_default_path_is_replaced_and_kept(tmp_path: Path, kind: str) -> None:
    path, data = default_file(tmp_path), DAMAGED[kind]()
    path.write_bytes(data)
    path.chmod(0o640)
    found = session({"HOME": str(tmp_path)})
    found.warm_up(8, SHAPES, back_end=best(3))
    assert found.statistics().rejected == 1
    assert path.read_bytes() == data  # not before completion
    assert found.complete() == Completion(8)
    assert read_native(str(path), HERE).plans == SMALL
    assert names(path.parent) == ["autotune_configs.json", "autotune_configs.json.rejected"]
    kept = path.with_name("autotune_configs.json.rejected")
    assert kept.read_bytes() == data
    assert {file.stat().st_mode & 0o777 for file in (path, kept)} == {0o640}
    again = session({"HOME": str(tmp_path)}, back_end=Untouchable())
    again.warm_up(8, SHAPES)
    assert again.statistics().rejected == 0


@pytest.mark.parametrize("kind", DAMAGED)
def test_damage_at_an_explicit_path_stays(tmp_path: Path, kind: str) -> None:
    path, data = default_file(tmp_path), DAMAGED[kind]()
    path.write_bytes(data)
    found = session({"HOME": str(tmp_path), **at(path)})  # even where it is the default path
    found.warm_up(8, SHAPES, back_end=best(3))
    completion = found.complete()
    assert (completion.saved, path.read_bytes()) == (0, data)
    assert completion.failure
    assert names(path.parent) == [path.name]


@pytest.mark.parametrize("kind", USABLE)
@pytest.mark.parametrize("explicit", [False, True], ids=["default", "explicit"])
def test_what_is_usable_elsewhere_is_never_overwritten(
    tmp_path: Path, kind: str, explicit: bool
) -> None:
    path, data = default_file(tmp_path), USABLE[kind]()
    path.write_bytes(data)
    found = session({"HOME": str(tmp_path), **(at(path) if explicit else {})})
    found.warm_up(8, SHAPES, back_end=best(3))
    completion = found.complete()
    assert completion.saved == 0
    assert completion.failure
    assert path.read_bytes() == data
    assert names(path.parent) == [path.name]
    assert found.plans() == SMALL


def test_an_empty_file_is_replaced_everywhere_and_not_kept(tmp_path: Path) -> None:
    path = default_file(tmp_path)
    for environment in ({"HOME": str(tmp_path)}, at(path)):
        path.write_bytes(b"")
        found = session(environment)
        found.warm_up(8, SHAPES, back_end=best(3))
        assert found.complete() == Completion(8)
        assert names(path.parent) == [path.name]


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo], ids=["directory", "fifo"])
def test_what_is_no_regular_file_is_left_alone(tmp_path: Path, make: Callable[[Path], Any]) -> None:
    path = default_file(tmp_path)
    make(path)
    found = session({"HOME": str(tmp_path)})
    found.warm_up(8, SHAPES, back_end=best(3))
    assert found.complete().saved == 0
    assert names(path.parent) == [path.name]


def test_with_an_indeterminate_environment_nothing_is_moved(tmp_path: Path) -> None:
    unknown = replace(HERE, cuda_driver="unknown")
    path = tmp_path / "file"
    path.write_text(GOOD.render())
    with pytest.raises(Exception, match="cuda_driver"):
        publication.update(str(path), Document(unknown, {}), replace_damaged=True)
    path.write_bytes(b"damage")
    with pytest.raises(Exception, match="cuda_driver"):
        publication.update(str(path), Document(unknown, {}), replace_damaged=True)
    assert path.read_bytes() == b"damage"
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_an_error_at_any_call_keeps_the_damaged_bytes(tmp_path: Path, number: int) -> None:
    order: list[str] = []
    path = tmp_path / "file"
    path.write_bytes(b"damage")
    with interposed(lambda name, _: order.append(name)):
        publication.update(str(path), GOOD, replace_damaged=True)
    assert order.count("replace") == 2
    assert order.count("fsync") == 4
    for index in range(len(order)):
        path = tmp_path / str(index) / "file"
        path.parent.mkdir()
        path.write_bytes(b"damage")
        remaining = index

        def hook(called: str, arguments: tuple[Any, ...]) -> None:
            nonlocal remaining
            remaining -= 1
            if remaining == -1:
                raise OSError(number, os.strerror(number))

        code = ""
        with interposed(hook):
            try:
                publication.update(str(path), GOOD, replace_damaged=True)
            except Rejected as rejected:
                code = rejected.code
        assert code in {"", "publication", "unreadable"}
        assert (path.read_bytes() == b"damage") == bool(code)
        assert set(names(path.parent)) <= {"file", "file.rejected"}
        if not code or (path.parent / "file.rejected").exists():
            assert (path.parent / "file.rejected").read_bytes() == b"damage"


def test_a_kill_at_any_call_loses_no_bytes(tmp_path: Path) -> None:
    states = set()
    calls = "open write fsync replace close fchmod"
    for code, path in kill_at_any_call(tmp_path, b"damage", GOOD, calls, damaged=True):
        kept = path.with_name("file.rejected")
        new = path.read_bytes() != b"damage"
        if new:
            assert read_native(str(path), HERE) == GOOD
            assert kept.read_bytes() == b"damage"
        states.add((code, kept.exists(), new))
    assert states == {
        (-signal.SIGKILL, False, False),
        (-signal.SIGKILL, True, False),
        (-signal.SIGKILL, True, True),
        (0, True, True),
    }
