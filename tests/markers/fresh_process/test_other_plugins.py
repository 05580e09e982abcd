"""Beside plugins that many projects have; each test is skipped by name where one is not installed."""

import importlib.util

import pytest


@pytest.fixture
def needs():
    """``needs(module, …)``: skip, by name, where one is not here."""

    def look(*modules):
        for module in modules:
            if importlib.util.find_spec(module) is None:
                pytest.skip(f"needs {module.replace('_', '-')}, which is not installed")

    return look


def test_reruns_happen_in_the_process_and_count_here(pytester, run, needs):
    needs("pytest_rerunfailures")
    pytester.makepyfile("""
        import pathlib, pytest

        @pytest.mark.fresh_process
        def test_it():
            with open("tries", "a") as file:
                file.write("x")
            assert len(pathlib.Path("tries").read_text()) == 3
    """)
    result = run("--reruns=3")
    assert result.parseoutcomes() == {"passed": 1, "rerun": 2}


def test_a_timeout_is_the_processs_own(pytester, run, needs):
    needs("pytest_timeout")
    pytester.makepyfile("""
        import pytest, threading

        @pytest.mark.fresh_process
        @pytest.mark.timeout(3, method="signal")
        def test_it():
            threading.Event().wait()
    """)
    result = run(returncode=1)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E * Failed: Timeout (>3.0s) from pytest-timeout."])


def test_coverage_of_processes_counts(pytester, run, needs):
    needs("pytest_cov")
    (pytester.path / ".coveragerc").write_text("[run]\npatch = subprocess\nparallel = true\n")
    pytester.makepyfile("""
        import pytest

        def of_the_test():
            return 1

        @pytest.mark.fresh_process
        def test_it():
            assert of_the_test() == 1
    """)
    result = run("--cov=.", "--cov-config=.coveragerc")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["TOTAL * 100%"])
