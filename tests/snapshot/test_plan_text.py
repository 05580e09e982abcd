"""The canonical text: reviewable, mergeable, and read strictly."""

import random
import subprocess

import pytest

from pytest_nvfp4 import oracle
from pytest_nvfp4.plans import PlanKey, PlanMap
from pytest_nvfp4.snapshot.plan_text import TextError, parse, render

SAMPLE = """\
# plan maps of test_it

[1]
     N      K     M  tactic
   256    128     1   4 128x32x256 swap data-parallel
   256    128     2   5 128x32x256 plain data-parallel
   512    128     1  31 128x256x128 plain stream-k

[decode]
     N      K     M  tactic
"""


def random_map(source):
    keys = {
        PlanKey(
            2 ** source.randrange(13), source.randrange(1, 10**7), 16 * source.randrange(1, 999)
        )
        for _ in range(source.randrange(40))
    }
    return PlanMap({key: source.randrange(32) for key in keys})


@pytest.fixture
def source():
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    return random.Random(seed)


def test_text_shows_shape_by_shape_what_runs(plans):
    assert render("test_it", {"decode": PlanMap({}), "1": plans}) == SAMPLE
    assert parse(SAMPLE.encode(), "test_it") == {"1": plans, "decode": {}}


def test_any_maps_come_back(source):
    for _ in range(50):
        labels = source.sample(["1", "2", "10", "a", "decode step", "é"], source.randrange(7))
        maps = {label: random_map(source) for label in labels}
        assert parse(render("test_it[a\nb]", maps).encode(), "test_it[a\nb]") == maps


def test_numbers_come_in_their_order_and_before_names():
    text = render("t", dict.fromkeys(["b", "10", "9", "a"], PlanMap({})))
    assert [line for line in text.splitlines() if line.startswith("[")] == [
        "[9]",
        "[10]",
        "[a]",
        "[b]",
    ]


def test_changed_tactic_is_one_changed_line(source):
    before = oracle.load().plans
    key = source.choice(list(before))
    after = PlanMap(dict(before) | {key: (before[key] + source.randrange(1, 32)) % 32})
    texts = [render("t", {"1": one}).splitlines() for one in (before, after)]
    changed = [pair for pair in zip(*texts, strict=True) if pair[0] != pair[1]]
    assert len(changed) == 1
    assert changed[0][1].split()[:4] == [str(n) for n in (key.n, key.k, key.m, after[key])]


def test_branches_that_change_different_shapes_merge(tmp_path):
    plans = dict(oracle.load().plans)
    mine, others = {(1, 5120, 6144): 31}, {(3, 34816, 5120): 30}
    for name, one in (("base", {}), ("ours", mine), ("theirs", others)):
        (tmp_path / name).write_text(render("t", {"1": PlanMap(plans | one)}))
    command = ["git", "merge-file", "-p", "ours", "base", "theirs"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert parse(done.stdout, "t") == {"1": PlanMap(plans | mine | others)}


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("plan maps", "plans", "line 1 is '# plans of test_it', not '# plan maps of test_it'"),
        ("test_it", "test_other", "it belongs to test_other, not to test_it"),
        ("  31 128", "  30 128", "line 7 is "),
        ("  31 128x256", "  31 128x257", "line 7 is "),
        ("  31 128x256x128 plain stream-k", "  32 unknown tactic", "line 7 is "),
        ("  31", "  ٣١", "line 7 is "),
        ("     1   4", "    01   4", "line 5 is "),
        ("     2   5", "     1   5", "line 5 is "),
        ("   256    128     2", "     7    128     2", "line 5 is "),
        ("\n   512", "\n\n   512", "line 7 is ''"),
        ("     N", "    N", "line 4 is "),
        ("[decode]", "[1]", "line 9 is '[1]', after the end"),
        ("[decode]", "[0]", "line 3 is '[1]', not '[0]'"),
        ("\n[1]\n", "\n<<<<<<< ours\n[1]\n", "line 3 is a merge conflict"),
        ("     N      K     M  tactic\n", "", "line 4 is "),
        ("parallel\n", "parallel\r\n", "line 5 is "),
        ("\n\n[decode]\n     N      K     M  tactic\n", "", "it ends before line 8"),
        (SAMPLE, SAMPLE + "\n", "line 12 is '', after the end"),
        (SAMPLE, SAMPLE[:-1], "it ends before line 11"),
        (SAMPLE, "", "line 1 is ''"),
        (SAMPLE, "\ufeff" + SAMPLE, "line 1 is "),
    ],
)
def test_other_text_is_an_error_that_says_where(old, new, sentence):
    assert old in SAMPLE
    with pytest.raises(TextError) as caught:
        parse(SAMPLE.replace(old, new, 1).encode(), "test_it")
    assert str(caught.value).startswith(sentence)
    assert "\n" not in str(caught.value)


def test_bytes_that_are_no_text_are_an_error():
    with pytest.raises(TextError, match="byte 3 is not UTF-8"):
        parse(b"# \xff", "test_it")


def test_label_of_very_many_digits_is_read():
    maps = {"9" * 5000: PlanMap({}), "1": PlanMap({})}
    assert parse(render("t", maps).encode(), "t") == maps


def test_every_edit_of_one_character_is_an_error_or_says_something_else(source):
    maps = {"1": random_map(source), "decode": random_map(source)}
    text = render("test_it", maps)
    refused = 0
    for _ in range(300):
        at = source.randrange(len(text))
        char = source.choice("0123456789 \nxa[]#é")
        edited = text[:at] + char + text[at + 1 :]
        try:
            read = parse(edited.encode(), "test_it")
        except TextError:
            refused += 1
        else:
            assert (read == maps) == (edited == text)
    assert refused > 0
