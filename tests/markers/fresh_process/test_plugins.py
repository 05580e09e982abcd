"""Beside other parts of pytest and other plugins: files, folders, order, the debugger, the lock."""

import json
import os
import sys
import xml.etree.ElementTree as ET

import pytest
from workers import BOTH_WAYS, WORKERS


@pytest.mark.parametrize("option", ["--pdb", "--trace"])
def test_the_debugger_is_refused_with_a_hint(pytester, run, option):
    pytester.makepyfile("import pytest\n@pytest.mark.fresh_process\ndef test_it(): pass")
    result = run(option, returncode=4)
    result.stderr.fnmatch_lines(
        [f"ERROR: {option} cannot reach into the processes of fresh_process; add --nvfp4-no-fresh*"]
    )


def test_a_mistake_in_a_marker_is_a_collection_error(pytester, run):
    pytester.makepyfile("import pytest\n@pytest.mark.fresh_process(runs=0)\ndef test_it(): pass")
    result = run(returncode=2)
    result.stdout.fnmatch_lines(["test_*::test_it: fresh_process(runs=0) is not possible; use *"])


def test_a_mistake_in_a_late_marker_fails_the_test(pytester, run):
    pytester.makeconftest("""
        import pytest
        def pytest_collection_modifyitems(items):
            for item in items:
                item.add_marker(pytest.mark.fresh_process(runs=0))
    """)
    pytester.makepyfile("def test_it(): pass")
    result = run(returncode=1)
    result.assert_outcomes(errors=1)


def test_a_marker_added_after_collection_counts(pytester, run):
    pytester.makeconftest("""
        import pytest
        def pytest_runtestloop(session):
            for item in session.items:
                item.add_marker(pytest.mark.fresh_process)
    """)
    pytester.makepyfile("import os\ndef test_it(): open('pid', 'w').write(str(os.getppid()))")
    run().assert_outcomes(passed=1)
    assert (pytester.path / "pid").read_text() != str(os.getpid())


@pytest.mark.parametrize("value", ["0", "-1", "x", "1e9"])
def test_a_bad_timeout_is_a_usage_error(pytester, run, value):
    pytester.makepyfile("def test_it(): pass")
    result = run(f"--nvfp4-fresh-timeout={value}", returncode=4)
    result.stderr.fnmatch_lines(
        [f"ERROR: --nvfp4-fresh-timeout is '{value}'; use a number of seconds*"]
    )


ORDER = """
    import pytest

    def log(word):
        with open("log", "a") as file:
            file.write(word + " ")

    class TestOne:
        @pytest.fixture(scope="class", autouse=True)
        def shared(self):
            log("up")
            yield
            log("down")

        def test_a(self):
            log("a")

        {marker}
        def test_b(self):
            log("b")

    class TestTwo:
        def test_c(self):
            log("c")
"""


@pytest.mark.parametrize("fresh", [False, True])
def test_wide_fixtures_end_where_they_would(pytester, run, fresh):
    pytester.makepyfile(ORDER.format(marker="@pytest.mark.fresh_process" if fresh else ""))
    run("-p", "no:randomly").assert_outcomes(passed=3)
    log = (pytester.path / "log").read_text()
    assert log == ("up a up b down down c " if fresh else "up a b down c ")


def test_an_error_in_a_wide_fixture_is_told_where_it_ends(pytester, run):
    pytester.makepyfile("""
        import pytest

        class TestOne:
            @pytest.fixture(scope="class")
            def shared(self):
                yield
                raise RuntimeError("no end")

            def test_a(self, shared):
                pass

            @pytest.mark.fresh_process
            def test_b(self):
                pass

        def test_c():
            pass
    """)
    result = run(returncode=1)
    result.assert_outcomes(passed=3, errors=1)
    result.stdout.fnmatch_lines(["*ERROR at teardown of TestOne.test_b*", "*RuntimeError: no end"])


def test_ending_the_whole_run_from_within(pytester, run):
    pytester.makepyfile("""
        import pytest

        @pytest.mark.fresh_process
        def test_it():
            pytest.exit("enough", returncode=7)

        def test_never():
            open("never", "w")
    """)
    result = run(returncode=7)
    result.stdout.fnmatch_lines(["*Exit: enough*"])
    assert not (pytester.path / "never").exists()


def test_temporary_folders_are_removed_unless_something_failed(pytester, run, tmp_path):
    pytester.makepyfile("""
        import os, pytest

        @pytest.mark.fresh_process
        def test_it(tmp_path):
            (tmp_path / "file").write_text("x")
            print("in", tmp_path)
            assert "FAIL" not in os.environ
    """)
    base = tmp_path / "base"
    run(f"--basetemp={base}")
    assert not list(tmp_path.glob("base-fresh-*"))
    os.environ["FAIL"] = "1"
    try:
        run(f"--basetemp={base}", returncode=1)
    finally:
        del os.environ["FAIL"]
    assert [path.read_text() for path in tmp_path.glob("base-fresh-*/*/test_it0/file")] == ["x"]


def test_the_parents_temporary_folder_is_its_own(pytester, run, tmp_path):
    pytester.makepyfile("""
        import pytest

        def test_here(tmp_path):
            (tmp_path / "kept").write_text("x")

        @pytest.mark.fresh_process
        def test_there(tmp_path):
            assert not list(tmp_path.iterdir())
    """)
    run(f"--basetemp={tmp_path / 'base'}").assert_outcomes(passed=2)
    assert list((tmp_path / "base").glob("*/kept"))


@BOTH_WAYS
def test_files_of_the_run_are_the_parents(pytester, run, workers):
    pytester.makepyfile("""
        import pytest

        @pytest.mark.fresh_process
        @pytest.mark.parametrize("number", range(3))
        def test_it(number, record_property):
            record_property("number", number)
    """)
    run(workers, "--junitxml=report.xml", "-o", "junit_family=xunit1", "--log-file=log.txt")
    cases = list(ET.parse(pytester.path / "report.xml").iter("testcase"))
    assert sorted(case.find("properties/property").get("value") for case in cases) == [
        "0",
        "1",
        "2",
    ]
    if workers == "-n0":  # with workers, pytest itself remembers nothing
        known = json.loads((pytester.path / ".pytest_cache/v/cache/nodeids").read_text())
        assert len(known) == 3


def test_a_property_that_cannot_travel_fails_the_test(pytester, run):
    pytester.makepyfile("""
        import pytest

        @pytest.mark.fresh_process
        def test_it(record_property):
            record_property("odd", object())
    """)
    result = run(returncode=1)
    result.stdout.fnmatch_lines(
        [
            "user property 'odd' holds a object, which cannot leave a fresh process; give text or a number"
        ]
    )


def test_a_cleared_cache_keeps_what_the_run_has_put_there(pytester, run):
    pytester.makepyfile("""
        import pytest

        def test_first(pytestconfig):
            pytestconfig.cache.set("some/value", 1)

        @pytest.mark.fresh_process
        def test_it():
            pass

        def test_last(pytestconfig):
            assert pytestconfig.cache.get("some/value", None) == 1
    """)
    run("-p", "no:randomly", "--cache-clear").assert_outcomes(passed=3)


def test_without_a_terminal(pytester, run):
    pytester.makepyfile("import pytest\n@pytest.mark.fresh_process\ndef test_it(): pass")
    run("-p", "no:terminal", "--junitxml=report.xml")
    suite = ET.parse(pytester.path / "report.xml").find("testsuite")
    assert (suite.get("tests"), suite.get("errors"), suite.get("failures")) == ("1", "0", "0")


def test_plugins_that_pytest_main_was_given(pytester):
    for name in ("one", "two"):
        pytester.makepyfile(
            **{name: f"import pytest\n@pytest.fixture\ndef of_{name}(): return '{name}'"}
        )
    pytester.makepyfile("""
        import pytest

        @pytest.mark.fresh_process
        def test_it(of_one, of_two):
            assert of_one + of_two == "onetwo"
    """)
    pytester.makepyfile(
        main="import pytest, sys, two\n"
        "sys.exit(pytest.main(['-p', 'nvfp4'], plugins=['one', two, sys.modules[__name__], object()]))"
    )
    pytester.run(sys.executable, "main.py").assert_outcomes(passed=1)


def test_names_with_colons(pytester, run):
    pytester.makeconftest("""
        import pytest

        def pytest_collect_file(parent, file_path):
            if file_path.suffix == ".cases":
                return File.from_parent(parent, path=file_path)

        class File(pytest.File):
            def collect(self):
                for name in ("a::b", "c", "a::b[d::e]"):
                    item = Item.from_parent(self, name=name)
                    item.add_marker(pytest.mark.fresh_process)
                    yield item

        class Item(pytest.Item):
            def runtest(self):
                with open("journal", "a") as file:
                    print(self.name, file=file)
    """)
    pytester.makefile(".cases", some="")
    run().assert_outcomes(passed=3)
    journal = (pytester.path / "journal").read_text().splitlines()
    assert journal == ["a::b", "c", "a::b[d::e]"]


def test_a_path_to_import_from_that_is_no_text(pytester, run, monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # others stumble over it themselves
    pytester.makeconftest("import pathlib, sys\nsys.path.append(pathlib.Path.cwd())")
    pytester.makepyfile("import pytest\n@pytest.mark.fresh_process\ndef test_it(): pass")
    run().assert_outcomes(passed=1)


def test_a_warning_of_a_class_within_the_test_has_its_name(pytester, run):
    pytester.makepyfile("""
        import pytest, warnings

        @pytest.mark.fresh_process
        def test_it():
            class Odd(UserWarning):
                pass

            warnings.warn("so", Odd)
    """)
    run().stdout.fnmatch_lines(["*: Odd: so"])


def test_odd_folders(pytester, run):
    folder = pytester.mkdir("a [b] c::d")
    (folder / "test_odd.py").write_text(
        "import pytest\n@pytest.mark.fresh_process\n@pytest.mark.parametrize('x', ['[', '::'])\ndef test_it(x): pass\n"
    )
    run(".").assert_outcomes(passed=2)


def test_a_run_from_elsewhere_with_paths_from_there(pytester, run, monkeypatch):
    pytester.makepyfile(
        **{"sub/test_it": "import pytest\n@pytest.mark.fresh_process\ndef test_it(): pass"}
    )
    (pytester.path / "sub" / "test_it.py").exists()
    elsewhere = pytester.mkdir("elsewhere")
    monkeypatch.chdir(elsewhere)
    run("--rootdir=..", "../sub", "--", "../sub/test_it.py").assert_outcomes(passed=1)


def test_other_plugins_may_deselect_by_position(pytester, run):
    pytester.makeconftest("""
        def pytest_collection_modifyitems(items):
            del items[:1]
    """)
    pytester.makepyfile("""
        import pytest

        @pytest.mark.fresh_process
        @pytest.mark.parametrize("number", range(3))
        def test_it(number):
            pass
    """)
    run().assert_outcomes(passed=2)


def test_groups_of_xdist(pytester, run):
    pytester.makepyfile("""
        import pytest

        @pytest.mark.fresh_process
        @pytest.mark.xdist_group("one")
        @pytest.mark.parametrize("number", range(3))
        def test_it(number, worker_id):
            assert worker_id.startswith("gw")
    """)
    run("-n2", "--dist=loadgroup").assert_outcomes(passed=3)


def test_a_worker_is_named_as_without_processes(pytester, run):
    pytester.makepyfile("""
        import pytest

        @pytest.mark.fresh_process
        def test_it(worker_id, testrun_uid):
            assert worker_id == "master"
    """)
    run().assert_outcomes(passed=1)


# --- Under the lock


@pytest.fixture
def locked(pytester, path):
    pytester.makepyfile(
        f"""
        import os, pytest, subprocess

        @pytest.mark.gpu_lock(path={str(path)!r})
        @pytest.mark.fresh_process(runs=3, arms={{"a": {{}}, "b": {{}}, "c": {{}}}})
        def test_it(fresh):
            assert subprocess.run(["flock", "-n", {str(path)!r}, "true"]).returncode == 1
            with open("journal", "a") as file:
                print("begin", fresh.run, file=file)
            with open("journal", "a") as file:
                print("end", fresh.run, file=file)
        """
    )


@WORKERS
@pytest.mark.usefixtures("locked")
def test_one_hold_covers_all_runs_which_go_in_turn(pytester, run, workers, free, path):
    run(workers, "--junitxml=report.xml", "-o", "junit_family=xunit1").assert_outcomes(passed=1)
    journal = (pytester.path / "journal").read_text().split()
    assert journal == ["begin", "1", "end", "1", "begin", "2", "end", "2", "begin", "3", "end", "3"]
    told = {
        p.get("name"): p.get("value")
        for p in ET.parse(pytester.path / "report.xml").iter("property")
    }
    assert told["gpu_lock_released"] > told["gpu_lock_acquired"]
    assert told["gpu_lock_adopted_from"] == ""
    assert free(path)


def test_an_adopted_hold_covers_them_too(run, locked, path):
    result = run("-v", under=["flock", str(path)])
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*adopted from pid *"])


def test_a_lock_that_cannot_be_had_starts_nothing(pytester, run, locked, hold, path):
    hold(path)
    result = run("--nvfp4-lock-timeout=0.1", returncode=1)
    result.assert_outcomes(errors=1)
    assert not (pytester.path / "journal").exists()
    result.stdout.fnmatch_lines(["*gpu_lock: *"])


def test_a_lost_lock_hides_no_death(pytester, run, path):
    pytester.makeconftest("""
        from pytest_nvfp4.markers.gpu_lock.holding import Holding

        release = Holding.release
        Holding.release = lambda holding: release(holding) or "it was lost"
    """)
    pytester.makepyfile(f"""
        import os, pytest

        @pytest.mark.gpu_lock(path={str(path)!r})
        @pytest.mark.fresh_process
        def test_it():
            os._exit(3)
    """)
    result = run(returncode=1)
    result.assert_outcomes(failed=1, errors=1)
    result.stdout.fnmatch_lines(
        ["gpu_lock: it was lost", "the fresh process ended with status 3 during call"]
    )


def test_a_lock_for_the_whole_run_is_enough(run, locked, path, free):
    run("--nvfp4-lock", f"--nvfp4-lock-path={path}").assert_outcomes(passed=1)
    assert free(path)
