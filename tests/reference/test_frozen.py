"""Frozen mode: everything from files, nothing measured, nothing on disk changed."""

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from nvfp4_reference import PlanKey, buckets
from nvfp4_reference.session import Completion
from nvfp4_reference.warm_up import WarmUp

from .documents import names, verdict
from .sessions import (
    NK,
    SHAPES,
    Untouchable,
    flashinfer_text,
    frozen_at,
    keys,
    session,
    write_native,
)
from .test_publication import interposed

NEEDED = keys([1, 2, 4, 8], SHAPES)


def frozen(path: Path, **variables: str) -> Any:
    return session(frozen_at(path, **variables), back_end=Untouchable())


def disk(directory: Path) -> list[Any]:
    """All that a write could change: listing, bytes, and what `stat` says but access times."""
    found = []
    for path in [directory, *sorted(directory.iterdir())]:
        status = path.stat()
        facts = (status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_mode)
        found.append((path.name, facts, path.read_bytes() if path.is_file() else b""))
    return found


def test_a_complete_map_serves_everything_and_changes_nothing(
    tmp_path: Path, rng: random.Random
) -> None:
    plans = {key: rng.randrange(32) for key in NEEDED}
    write_native(tmp_path / "file", plans)
    before = disk(tmp_path)
    flags: list[int] = []

    def hook(name: str, arguments: tuple[Any, ...]) -> None:
        assert name in {"open", "read", "stat", "lstat", "fstat", "close"}
        if name == "open":
            flags.append(arguments[1])

    with interposed(hook):
        found = frozen(tmp_path / "file")
        assert found.warm_up(8, SHAPES) == WarmUp(8, 0, 0)
        assert found.complete() == Completion(0)
        for key in NEEDED:
            assert found.plan(*key).tactic == plans[key]
            assert found.plan(*key, capturing=True).tactic == plans[key]
    assert len(flags) == 1  # the file is read once
    assert not flags[0] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    counts = found.statistics()
    assert counts.mode == "frozen"
    assert (counts.loaded, counts.tuned, counts.rejected, counts.saved, counts.lazy) == (
        8,
        0,
        0,
        0,
        0,
    )
    assert disk(tmp_path) == before


def test_one_missing_key_fails_and_is_named(tmp_path: Path, rng: random.Random) -> None:
    missing = rng.choice(NEEDED)
    write_native(tmp_path / "file", {key: 1 for key in NEEDED if key != missing})
    before = disk(tmp_path)
    found = frozen(tmp_path / "file")
    with pytest.raises(Exception, match=f"M = {missing.m} .bucket {missing.m}.*N = {missing.n}, K"):
        found.warm_up(8, SHAPES)
    member = f"{missing.m},{missing.n},{missing.k}"
    assert verdict(found.warm_up, 8, SHAPES) == ("frozen-miss", member)
    assert verdict(found.complete)[0] == "lifecycle"
    assert verdict(found.plan, *missing) == ("frozen-miss", member)
    assert found.trace() == ()
    assert found.statistics().tuned == 0
    assert disk(tmp_path) == before


def test_m_and_its_bucket_are_named(tmp_path: Path) -> None:
    maximum = 300
    write_native(
        tmp_path / "file",
        {PlanKey(b, *NK): 1 for b in buckets.profile_buckets(maximum) if b != 512},
    )
    with pytest.raises(Exception, match=r"M = 300 \(bucket 512\), N = 320, K = 384"):
        frozen(tmp_path / "file").warm_up(maximum, [NK])


@pytest.mark.parametrize(
    "make",
    [
        lambda path: None,
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"{"),
        lambda path: path.mkdir(),
        lambda path: path.symlink_to("nowhere"),
    ],
    ids=["missing", "empty", "damaged", "directory", "dangling"],
)
def test_a_missing_or_rejected_file_fails_unless_an_import_covers_it(
    tmp_path: Path, make: Callable[[Path], Any]
) -> None:
    path, imported = tmp_path / "file", tmp_path / "import"
    make(path)
    imported.write_text(flashinfer_text(dict.fromkeys(NEEDED, 5)))
    before = names(tmp_path)
    assert verdict(frozen(path).warm_up, 8, SHAPES)[0] == "frozen-miss"
    covered = frozen(path, VT_FP4_FLASHINFER_CACHE_PATH=str(imported))
    assert covered.warm_up(8, SHAPES) == WarmUp(8, 0, 0)
    assert covered.plan(8, *NK).source == "import"
    assert covered.complete() == Completion(0)
    imported.write_text(flashinfer_text(dict.fromkeys(NEEDED[1:], 5)))
    partly = frozen(path, VT_FP4_FLASHINFER_CACHE_PATH=str(imported))
    assert verdict(partly.warm_up, 8, SHAPES)[0] == "frozen-miss"
    assert names(tmp_path) == before


def test_the_message_says_why_a_file_gave_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"{")
    with pytest.raises(Exception, match=r"the native file: syntax"):
        frozen(tmp_path / "file").warm_up(8, SHAPES)


def test_a_refused_import_fails_even_where_the_file_covers_all(tmp_path: Path) -> None:
    write_native(tmp_path / "file", dict.fromkeys(NEEDED, 1))
    imported = tmp_path / "import"
    for text, code in (
        (flashinfer_text(dict.fromkeys(NEEDED, 5), gpu="another"), "foreign-environment"),
        ("", "syntax"),
    ):
        imported.write_text(text)
        found = frozen(tmp_path / "file", VT_FP4_FLASHINFER_CACHE_PATH=str(imported))
        assert verdict(found.warm_up, 8, SHAPES)[0] == code


def test_frozen_stays_frozen(tmp_path: Path) -> None:
    write_native(tmp_path / "file", dict.fromkeys(NEEDED, 1))
    found = frozen(tmp_path / "file")
    found.warm_up(8, SHAPES)
    found.complete()
    assert verdict(found.plan, 9, *NK) == ("frozen-miss", "9,320,384")
    assert verdict(lambda: found.plan(9, *NK, capturing=True))[0] == "capture-miss"
    assert found.statistics().tuned == 0
    assert found.statistics().lazy == 2


@pytest.mark.parametrize("happens", ["deleted", "replaced", "truncated"])
def test_what_happens_to_the_file_after_loading_changes_nothing(
    tmp_path: Path, happens: str
) -> None:
    path = tmp_path / "file"
    write_native(path, dict.fromkeys(NEEDED, 1))
    found = frozen(path)
    found.begin_warm_up()
    match happens:
        case "deleted":
            path.unlink()
        case "replaced":
            write_native(tmp_path / "new", dict.fromkeys(NEEDED, 2))
            os.replace(tmp_path / "new", path)
        case _:
            path.write_bytes(b"")
    assert found.maximum_pass(8, SHAPES) == WarmUp(0, 0, 0)
    assert found.complete() == Completion(0)
    assert set(found.plans().values()) == {1}
    assert found.warm_up(8, SHAPES) == WarmUp(0, 0, 0)
    assert found.complete() == Completion(0)


def test_an_import_alone_is_enough_without_a_cache_root(tmp_path: Path) -> None:
    (tmp_path / "import").write_text(flashinfer_text(dict.fromkeys(NEEDED, 5)))
    environment = {
        "VT_FP4_AUTOTUNE_CACHE_READONLY": "1",
        "VT_FP4_FLASHINFER_CACHE_PATH": str(tmp_path / "import"),
    }
    found = session(environment, back_end=Untouchable())
    assert found.warm_up(8, SHAPES) == WarmUp(8, 0, 0)
    assert (found.statistics().mode, found.statistics().path) == ("frozen", None)
