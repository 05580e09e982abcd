"""What may not happen to the directory of a frozen file, and what may."""

import re
import shutil

import pytest
from workers import BOTH_WAYS, WORKERS

from pytest_nvfp4.faults import strace

needs_strace = pytest.mark.skipif(
    bool(strace.unavailable()), reason=f"needs strace: {strace.unavailable()}"
)

# What a test does, and what it must then be told; all of it is undone before the test ends.
UNDONE = {
    "open": ("open(MAP, 'r+').close()", "open for writing of {maps}/native.json at test_it.py:"),
    "append": (
        "os.close(os.open(MAP, os.O_WRONLY | os.O_APPEND))",
        "open for writing of {maps}/na",
    ),
    "same bytes": ("pathlib.Path(MAP).write_bytes(pathlib.Path(MAP).read_bytes())", "open for wr"),
    "away and back": (
        "os.rename(MAP, 'away'); os.rename('away', MAP)",
        "rename of {maps}/native.json to {root}/away at test_it.py:",
    ),
    "over it": (
        "shutil.copy2(MAP, 'copy'); os.replace('copy', MAP)",
        "rename of {root}/copy to {maps}/native.json at test_it.py:",
    ),
    "touch": ("os.utime(MAP)", "utime of {maps}/native.json at test_it.py:"),
    "mode": ("os.chmod(MAP, 0o600); os.chmod(MAP, 0o644)", "chmod of {maps}/native.json at "),
    "folder's mode": ("os.chmod(MAPS, 0o700); os.chmod(MAPS, 0o755)", "chmod of {maps} at "),
    "temporary": (
        "(MAPS / 't').touch(); (MAPS / 't').unlink()",
        "open for writing of {maps}/t at test_it.py:",
    ),
    "folder": ("(MAPS / 'd').mkdir(); (MAPS / 'd').rmdir()", "mkdir of {maps}/d at test_it.py:"),
    "link to it": (
        "os.link(MAP, 'link'); os.unlink('link')",
        "link of {maps}/native.json to {root}",
    ),
    "link beside it": (
        "os.symlink('x', MAPS / 'link'); os.unlink(MAPS / 'link')",
        "symlink of {maps}/link at test_it.py:",
    ),
    "through a link": (
        "os.symlink(MAPS, 'other'); open('other/native.json', 'a').close()",
        "open for writing of {root}/other/native.json at test_it.py:",
    ),
    "through a link to it": (
        "os.symlink(MAP, 'other.json'); open('other.json', 'a').close()",
        "open for writing of {root}/other.json at test_it.py:",
    ),
    "by descriptor": (
        "fd = os.open(MAPS, 0); os.mkdir('d', dir_fd=fd); os.rmdir('d', dir_fd=fd); os.close(fd)",
        "mkdir of {maps}/d at test_it.py:",
    ),
    "whole folder": (
        "os.rename(MAPS, 'm'); os.rename('m', MAPS)",
        "rename of {maps} to {root}/m at test_it.py:",
    ),
    "thread": (
        "t = threading.Thread(target=os.utime, args=[MAP]); t.start(); t.join()",
        "utime of {maps}/native.json at ",
    ),
}


@pytest.fixture
def outputs(project, run, pytester, maps):
    """``outputs(codes)``: each code as a test on a map of its own; what each was told."""

    def start(codes):
        text = "import shutil, threading\n"
        for number, code in enumerate(codes):
            shutil.copytree(maps, pytester.path / f"maps{number}")
            text += f"""
@frozen("maps{number}/native.json")
def test_{number}():
    MAP, MAPS = "maps{number}/native.json", pathlib.Path("maps{number}")
    {code}
"""
        project(text)
        result = run(returncode=1)
        result.assert_outcomes(passed=len(codes), errors=len(codes))
        output = result.stdout.str()
        assert "Traceback" not in output
        parts = re.split(r"^_+ ERROR at teardown of test_\d+ _+$", output, flags=re.M)[1:]
        return [part.split("short test summary")[0] for part in parts]

    return start


def test_calls_that_are_undone_are_violations(outputs, pytester):
    told = outputs([code for code, _ in UNDONE.values()])
    for number, ((name, (_, part)), output) in enumerate(zip(UNDONE.items(), told, strict=True)):
        said = part.format(root=pytester.path, maps=f"{pytester.path}/maps{number}")
        assert f"\nfrozen_map: FROZ-4: {said}" in output, (name, output)


LASTING = {
    "bytes": (
        "pathlib.Path(MAP).write_bytes(pathlib.Path(MAP).read_bytes() + b' ')",
        r"native.json has changed: .*bytes \(\w+ before, \w+ aft",
    ),
    "inode": ("shutil.copy2(MAP, 'c'); os.replace('c', MAP)", "native.json has changed: inode, "),
    "mode": ("os.chmod(MAP, 0o600)", r"changed: mode \(100644 before, 100600 after\), ctime"),
    "mtime": ("os.utime(MAP, (1, 1))", "native.json has changed: mtime, ctime"),
    "listing": (
        "(MAPS / 'new').touch()",
        r"maps\d has changed: mtime, ctime, listing \(new: new\)",
    ),
    "gone": ("os.unlink(MAP)", r"native.json is gone(?s:.*)listing \(gone: native.json\)"),
}


@pytest.mark.parametrize("by", ["this process", "a child"])
def test_lasting_changes_are_violations_whoever_made_them(outputs, by):
    codes = [code for code, _ in LASTING.values()]
    if by == "a child":
        begin = "f'import os, pathlib, shutil; MAP, MAPS = {MAP!r}, pathlib.Path({str(MAPS)!r}); '"
        codes = [
            f"subprocess.run([sys.executable, '-c', {begin} + {code!r}], check=True)"
            for code in codes
        ]
    for (name, (_, part)), output in zip(LASTING.items(), outputs(codes), strict=True):
        assert re.search(f"\nfrozen_map: FROZ-4: .*{part}", output), (name, output)
        assert ("no Python code of this process did that" in output) == (by == "a child")


@pytest.mark.parametrize(
    "where", ["before = 1\n    use()\n    yield", "yield\n    use()"], ids=["setup", "teardown"]
)
def test_fixtures_are_watched_too(project, run, where):
    project(f"""
def use():
    os.utime(MAP)
@pytest.fixture
def using():
    {where}
@frozen(MAP)
def test_it(using): pass
def test_other(): use()
""")
    result = run(returncode=1)
    result.assert_outcomes(passed=2, errors=1)
    assert re.search(r"FROZ-4: utime of .* at test_it.py:\d+ in use", result.stdout.str())


def test_failure_of_a_fixture_hides_no_violation(project, run):
    project("""
@pytest.fixture
def broken():
    yield
    raise RuntimeError("its own failure")
@frozen(MAP)
def test_it(broken): os.utime(MAP)
""")
    output = run(returncode=1).stdout.str()
    assert "its own failure" in output
    assert "frozen_map: FROZ-4: utime of " in output


HARMLESS = """
import shutil
@frozen(MAP)
def test_it(tmp_path):
    assert pathlib.Path(MAP).read_bytes()
    os.makedirs(MAPS, exist_ok=True)
    MAPS.mkdir(exist_ok=True)
    (MAPS / "never there").unlink(missing_ok=True)
    assert sorted(os.listdir(MAPS)) == ["flashinfer.json", "native.json"]
    shutil.copy2(MAP, tmp_path)
    os.symlink(os.path.abspath(MAP), tmp_path / "link")
    assert (tmp_path / "link").read_bytes()
    os.unlink(tmp_path / "link")
    (pathlib.Path("maps2")).mkdir()
    (pathlib.Path("maps2") / "native.json").touch()
    subprocess.run(["cat", MAP], check=True)
"""


@BOTH_WAYS
def test_reading_and_writing_elsewhere_are_fine(project, run, workers):
    project(HARMLESS)
    run(workers).assert_outcomes(passed=1)


@needs_strace
def test_reading_and_writing_elsewhere_are_fine_under_a_trace_too(project, run):
    project(HARMLESS.replace("(MAP)\n", "(MAP, trace_children=True)\n", 1))
    run().assert_outcomes(passed=1)


def test_file_behind_a_link_is_watched_where_it_is(project, run, maps, pytester):
    (pytester.path / "links").mkdir()
    (pytester.path / "links" / "map.json").symlink_to(maps / "native.json")
    project("""
@frozen("links/map.json")
def test_at_home(): (MAPS / "t").touch()
@frozen("links/map.json")
def test_link(): os.utime("links/map.json", follow_symlinks=False)
""")
    result = run(returncode=1)
    result.assert_outcomes(passed=2, errors=2)
    output = result.stdout.str()
    assert f"open for writing of {maps}/t at" in output
    assert f"FROZ-4: {pytester.path}/links/map.json has changed: mtime, ctime" in output


def test_moving_a_folder_above_is_a_violation(project, run, maps, pytester):
    shutil.copytree(maps, pytester.path / "above" / "below" / "maps")
    project("""
@frozen("above/below/maps/native.json")
def test_it():
    os.rename("above", "away")
    os.rename("away", "above")
""")
    result = run(returncode=1)
    result.assert_outcomes(passed=1, errors=1)
    root = pytester.path
    assert f"FROZ-4: rename of {root}/above to {root}/away at test_it.py:" in result.stdout.str()


# --- Children under a trace

CHILD = "open('native.json', 'r+').close(); os.rename('native.json', 'x'); os.rename('x', 'native.json')"


@needs_strace
@WORKERS
def test_traced_children_are_named(project, run, maps, workers):
    project(f"""
@frozen(MAP, trace_children=True)
def test_it():
    subprocess.run([sys.executable, "-c", {f"import os; {CHILD}"!r}], cwd=MAPS, check=True)
    subprocess.run("cd maps && echo > t && rm t", shell=True, check=True)
    assert pathlib.Path(f"/proc/{{os.getpid()}}/status").read_text().count("TracerPid:\\t0") == 0
def test_other():
    assert "TracerPid:\\t0\\n" in pathlib.Path("/proc/self/status").read_text()
""")
    result = run(workers, returncode=1)
    result.assert_outcomes(passed=2, errors=1)
    output = result.stdout.str()
    for part in (
        rf"open for writing of {maps}/native.json by python\S* \(pid \d+\)",
        rf"rename of {maps}/native.json to {maps}/x by python\S* \(pid \d+\)",
        rf"open for writing of {maps}/t by sh \(pid \d+\)",
    ):
        assert re.search(f"FROZ-4: {part}", output), output
    assert "no Python code" not in output


@needs_strace
def test_compiled_code_of_this_process_is_seen_by_the_trace(project, run, maps):
    project("""
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def use():
    descriptor = libc.open(b"maps/native.json", os.O_RDWR)
    assert descriptor > 0
    assert libc.close(descriptor) == 0
@frozen(MAP, trace_children=True)
def test_traced(): use()
@frozen(MAP)
def test_not_traced(): use()
""")
    result = run(returncode=1)
    result.assert_outcomes(passed=2, errors=1)
    said = f"FROZ-4: open for writing of {maps}/native.json by this process in compiled code"
    assert said in result.stdout.str()


@needs_strace
def test_what_python_did_is_told_once_under_a_trace(project, run):
    project("""
@frozen(MAP, trace_children=True)
def test_it(): os.utime(MAP)
""")
    output = run(returncode=1).stdout.str()
    assert len(re.findall("FROZ-4: utime", output.split("short test summary")[0])) == 1
    assert "utimensat" not in output


def test_without_strace_a_test_that_asks_for_it_is_skipped_by_name(
    project, run, monkeypatch, pytester
):
    project("""
@frozen(MAP, trace_children=True)
def test_it(): pass
def test_other(): assert "VT_FP4_AUTOTUNE_CACHE_PATH" not in os.environ
""")
    for name in ("sh", "env"):
        (pytester.mkdir(f"bin-{name}") / name).symlink_to(shutil.which(name))
    monkeypatch.setenv("PATH", str(pytester.path / "bin-sh"))
    result = run("-rs")
    result.assert_outcomes(passed=1, skipped=1)
    assert "trace_children needs strace: strace is not installed" in result.stdout.str()


@needs_strace
def test_where_this_process_is_traced_already_a_test_is_skipped_by_name(project, run):
    project("""
@frozen(MAP, trace_children=True)
def test_it(): pass
""")
    result = run("-rs", under=["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=none"])
    result.assert_outcomes(skipped=1)
    assert "trace_children needs strace: strace may not trace" in result.stdout.str()
