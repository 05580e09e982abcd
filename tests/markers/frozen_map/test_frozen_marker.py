"""`@pytest.mark.frozen_map` in pytest runs of their own: what it asks for, sets, and reports."""

import hashlib
import os
import re
import shutil
import subprocess
import sys

from workers import BOTH_WAYS, WORKERS

from .conftest import rewritten

NAMES = (
    "VT_FP4_AUTOTUNE_CACHE_PATH",
    "VT_FP4_FLASHINFER_CACHE_PATH",
    "VT_FP4_AUTOTUNE_CACHE_READONLY",
    "VT_FP4_PERSISTENT_CACHE",
    "VT_FP4_PLAN_CACHE",
    "FLASHINFER_AUTOTUNER_LOAD_FROM_FILE",
)
ENVIRONMENT = f"NAMES = {NAMES!r}\ndef seen(): return [os.environ.get(name) for name in NAMES]\n"


# --- The environment


@BOTH_WAYS
def test_environment_is_frozen_from_the_first_fixture_on(project, run, maps, workers):
    native, imported = f"{maps}/native.json", f"{maps}/flashinfer.json"
    project(f"""
{ENVIRONMENT}
@pytest.fixture(autouse=True)
def environment():
    before = seen()
    yield before
    assert seen() == before
@frozen("maps/native.json")
def test_native(environment):
    assert environment == seen() == [{native!r}, None, "1", "1", None, None]
    done = subprocess.run(["env"], capture_output=True, text=True, check=True)
    assert "VT_FP4_AUTOTUNE_CACHE_READONLY=1" in done.stdout
@frozen("maps/flashinfer.json")
def test_import(environment):
    assert environment == seen() == [None, {imported!r}, "1", "1", None, None]
def test_other(environment):
    assert seen() == [None] * 6
""")
    run(workers).assert_outcomes(passed=3)


def test_environment_is_put_back_exactly(project, run, monkeypatch):
    for name in NAMES:
        monkeypatch.setenv(name, "0")
    monkeypatch.delenv("VT_FP4_AUTOTUNE_CACHE_READONLY")
    project(f"""
{ENVIRONMENT}
BEFORE = dict(os.environ)
def unchanged():
    return {{**os.environ, "PYTEST_CURRENT_TEST": ""}} == {{**BEFORE, "PYTEST_CURRENT_TEST": ""}}
@frozen(MAP)
def test_spoils():
    os.environ["VT_FP4_PLAN_CACHE"] = "spoilt"
    del os.environ["VT_FP4_PERSISTENT_CACHE"]
def test_after(): assert unchanged()
@frozen(MAP)
def test_patches(monkeypatch): monkeypatch.setenv("VT_FP4_AUTOTUNE_CACHE_PATH", "patched")
def test_after_that(): assert unchanged()
@pytest.fixture
def broken(): raise RuntimeError
@frozen(MAP)
def test_breaks(broken): pass
def test_after_all(): assert unchanged()
""")
    run(returncode=1).assert_outcomes(passed=5, errors=1)


def test_interrupted_test_leaves_no_environment(project, run):
    project(
        "@frozen(MAP)\ndef test_it(): raise KeyboardInterrupt",
        conftest="""
def pytest_unconfigure():
    print("left:", [name for name in os.environ if name.startswith("VT_")])
""",
    )
    assert "left: []\n" in run("-s", returncode=2).stdout.str() + "\n"


# --- The file


UNUSABLE = {
    "missing": (
        lambda path: path.unlink(),
        "cannot open {path}: No such file or directory (unreadable)",
    ),
    "FIFO": (
        lambda path: path.unlink() or os.mkfifo(path),
        "{path} is not a regular file (not-regular)",
    ),
    "no JSON": (
        lambda path: path.write_bytes(b"{"),
        "{path} is rejected as a document for syntax: ",
    ),
    "rejected": (
        lambda path: rewritten(path, lambda document: document["plans"][2].pop("k")),
        "{path} is rejected as a native document for missing-field at plans[2].k: ",
    ),
    "rejected twice": (
        lambda path: rewritten(path, lambda d: d["plans"][0].update(tactic_id=32, k=65)),
        " and 1 more, which nvfp4-conformance check lists",
    ),
    "no plans": (
        lambda path: rewritten(path, lambda document: document["plans"].clear()),
        "{path} is a native document without any plan; freeze one that has plans",
    ),
}


def test_unusable_file_is_an_error_that_names_contract_and_code(project, run, pytester, maps):
    code = ""
    for number, (spoil, _) in enumerate(UNUSABLE.values()):
        spoil(shutil.copytree(maps, pytester.path / f"maps{number}") / "native.json")
        code += f"@frozen('maps{number}/native.json')\n"
        code += f"def test_{number}(): raise AssertionError('it ran')\n"
    project(code)
    result = run(returncode=1)
    result.assert_outcomes(errors=len(UNUSABLE))
    output = result.stdout.str()
    for number, (name, (_, part)) in enumerate(UNUSABLE.items()):
        said = re.search(rf"ERROR at setup of test_{number} _+\nfrozen_map: FROZ-3: (.*)", output)
        path = pytester.path / f"maps{number}" / "native.json"
        assert part.format(path=path) in said[1], (name, output)
    assert "it ran" not in output
    assert "Traceback" not in output


def test_paths_start_at_the_root_or_at_home(project, run, pytester, monkeypatch, maps):
    monkeypatch.setenv("HOME", str(maps))
    (pytester.path / "below").mkdir()
    project("""
@frozen("~/native.json")
def test_tilde(): pass
@frozen(path="$HOME/native.json")
def test_variable(): pass
@frozen(pathlib.Path("maps") / "native.json")
def test_relative(monkeypatch): monkeypatch.chdir("below")
""")
    told = run().told
    assert [one["path"] for one in told.values()] == [f"{maps}/native.json"] * 3


# --- The marker


@WORKERS
def test_mistakes_are_collection_errors_of_one_sentence_each(project, run, workers):
    project("""
@frozen
def test_bare(): pass
@frozen(MAP, complte=True)
def test_unknown(): pass
@frozen(MAP, "other")
def test_two(): pass
@frozen(MAP, path=MAP)
def test_twice(): pass
@frozen(42)
def test_number(): pass
@frozen(MAP, stats="always")
def test_stats(): pass
@frozen(MAP, trace_children=1)
def test_trace(): pass
@frozen(MAP, stats="off", complete=True)
def test_contradiction(): pass
""")
    result = run(workers, returncode=1 if workers == "-n2" else 2)
    output = result.stdout.str()
    for part in (
        "test_bare: frozen_map needs the path of the file with the plans; give it first",
        "test_unknown: frozen_map has no option 'complte'; it has path, complete, ",
        "test_two: frozen_map takes one path, and its other options by name",
        "test_twice: frozen_map takes one path, and its other options by name",
        "test_number: frozen_map(path=42) is not possible; use the path of the file",
        "test_stats: frozen_map(stats='always') is not possible; use 'auto', 'required' or 'off'",
        "test_trace: frozen_map(trace_children=1) is not possible; use True or False",
        "test_contradiction: frozen_map(complete=True) needs plan statistics; leave stats='off'",
    ):
        assert f"test_it.py::{part}" in output
    assert "Traceback" not in output


def test_marker_added_late_is_checked_too(project, run):
    project(
        "def test_it(): raise AssertionError('it ran')",
        conftest="""
def pytest_collection_modifyitems(items):
    items[0].add_marker(pytest.mark.frozen_map(stats="auto"))
""",
    )
    result = run(returncode=1)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["frozen_map: frozen_map needs the path of *"])


def test_nearest_marker_wins_option_by_option(project, run, maps):
    project("""
pytestmark = frozen("maps/native.json")
def test_module(): pass
@frozen("maps/flashinfer.json", stats="required")
class TestIt:
    def test_class(self): pass
    @frozen(stats="auto")
    def test_function(self): pass
""")
    result = run(returncode=1)
    result.assert_outcomes(passed=3, errors=1)
    names = ["native", "flashinfer", "flashinfer"]
    assert [one["path"] for one in result.told.values()] == [
        f"{maps}/{name}.json" for name in names
    ]
    assert "ERROR at teardown of TestIt.test_class" in result.stdout.str()


# --- Reports


@WORKERS
def test_reports_tell_file_digest_plans_and_statistics(project, run, maps, workers):
    project("""
@frozen(MAP)
@pytest.mark.parametrize("number", range(4))
def test_used(engine, number): assert engine.plans() == PLANS
@frozen("maps/flashinfer.json")
def test_unused(): pass
def test_other(): pass
""")
    result = run(workers, "-v")
    digest = hashlib.sha256((maps / "native.json").read_bytes()).hexdigest()
    assert result.told["test_used[0]"] == {
        "path": f"{maps}/native.json",
        "sha256": digest,
        "plans": "6",
        "statistics": "nvfp4_reference: 6 plans",
    }
    assert result.told["test_unused"]["statistics"] == "none"
    assert result.told["test_other"] == {}
    result.stdout.fnmatch_lines(
        [
            "frozen_map: 5 tests on 2 maps",
            "frozen_map: 1 test without plan statistics, where only the file was watched",
            f"  map * of {maps}/flashinfer.json: 6 plans, 1 test, statistics: none",
            f"  map {digest[:16]} of {maps}/native.json: 6 plans, 4 tests, "
            "statistics: nvfp4_reference: 6 plans",
        ]
    )
    short = run(workers).stdout
    short.fnmatch_lines(["frozen_map: 5 tests on 2 maps (-v shows them)"])
    short.no_fnmatch_line("  map *")


def test_works_where_no_plugin_is_loaded_by_itself(project, run, monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    project("""
@frozen(MAP)
def test_good(engine): pass
@frozen(MAP)
def test_bad(engine): os.utime(MAP)
""")
    result = run("-p", "nvfp4", returncode=1)
    result.assert_outcomes(passed=2, errors=1)
    assert "plugins:" not in result.stdout.str().replace("plugins: nvfp4", "")


def test_skipped_tests_freeze_nothing(project, run, maps):
    (maps / "native.json").unlink()
    project("""
@pytest.mark.skip
@frozen(MAP)
def test_skipped(): pass
@pytest.mark.xfail(run=False)
@frozen(MAP)
def test_not_run(): pass
""")
    run().assert_outcomes(skipped=1, xfailed=1)


# --- With a lock


def test_map_may_change_as_long_as_the_lock_is_waited_for(project, pytester, maps, tmp_path, hold):
    lock = tmp_path / "gpu"
    project(f"""
@pytest.mark.gpu_lock(path={str(lock)!r})
def test_first(): pass
@frozen(MAP)
@pytest.mark.gpu_lock(path={str(lock)!r})
def test_it(engine): assert set(engine.plans().values()) == {{9}}
""")
    holder = hold(lock)
    command = [sys.executable, "-m", "pytest", "-p", "nvfp4", "test_it.py::test_it"]
    running = subprocess.Popen(
        command, cwd=pytester.path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    for line in running.stderr:
        if "gpu_lock: waiting for" in line:
            break
    else:
        raise AssertionError(running.communicate())

    def nine(document):
        for plan in document["plans"]:
            plan["tactic_id"] = 9

    rewritten(maps / "native.json", nine)
    holder.release()
    output, _ = running.communicate()
    assert running.returncode == 0, output


def test_violations_are_found_within_the_lock(project, run, tmp_path):
    lock = str(tmp_path / "gpu")
    project(
        f"""
def free(): return subprocess.run(["flock", "-n", {lock!r}, "true"]).returncode == 0
@frozen(MAP)
@pytest.mark.gpu_lock(path={lock!r})
def test_it(): os.utime(MAP)
def test_after(): assert free()
""",
        conftest=f"""
import subprocess
def pytest_nvfp4_plan_stats():
    assert subprocess.run(["flock", "-n", {lock!r}, "true"]).returncode == 1
    return dict(tuned=0, saved=0, lazy=0)
""",
    )
    result = run(returncode=1)
    result.assert_outcomes(passed=2, errors=1)
    assert "raised" not in result.stdout.str()
    assert re.search("frozen_map: FROZ-4: utime of ", result.stdout.str())
