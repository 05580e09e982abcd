"""Snapshots without a test are named, and only where it is certain that there is none."""

import pytest
from workers import BOTH_WAYS

ONE = "def test_one(nvfp4_snapshot): assert PLANS == nvfp4_snapshot\n"
CLASS = "class TestIt:\n    def test_two(self, nvfp4_snapshot): assert PLANS == nvfp4_snapshot\n"

HEAD = "nvfp4_snapshot: {} no test; delete by hand what is obsolete:"


def named(result):
    """The paths under the sentence, and that sentence."""
    lines = result.outlines
    at = next((n for n, line in enumerate(lines) if "no test; delete" in line), None)
    if at is None:
        return "", []
    told = []
    for line in lines[at + 1 :]:
        if not line.startswith("  "):
            break
        told.append(line[2:])
    return lines[at], told


@pytest.mark.parametrize(
    "options", [("-n0",), ("-n0", "--snapshot-update"), ("-n2", "--snapshot-update")], ids=" ".join
)
def test_of_a_test_a_class_and_a_module_that_are_gone(project, run, recorded, files, options):
    project(test_it=ONE + CLASS)
    for test in ("test_one", "TestIt.test_two", "test_gone", "TestIt.test_gone", "test_one[a]"):
        recorded("test_it", test)
    recorded("test_renamed", "test_one")
    before = files()
    result = run(*options)
    assert named(result) == (
        HEAD.format("4 snapshots have"),
        [
            "__plan_snapshots__/test_it/TestIt.test_gone.plans",
            "__plan_snapshots__/test_it/test_gone.plans",
            "__plan_snapshots__/test_it/test_one[a].plans",
            "__plan_snapshots__/test_renamed/test_one.plans",
        ],
    )
    assert files() == before


@BOTH_WAYS
def test_of_a_module_that_lost_all_its_tests(project, run, recorded, workers):
    project(test_it="", test_other="def test_it(): pass\n")
    recorded("test_it", "test_one")
    assert named(run(workers))[1] == ["__plan_snapshots__/test_it/test_one.plans"]


@pytest.mark.parametrize(
    "selection",
    [
        ("-n0", "-k", "test_one"),
        ("-n0", "-k", "nothing"),
        ("-n2", "--deselect", "test_it.py::TestIt"),
        ("-n2", "test_it.py"),
    ],
    ids=" ".join,
)
def test_deselected_tests_count_as_tests(project, run, recorded, selection):
    project(test_it=ONE + CLASS)
    for test in ("test_one", "TestIt.test_two", "test_gone"):
        recorded("test_it", test)
    result = run(*selection, returncode=5 if "nothing" in selection else 0)
    assert named(result)[1] == ["__plan_snapshots__/test_it/test_gone.plans"]


@pytest.mark.parametrize(
    "selection",
    [
        ("test_it.py::test_one",),
        ("test_it.py::TestIt", "--collect-only"),
        ("--ignore=test_it.py",),
        ("--lf",),
        ("--collect-only",),
    ],
    ids=" ".join,
)
def test_nothing_is_said_of_what_was_not_collected_whole(project, run, recorded, selection):
    failing = "import os\ndef test_fails(): assert 'GOOD' in os.environ\n"
    project(test_it=ONE + CLASS, test_other=failing)
    for test in ("test_one", "TestIt.test_two", "TestIt.test_gone"):
        recorded("test_it", test)
    run(returncode=1)
    fails = 0 if "::" in selection[0] or "--collect-only" in selection else 1
    assert named(run(*selection, returncode=fails)) == ("", [])


def test_modules_in_other_folders_are_not_mixed_up(project, run, recorded, pytester):
    project(test_it=ONE)
    recorded("test_it", "test_one")
    for folder in ("a", "b"):
        path = pytester.mkdir(folder)
        (path / "test_it.py").write_text("def test_other(nvfp4_snapshot): {} == nvfp4_snapshot\n")
        recorded("test_it", "test_one", folder=path)
    result = run("--import-mode=importlib", "a", "test_it.py")
    assert named(result)[1] == ["a/__plan_snapshots__/test_it/test_one.plans"]


def test_map_that_a_passing_test_does_not_compare(project, run, recorded, plans, files):
    project(
        test_it=f"""{ONE}
def test_skips(nvfp4_snapshot): pytest.skip()
def test_fails(nvfp4_snapshot): assert 0
@pytest.mark.xfail
def test_xfails(nvfp4_snapshot): assert 0
def test_asks_for_nothing(nvfp4_snapshot): pass
"""
    )
    maps = {"1": plans, "decode": plans}
    for test in ("test_one", "test_skips", "test_fails", "test_xfails", "test_asks_for_nothing"):
        recorded("test_it", test, maps)
    before = files()
    assert named(run("--snapshot-update", returncode=1)) == (
        HEAD.format("3 snapshots have"),
        [
            "__plan_snapshots__/test_it/test_asks_for_nothing.plans[1] (its test passed without it)",
            "__plan_snapshots__/test_it/test_asks_for_nothing.plans[decode] (its test passed without it)",
            "__plan_snapshots__/test_it/test_one.plans[decode] (its test passed without it)",
        ],
    )
    assert files() == before


def test_of_very_many_the_first_are_named(project, run, recorded):
    project(test_it=ONE)
    recorded("test_it", "test_one")
    for number in range(30):
        recorded("test_it", f"test_gone_{number:02}")
    sentence, told = named(run())
    assert sentence == HEAD.format("30 snapshots have")
    assert told[19:] == ["__plan_snapshots__/test_it/test_gone_19.plans", "… and 10 more"]


def test_what_lies_in_the_folder_otherwise_is_nobodys_business(project, run, recorded, files):
    project(test_it=ONE)
    path = recorded("test_it", "test_one")
    (path.parents[1] / "x.plans").write_text("mine")
    path.with_name("folder.plans").mkdir()
    before = files()
    assert named(run("--snapshot-update")) == ("", [])
    assert files() == before
    assert path.with_name("folder.plans").is_dir()


def test_doctests_and_test_cases_count_as_tests(project, run, recorded):
    project(
        test_it='''
import unittest

def test_one():
    """
    >>> 1 + 1
    2
    """

class TestCase(unittest.TestCase):
    def test_two(self): pass
'''
    )
    for test in ("test_one", "TestCase.test_two"):
        recorded("test_it", test)
    result = run("--doctest-modules")
    result.assert_outcomes(passed=3)
    assert named(result) == ("", [])
