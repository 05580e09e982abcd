"""`nvfp4_snapshot` in tests: comparing, writing, explaining and refusing."""

import fnmatch
import re

import pytest
from workers import BOTH_WAYS, WORKERS

SIMPLE = """
def test_it(nvfp4_snapshot):
    assert PLANS == nvfp4_snapshot
"""


@BOTH_WAYS
def test_written_once_then_compared(project, run, files, workers):
    project(
        test_it="""
from pytest_nvfp4.plans import PlanMap

class TestMany:
    @pytest.mark.parametrize("number", range(8))
    def test_it(self, number, nvfp4_snapshot):
        assert PlanMap({(number + 1, 256, 128): number}) == nvfp4_snapshot
        assert nvfp4_snapshot(name="decode") == {}
"""
    )
    result = run(workers, returncode=1)
    result.stdout.fnmatch_lines(
        ["*assert no snapshot '1' of this test yet; --snapshot-update writes it*"]
    )
    assert files() == {}
    result = run(workers, "--snapshot-update")
    result.stdout.fnmatch_lines(["nvfp4_snapshot: 16 written"])
    written = files()
    assert sorted(written) == [
        f"__plan_snapshots__/test_it/TestMany.test_it[[]{n}].plans".replace("[[]", "[")
        for n in range(8)
    ]
    result = run(workers)
    result.stdout.fnmatch_lines(["nvfp4_snapshot: 16 matched"])
    result.stdout.no_fnmatch_line("*no test*")
    assert files() == written


def test_mismatch_is_a_table_of_what_differs(project, run, recorded, plans, files):
    project(test_it=SIMPLE)
    path = recorded("test_it", "test_it", {"1": dict(plans) | {(1, 256, 128): 7}})
    before = files()
    result = run(returncode=1)
    result.stdout.fnmatch_lines(
        [
            "E*assert plan maps differ in 1 of 3 plans from snapshot '1'; --snapshot-update accepts*",
            "E*in __plan_snapshots__/test_it/test_it.plans",
            "E*     N      K     M  snapshot                    this run",
            "E*   256    128     1   7 128x32x256 plain sk       4 128x32x256 swap dp",
            "nvfp4_snapshot: 1 differing",
        ]
    )
    result.stdout.no_fnmatch_line("E*512*")
    assert files() == before
    run("--snapshot-update").stdout.fnmatch_lines(["nvfp4_snapshot: 1 updated"])
    assert path.read_text().count("4 128x32x256 swap data-parallel") == 1


def test_very_large_difference_is_cut(project, run, recorded):
    project(
        test_it="""
def test_it(nvfp4_snapshot):
    nvfp4_snapshot.assert_match({(m, 256, 128): 1 for m in range(1, 1001)})
"""
    )
    recorded("test_it", "test_it")
    result = run("-vv", returncode=1)
    result.stdout.fnmatch_lines(["*1001 of 1001 plans*", "*… and 937 more plans differ*"])


def test_only_new_snapshots_are_written_where_syrupy_knows_the_option(
    project, run, recorded, plans
):
    if "--snapshot-update-new-only" not in run("--help").stdout.str():
        with pytest.raises(AssertionError):
            run("--snapshot-update-new-only")
        return
    project(
        test_it="""
def test_it(nvfp4_snapshot):
    assert PLANS == nvfp4_snapshot(name="new")
    assert PLANS == nvfp4_snapshot
"""
    )
    path = recorded("test_it", "test_it", {"1": {}})
    result = run("--snapshot-update-new-only", returncode=1)
    result.stdout.fnmatch_lines(["nvfp4_snapshot: 1 written, 1 differing"])
    assert "[new]" in path.read_text()
    run("--snapshot-update-new-only", returncode=1)


def test_maps_of_a_test_share_its_file(project, run, files):
    project(
        test_it="""
def test_it(nvfp4_snapshot):
    for tactic in (1, 2):
        assert {(1, 256, 128): tactic} == nvfp4_snapshot
    for name in ("prefill", "decode step"):
        assert PLANS == nvfp4_snapshot(name)
        assert PLANS == nvfp4_snapshot(name=name)
"""
    )
    run("--snapshot-update")
    ((name, content),) = files().items()
    assert name == "__plan_snapshots__/test_it/test_it.plans"
    assert re.findall(r"^\[(.+)\]$", content.decode(), re.MULTILINE) == [
        "1",
        "2",
        "decode step",
        "prefill",
    ]
    run().stdout.fnmatch_lines(["nvfp4_snapshot: 6 matched"])


MISTAKES = [
    (
        "[1] == nvfp4_snapshot",
        "*NotPlansError: a plan map is needed here, not list; give a PlanMap*",
    ),
    ("None == nvfp4_snapshot", "*NotPlansError: a plan map is needed here, not NoneType; *"),
    (
        "'a.json' == nvfp4_snapshot",
        "*NotPlansError: *not str; read a cache file with *read_plans*",
    ),
    ("nvfp4_snapshot == nvfp4_snapshot", "*NotPlansError: *not PlanSnapshot; *"),
    ("{(1, 2): 3} == nvfp4_snapshot", "*NotPlansError: plan key (1, 2) is not possible; *"),
    ("{'a': 3} == nvfp4_snapshot", "*NotPlansError: plan key 'a' is not possible; *"),
    (
        "{(0, 2, 3): 3} == nvfp4_snapshot",
        "*NotPlansError: plan key (0, 2, 3) is not possible; *",
    ),
    ("{(True, 2, 3): 3} == nvfp4_snapshot", "*NotPlansError: plan key (True, 2, 3) is not *"),
    (
        "{(1, 2, 3): 32} == nvfp4_snapshot",
        "*NotPlansError: the plan of (1, 2, 3) has tactic 32; *",
    ),
    (
        "{(1, 2, 3): '4'} == nvfp4_snapshot",
        "*NotPlansError: the plan of (1, 2, 3) has tactic '4'*",
    ),
    ("PLANS != nvfp4_snapshot", "*SnapshotError: a plan map that must differ*"),
    ("PLANS == nvfp4_snapshot(name='7')", "*SnapshotError: nvfp4_snapshot(name='7') is not*"),
    ("PLANS == nvfp4_snapshot(name='')", "*SnapshotError: nvfp4_snapshot(name='') is not*"),
    ("PLANS == nvfp4_snapshot(name='a]')", "*SnapshotError: nvfp4_snapshot(name='a[]]')*"),
    ("PLANS == nvfp4_snapshot(name='a\\nb')", "*SnapshotError: nvfp4_snapshot(name='a*"),
    ("PLANS == nvfp4_snapshot(name=5)", "*SnapshotError: nvfp4_snapshot(name=5) is not*"),
    (
        "PLANS == nvfp4_snapshot(name='a') and {} == nvfp4_snapshot(name='a')",
        "*SnapshotError: the test compares two different plan maps with snapshot 'a'; *",
    ),
]


def test_mistake_is_one_sentence_and_writes_nothing_wrong(project, run, files):
    project(
        test_it="".join(
            f"def test_{number}(nvfp4_snapshot):\n    assert {comparison}\n"
            for number, (comparison, _) in enumerate(MISTAKES)
        )
    )
    result = run("--snapshot-update", returncode=1)
    told = [line for line in result.outlines if line.startswith("E  ")]
    assert len(told) == len(MISTAKES)
    for line, (comparison, sentence) in zip(told, MISTAKES, strict=True):
        assert fnmatch.fnmatchcase(line, f"E   {sentence}"), comparison
    assert "comparison.py" not in result.stdout.str(), "our own frames are not the user's"
    last = len(MISTAKES) - 1
    assert list(files()) == [f"__plan_snapshots__/test_it/test_{last}.plans"], (
        "the first of two maps"
    )


@pytest.mark.parametrize("update", [(), ("--snapshot-update",)], ids=["compare", "update"])
def test_file_that_is_not_canonical_is_an_error_and_stays(project, run, recorded, files, update):
    project(test_it=SIMPLE)
    path = recorded("test_it", "test_it")
    path.write_text(path.read_text().replace("\n[1]", "\n<<<<<<< ours\n[1]"))
    before = files()
    result = run(*update, returncode=1)
    result.stdout.fnmatch_lines(
        [
            "E*SnapshotError: *test_it.plans is not a snapshot that can be read: line 3 is a merge "
            "conflict; restore it, or delete it and run with --snapshot-update"
        ]
    )
    assert files() == before


def test_file_of_another_test_is_an_error(project, run, recorded):
    project(test_it=SIMPLE)
    recorded("test_it", "test_other").rename("__plan_snapshots__/test_it/test_it.plans")
    result = run("--snapshot-update", returncode=1)
    result.stdout.fnmatch_lines(["E*it belongs to test_other, not to test_it; *"])


def test_folder_in_place_of_a_file_is_an_error(project, run, recorded):
    project(test_it=SIMPLE)
    path = recorded("test_it", "test_it")
    path.unlink()
    path.mkdir()
    result = run("--snapshot-update", returncode=1)
    result.stdout.fnmatch_lines(["E*SnapshotError: cannot read *test_it.plans: Is a directory; *"])


def test_file_in_place_of_a_folder_is_an_error(project, run, pytester):
    project(test_it=SIMPLE)
    (pytester.path / "__plan_snapshots__").write_text("")
    result = run("--snapshot-update", returncode=1)
    result.stdout.fnmatch_lines(["E*SnapshotError: cannot * *test_it.plans: Not a directory; *"])


def test_assertion_that_pytest_does_not_rewrite_explains_itself_too(project, run, recorded):
    project(test_it="def test_it(nvfp4_snapshot):\n    nvfp4_snapshot.assert_match({})\n")
    recorded("test_it", "test_it")
    result = run("--assert=plain", returncode=1)
    result.stdout.fnmatch_lines(["E*plan maps differ in 3 of 3 plans*", "E*512    128     1  31*"])


@WORKERS
def test_odd_ids(project, run, files, workers, pytester):
    pytester.makeini(
        "[pytest]\ndisable_test_id_escaping_and_forfeit_all_rights_to_community_support = true"
    )
    ids = [
        "a/b",
        "a:b",
        "a_b",
        "a::b",
        "../../../x",
        "..",
        "é",
        "e\u0301",
        "x" * 300,
        "x" * 301,
        "~",
        " ",
    ]
    project(
        test_it=f"""
IDS = {ids!r}

@pytest.mark.parametrize("number", range(len(IDS)), ids=IDS)
def test_it(number, nvfp4_snapshot):
    assert {{(number + 1, 256, 128): number}} == nvfp4_snapshot
"""
    )
    run(workers, "--snapshot-update", "--dist=loadgroup")
    written = files()
    assert len(written) == len(ids)
    assert {name.rpartition("/")[0] for name in written} == {"__plan_snapshots__/test_it"}
    assert sum(1 for path in pytester.path.rglob("*.plans")) == len(ids)
    result = run(workers, "--dist=loadgroup")
    result.stdout.fnmatch_lines([f"nvfp4_snapshot: {len(ids)} matched"])
    result.stdout.no_fnmatch_line("*no test*")


# --- Where plugins are not loaded by themselves


def test_without_autoload_snapshots_are_compared(project, run, recorded, monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    project(test_it=SIMPLE)
    recorded("test_it", "test_it")
    run("-p", "nvfp4").stdout.fnmatch_lines(["nvfp4_snapshot: 1 matched"])


def test_without_autoload_the_missing_plugin_is_named(project, run, files, monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    project(test_it=SIMPLE)
    result = run(returncode=1)
    result.stdout.fnmatch_lines(["*no snapshot '1' *; -p syrupy --snapshot-update writes it*"])
    run("-p", "syrupy", "--snapshot-update")
    assert len(files()) == 1
    run("-p", "xdist", "-n2").stdout.fnmatch_lines(["nvfp4_snapshot: 1 matched"])


def test_runs_without_snapshots_do_not_load_syrupy_or_say_anything(project, run, monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    project(test_it="import sys\ndef test_it():\n    assert 'syrupy' not in sys.modules\n")
    assert "nvfp4_snapshot" not in run().stdout.str()
