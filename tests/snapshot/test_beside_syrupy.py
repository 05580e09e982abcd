"""Our snapshots and syrupy's own, in one project: neither disturbs the other."""

import os
import sys

from workers import BOTH_WAYS, WORKERS

BOTH = """
from syrupy.extensions.json import JSONSnapshotExtension

def test_ours(nvfp4_snapshot): assert PLANS == nvfp4_snapshot

def test_ordinary(snapshot): assert [1, 2] == snapshot

def test_json(snapshot): assert [3] == snapshot.use_extension(JSONSnapshotExtension)

def test_both(snapshot, nvfp4_snapshot):
    assert {"a": 1} == snapshot
    assert PLANS == nvfp4_snapshot
    assert PLANS == nvfp4_snapshot(name="decode")
    assert {"b": 1} == snapshot
"""


@BOTH_WAYS
def test_both_are_written_and_compared(project, run, files, workers):
    project(test_it=BOTH)
    run(workers, "--snapshot-update")
    written = files()
    assert sorted(written) == [
        "__plan_snapshots__/test_it/test_both.plans",
        "__plan_snapshots__/test_it/test_ours.plans",
        "__snapshots__/test_it.ambr",
        "__snapshots__/test_it/test_json.json",
    ]
    result = run(workers)
    result.stdout.fnmatch_lines(["nvfp4_snapshot: 3 matched"])
    result.stdout.no_fnmatch_line("*unused*")
    run(workers, "--snapshot-update")
    assert files() == written


def test_syrupy_says_what_it_says_without_us(project, run, recorded):
    ordinary = "def test_ordinary(snapshot): assert [1, 2] == snapshot\n"
    project(test_it=ordinary)
    run("--snapshot-update")
    alone = [line for line in run().outlines if "snapshot" in line]
    recorded("test_it", "test_ours")
    project(test_it=f"{ordinary}def test_ours(nvfp4_snapshot): assert PLANS == nvfp4_snapshot\n")
    ours = [line for line in run().outlines if "snapshot" in line]
    assert ours == ["nvfp4_snapshot: 1 matched", *alone]


def test_syrupys_obsolete_snapshots_are_still_deleted_by_syrupy(project, run, files):
    project(test_it=BOTH)
    run("--snapshot-update")
    project(test_it=BOTH.replace("test_ordinary", "test_renamed").replace("test_ours", "test_mine"))
    run("--snapshot-update")
    after = files()
    assert b"test_ordinary" not in after["__snapshots__/test_it.ambr"]
    assert "__plan_snapshots__/test_it/test_ours.plans" in after
    assert "__plan_snapshots__/test_it/test_mine.plans" in after


def test_run_without_this_plugin_deletes_nothing_and_misses_nothing(
    project, pytester, recorded, files
):
    project(test_it="def test_ordinary(snapshot): assert [1, 2] == snapshot\n")
    recorded("test_it", "test_ours")
    recorded("test_gone", "test_it")
    before = files()
    for options in (("--snapshot-update",), ()):
        result = pytester.run(sys.executable, "-m", "pytest", "-p", "no:nvfp4", *options)
        assert result.ret == 0
        assert "nvfp4" not in "".join(line for line in result.outlines if "snapshot" in line)
    assert before.items() <= files().items()


def test_overridden_snapshot_fixture_is_not_in_the_way(project, run, files):
    project(
        test_it="""
@pytest.fixture
def snapshot(): return 5

def test_it(nvfp4_snapshot, snapshot): assert PLANS == nvfp4_snapshot
"""
    )
    run("--snapshot-update")
    assert list(files()) == ["__plan_snapshots__/test_it/test_it.plans"]


THROUGH = """
from pytest_nvfp4.snapshot.extension import PlanMapExtension

@pytest.fixture
def plan_snapshot(snapshot): return snapshot.use_extension(PlanMapExtension)

def test_it(plan_snapshot):
    assert PLANS == plan_snapshot
    assert PLANS == plan_snapshot(name="decode")

def test_ordinary(snapshot): assert [1] == snapshot
"""


@WORKERS
def test_extension_works_through_syrupys_own_fixture(project, run, files, workers):
    project(test_it=THROUGH)
    run(workers, "--snapshot-update")
    written = files()
    assert list(written)[-1] == "__plan_snapshots__/test_it/test_it.plans"
    run(workers)
    project(test_it=THROUGH.replace("def test_it(", "@pytest.mark.skip\ndef test_it("))
    run(workers, "--snapshot-update")
    project(
        test_it=THROUGH.replace("== plan_snapshot(", "!= plan_snapshot(").replace(
            "test_it", "test_new"
        )
    )
    run(workers, "--snapshot-update", returncode=1)
    assert written.items() <= files().items(), "also what syrupy knows nothing of any more"


def test_mismatch_through_syrupys_own_fixture_is_a_table(project, run, recorded, plans):
    project(test_it=THROUGH)
    recorded("test_it", "test_it", {"1": dict(plans) | {(1, 256, 128): 7}})
    result = run(returncode=1)
    result.stdout.fnmatch_lines(
        ["E*256    128     1   7 128x32x256 plain sk       4 128x32x256 swap dp"]
    )
    result.stdout.no_fnmatch_line("E*512*")


def test_file_is_the_same_whichever_fixture_wrote_it(project, run, files):
    project(test_it=THROUGH)
    run("--snapshot-update")
    written = files()
    project(
        test_it=THROUGH.replace("plan_snapshot", "nvfp4_snapshot").replace(
            "def nvfp4_snapshot", "def other"
        )
    )
    run().stdout.fnmatch_lines(["nvfp4_snapshot: 2 matched"])
    run("--snapshot-update")
    assert {
        name: text for name, text in files().items() if name.endswith("plans")
    }.items() <= written.items()


@WORKERS
def test_what_was_used_in_fresh_processes_is_not_deleted(project, run, files, workers):
    project(
        test_it="""
def test_here(snapshot): assert [1] == snapshot

@pytest.mark.fresh_process
def test_there(snapshot): assert [2] == snapshot

@pytest.mark.fresh_process(runs=2)
def test_asks_late(request): assert [3] == request.getfixturevalue("snapshot")
""",
        test_other="def test_other(snapshot): assert [4] == snapshot\n",
    )
    run("--nvfp4-no-fresh", "--snapshot-update")
    written = files()
    run(workers)
    for arguments in ([], ["-k", "test_there"], ["test_it.py::test_asks_late"]):
        run(workers, "--snapshot-update", *arguments)
        assert {name: text for name, text in files().items() if name in written} == written


@WORKERS
def test_fresh_processes_write_both(project, run, files, workers):
    project(test_it=BOTH)
    run("--snapshot-update")
    written = files()
    project(test_it=f"pytestmark = pytest.mark.fresh_process\n{BOTH}")
    for path in written:
        os.unlink(path)
    result = run(workers, "--snapshot-update")
    result.stdout.fnmatch_lines(["nvfp4_snapshot: 3 written"])
    assert {name: text for name, text in files().items() if name in written} == written
