"""Plan maps: immutable, ordered, digested, and compared in a table."""

import collections
import random
from pathlib import Path

import numpy as np
import pytest

from pytest_nvfp4.plans import (
    TACTICS,
    NotPlansError,
    PlanKey,
    PlanMap,
    as_plan_map,
    difference_table,
    differences,
    tactic_name,
)

ROWS = [((1, 256, 128), 4), ((2, 256, 128), 5), ((1, 256, 64), 6)]


def test_map_is_sorted_whatever_it_was_made_from():
    expected = [(1, 256, 64, 6), (1, 256, 128, 4), (2, 256, 128, 5)]
    for _ in range(5):
        random.shuffle(ROWS)
        assert PlanMap(ROWS).rows == expected
    assert PlanMap(PlanMap(ROWS)).rows == expected


def test_key_given_twice_is_an_error():
    with pytest.raises(
        ValueError, match=r"plan key \(1, 256, 64\) occurs twice; give each key once"
    ):
        PlanMap([*ROWS, ((1, 256, 64), 7)])


def test_equality_hash_and_digest_agree():
    one, same, other = PlanMap(ROWS), PlanMap(ROWS[::-1]), PlanMap(ROWS[:2])
    assert (one, hash(one), one.digest) == (same, hash(same), same.digest)
    assert one != other
    assert one.digest != other.digest
    assert one == dict(ROWS), "a plan map equals a plain mapping with the same plans"
    assert (1, 256, 64) in one


def test_map_cannot_be_changed():
    plans = PlanMap(ROWS)
    with pytest.raises(TypeError):
        plans[PlanKey(1, 2, 16)] = 3
    with pytest.raises(AttributeError):
        plans.extra = 1


def test_tactics_are_named_by_tile_order_and_scheduler():
    assert TACTICS[6].name == "128x32x256 swap stream-k"
    assert TACTICS[1].short_name == "128x32x128 plain dp"
    assert tactic_name(31) == "128x256x128 plain stream-k"
    assert tactic_name(32) == tactic_name(-1) == "unknown tactic"
    assert len({tactic.name for tactic in TACTICS}) == 32


def test_difference_table_holds_only_rows_that_differ_in_80_columns():
    left = PlanMap([*ROWS, ((4096, 34816, 17408), 31)])
    right = PlanMap([ROWS[0], (ROWS[1][0], 31)])
    lines = difference_table(differences(left, right), "a" * 50, "b" * 50)
    assert max(map(len, lines)) <= 80
    assert len(lines) == 1 + 3
    assert lines[-1].split()[:4] == ["34816", "17408", "4096", "31"]
    assert lines[-1].endswith("—"), "a plan that one side lacks"


def test_keys_that_are_plain_tuples_have_differences_too():
    changes = differences(dict(ROWS), {(1, 256, 64): 7})
    assert [(change.key.k, change.left, change.right) for change in changes] == [
        (64, 6, 7),
        (128, 4, None),
        (128, 5, None),
    ]


def test_handed_over_plans_may_be_any_mapping_of_any_integers():
    given = {(np.int64(m), n, k): np.int8(tactic) for (m, n, k), tactic in ROWS}
    plans = as_plan_map(collections.ChainMap(given))
    assert plans == PlanMap(ROWS)
    assert {type(part) for row in plans.rows for part in row} == {int}
    assert as_plan_map(plans) == plans


class Twice(collections.UserDict):
    """A mapping that has its key twice."""

    def __iter__(self):
        return iter([*self.data, *self.data])


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ([((1, 2, 3), 4)], "not list; give a PlanMap, or a mapping"),
        (
            "plans.json",
            "not str; read a cache file with pytest_nvfp4.cache_files.read_plans",
        ),
        (b"{}", "not bytes; read a cache file"),
        (Path("plans.json"), "not PosixPath; read a cache file"),
        ({(1, 2): 3}, r"plan key \(1, 2\) is not possible; use \(m, n, k\), integers above 0"),
        ({(1, 2, 3, 4): 3}, "plan key"),
        ({"abc": 3}, "plan key 'abc'"),
        ({(1, 2, 3.0): 3}, "plan key"),
        ({(1, 2, True): 3}, "plan key"),
        ({(1, -2, 3): 3}, "plan key"),
        ({(1, 2, 3): -1}, r"the plan of \(1, 2, 3\) has tactic -1; use an integer from 0 to 31"),
        ({(1, 2, 3): 32}, "has tactic 32"),
        ({(1, 2, 3): 4.0}, "has tactic 4.0"),
        ({(1, 2, 3): None}, "has tactic None"),
        ({(1, 2, 3): True}, "has tactic True"),
        (Twice({(1, 2, 3): 4}), r"plan key \(1, 2, 3\) occurs twice; give each key once"),
    ],
)
def test_anything_else_handed_over_as_plans_is_an_error(value, sentence):
    with pytest.raises(NotPlansError, match=sentence) as caught:
        as_plan_map(value)
    assert "\n" not in str(caught.value)


def test_failed_comparison_shows_the_table(pytester):
    pytester.makepyfile(
        """
        from pytest_nvfp4.plans import PlanMap

        def test_maps(nvfp4_oracle):
            plans = dict(nvfp4_oracle.plans)
            plans[1, 5120, 6144] = 31
            del plans[2048, 14336, 5120]
            assert PlanMap(plans) == nvfp4_oracle.plans

        def test_with_a_dict(nvfp4_oracle):
            assert nvfp4_oracle.plans == {}
        """
    )
    result = pytester.runpytest_subprocess("-p", "nvfp4")
    result.stdout.fnmatch_lines(
        [
            "*plan maps differ in 2 of 64 plans*",
            "*N      K     M  left*right*",
            "*5120   6144     1  31 128x256x128 plain sk*4 128x32x256 swap dp*",
            "*14336   5120  2048  —*22 128x128x256 swap sk*",
            "*plan maps differ in 64 of 64 plans*",
        ]
    )
    result.assert_outcomes(failed=2)
