"""Where snapshots lie: no two tests share a file, and none leaves the folder."""

import random
from pathlib import Path

import pytest

from pytest_nvfp4.snapshot import names

ROOT = Path("/project")


@pytest.mark.parametrize(
    "test", ["test_a", "TestA.test_b", "test_a[1-x]", "test_a[0.5,b=2]", "TestA.TestB.test_c[+@]"]
)
def test_plain_ids_are_names(test):
    assert names.stem(test) == test


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("test_a[x/y]", "test_a[x_y]"),
        ("test_a[x/y]", "test_a[x:y]"),
        ("test_a[x/y]", "test_a[x//y]"),
        ("test_a[" + "x" * 300 + "]", "test_a[" + "x" * 301 + "]"),
        ("test_a[é]", "test_a[e\u0301]"),
        ("test_a[\ud800]", "test_a[\ud801]"),
        ("test_a[a\nb]", "test_a[a b]"),
    ],
)
def test_ids_that_look_alike_have_files_of_their_own(one, other):
    assert names.stem(one) != names.stem(other)


def test_name_of_an_odd_id_is_not_the_name_of_another_test():
    odd = names.stem("test_a[x/y]")
    assert "~" in odd
    assert names.stem(odd) != odd


def test_random_ids_never_meet_or_leave_the_folder():
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    source = random.Random(seed)
    ids = {
        "".join(source.choices("ab/\\.:~-_ \0\n[]é𝄞\ud800", k=source.choice([1, 2, 3, 150, 300])))
        for _ in range(3000)
    }
    stems = {names.stem(one) for one in ids}
    assert len(stems) == len(ids)
    for stem in stems:
        assert "/" not in stem
        assert "\0" not in stem
        assert not stem.startswith(".")
        assert len(f"{stem}.plans".encode()) <= 255
        assert names.stem(stem) == stem or "~" in stem


def test_folder_is_beside_the_module_and_not_syrupys():
    assert names.folder(ROOT / "tests/test_x.py") == ROOT / "tests/__plan_snapshots__/test_x"
    assert names.folder(ROOT / "test_x.txt") == ROOT / "__plan_snapshots__/test_x.txt"
