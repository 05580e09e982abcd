"""Several runs of one test: compared, measured, and one result."""

import json
import os

import pytest

WORKERS = pytest.mark.parametrize(
    "workers",
    [
        pytest.param(("-p", "no:xdist"), marks=pytest.mark.wide),
        ("-n0",),
        pytest.param(("-n2",), marks=pytest.mark.wide),
    ],
    ids=" ".join,
)
EVERY_WAY = pytest.mark.parametrize(
    "workers", [("-p", "no:xdist"), ("-n0",), ("-n2",)], ids=" ".join
)


@pytest.fixture
def project(pytester):
    """``project(marker, body)``: one test, `test_it(fresh)`."""

    def make(options, body):
        lines = "\n".join(f"    {line}" for line in body.splitlines())
        pytester.makepyfile(
            test_it="import os, pytest, warnings\n\n"
            f"@pytest.mark.fresh_process({options})\ndef test_it(fresh):\n{lines}\n"
        )

    return make


# --- Comparing


@EVERY_WAY
def test_equal_records_pass(project, run, workers):
    project(
        "runs=3", "fresh.record('map', {'a': [1, None], 'b': 0.5})\nfresh.record('raw', b'\\xff')"
    )
    run(*workers).assert_outcomes(passed=1)


@WORKERS
def test_different_records_fail_and_show_key_and_runs(project, run, workers):
    project("runs=3", "fresh.record('map', {'same': 0, 'a': {'deep': [1, fresh.run // 3]}})")
    result = run(*workers, returncode=1)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["'map' differs between run 1 and run 3", "*run 1*run 3*", "*deep*1] * 0 * 1"]
    )
    assert "'same'" not in result.stdout.str()


def test_different_bytes_show_sizes_digests_and_the_place(project, run):
    project("runs=2", "fresh.record('raw', b'abc' + b'x' * fresh.run)")
    result = run(returncode=1)
    result.stdout.fnmatch_lines(
        [
            "'raw' differs between run 1 and run 2",
            "  run 1: 4 bytes, SHA-256 *",
            "  first difference at byte 4",
        ]
    )


def test_a_record_that_one_run_lacks_is_a_difference(project, run):
    project("runs=2", "fresh.record('x', 1)\nif fresh.run == 2: fresh.record('y', 1)")
    run(returncode=1).stdout.fnmatch_lines(["'y' was not recorded by run 1"])


@pytest.mark.parametrize(
    ("compare", "passes"),
    [("equal", False), ("within-arms", True), ("ignore", True), ({"text": "ignore"}, True), ({"other": "ignore"}, False)],
    ids=str,
)  # fmt: skip
def test_arms_may_differ_where_that_is_allowed(project, run, compare, passes):
    arms = {"on": {"MODE": "1"}, "off": {"MODE": None}}
    body = "fresh.record('text', os.environ.get('MODE'))\nfresh.record('other', 1)"
    project(f"arms={arms}, order='ABBA', compare={compare!r}", body)
    run(returncode=0 if passes else 1)


def test_within_an_arm_runs_must_agree(project, run):
    project(
        "arms={'x': {}, 'y': {}}, order='ABAB', compare='within-arms'",
        "fresh.record('n', fresh.run == 4)",
    )
    run(returncode=1).stdout.fnmatch_lines(["'n' differs between run 2 (y) and run 4 (y)"])


def test_a_name_to_compare_that_nobody_records_fails(project, run):
    project("runs=2, compare={'map': 'equal'}", "fresh.record('maps', 1)")
    run(returncode=1).stdout.fnmatch_lines(["compare names 'map', which no run has recorded"])


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("fresh.record('x', {1, 2})", "fresh.record('x', …) holds what JSON cannot"),
        ("fresh.record('', 1)", "is not possible as a name"),
        ("fresh.record('x', 1)\nfresh.record('x', 1)", "'x' was recorded before in this run"),
        ("fresh.measure('x', 0, better='lower')", "has no ratio"),
        ("fresh.measure('x', float('nan'), better='lower')", "has no ratio"),
        ("fresh.measure('x', 1, better='faster')", "say 'higher' or 'lower'"),
        ("pid = os.fork()\nif pid == 0:\n    try: fresh.record('x', 1)\n    except RuntimeError as e: os.write(2, str(e).encode())\n    os._exit(0)\nos.waitpid(pid, 0)\nassert 0", "a forked process cannot record"),
    ],
)  # fmt: skip
def test_mistakes_in_records_are_sentences(project, run, body, words):
    project("", body)
    result = run(returncode=1)
    assert words in result.stdout.str()


# --- One result


def test_runs_are_fresh_and_numbered_and_told_their_arm(project, run, pytester):
    body = (
        "with open('journal', 'a') as file:\n"
        "    print(os.getpid(), fresh.run, fresh.runs, fresh.arm, os.environ.get('MODE'), file=file)"
    )
    project("arms={'on': {'MODE': '1'}, 'off': {'MODE': None}}, order='ABBA'", body)
    os.environ["MODE"] = "outer"
    run().assert_outcomes(passed=1)
    lines = [line.split() for line in (pytester.path / "journal").read_text().splitlines()]
    assert len({line[0] for line in lines}) == 4
    assert sorted(line[1:] for line in lines) == [
        ["1", "4", "on", "1"],
        ["2", "4", "off", "None"],
        ["3", "4", "off", "None"],
        ["4", "4", "on", "1"],
    ]


def test_first_failure_is_shown_and_the_rest_not_started(project, run):
    project("runs=5", "print('run', fresh.run)\nassert fresh.run != 2, 'this one'")
    # On one core, so that runs go one after the other however many there are.
    one_core = ("taskset", "-c", str(min(os.sched_getaffinity(0))))
    result = run("--nvfp4-lock-path=lock", returncode=1, under=one_core)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*AssertionError: this one",
            "*Fresh runs*",
            "run 1: passed",
            "run 2: failed",
            "run 5: not started",
        ]
    )
    result.stdout.fnmatch_lines(["run 2"])


def test_a_death_among_the_runs_fails(project, run):
    project("runs=3", "if fresh.run == 2: os._exit(0)")
    run(returncode=1).stdout.fnmatch_lines(["the fresh process ended with status 0 during call"])


def test_outcomes_that_differ_fail(project, run):
    project("runs=2", "if fresh.run == 2: pytest.skip('not twice')")
    result = run(returncode=1)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["the runs of one test had different outcomes: run 1 passed, run 2 skipped"]
    )


def test_all_skipped_is_skipped_and_all_xfailed_xfailed(pytester, run):
    pytester.makepyfile("""
        import pytest

        @pytest.mark.fresh_process(runs=2)
        def test_skipped():
            pytest.skip("as ever")

        @pytest.mark.fresh_process(runs=2)
        @pytest.mark.xfail
        def test_expected(fresh):
            fresh.record("x", fresh.run)
            assert 0

        @pytest.mark.fresh_process(runs=2)
        @pytest.mark.xfail(strict=True)
        def test_differs_as_expected(fresh):
            fresh.record("x", fresh.run)
    """)
    result = run(returncode=1)
    # A strict expectation is judged in the process, which saw the test pass.
    result.assert_outcomes(skipped=1, xfailed=1, failed=1)


@pytest.mark.parametrize(
    ("options", "body", "outcome"),
    [
        ("runs=2, compare={'map': 'equal'}", "pytest.skip('no GPU')", "skipped"),
        ("runs=2, compare={'map': 'equal'})\n@pytest.mark.skip(reason='no GPU'", "pass", "skipped"),
        ("arms={'x': {}, 'y': {}}, at_least=1.0", "pytest.skip('no GPU')", "skipped"),
        ("runs=2, compare={'map': 'equal'})\n@pytest.mark.xfail(reason='bug'", "assert 0", "xfailed"),
        ("arms={'x': {}, 'y': {}}, at_least=1.0", "pytest.xfail('no GPU')", "xfailed"),
    ],
)  # fmt: skip
def test_a_test_that_did_not_come_to_its_end_owes_nothing(project, run, options, body, outcome):
    project(options, body)
    result = run()
    result.assert_outcomes(**{outcome: 1})
    assert "fresh processes" not in result.stdout.str()  # no table of it


def test_a_difference_that_is_expected_is_an_xfail(project, run, pytester):
    project(
        "runs=2)\n@pytest.mark.xfail(reason='tuned anew each time'", "fresh.record('x', fresh.run)"
    )
    run().assert_outcomes(xfailed=1)


def test_one_result_has_the_output_and_the_time_of_all(project, run, pytester):
    project("runs=2", "print('said by', fresh.run)")
    result = run("-rP", "--junitxml=report.xml")
    result.stdout.fnmatch_lines(["said by 1", "*(run 2)*", "said by 2"])


def test_a_warning_of_all_runs_is_told_once(project, run):
    project(
        "runs=3",
        "warnings.warn('old', DeprecationWarning)\nif fresh.run == 2: warnings.warn('own')",
    )
    run().assert_outcomes(passed=1, warnings=2)


def test_runs_without_a_lock_go_side_by_side(pytester, run):
    # Each opens the FIFO at its own end, which needs the other to be there.
    pytester.makepyfile("""
        import os, pytest

        @pytest.mark.fresh_process(runs=2)
        def test_it(fresh):
            with open("fifo", "r" if fresh.run == 1 else "w"):
                pass
    """)
    os.mkfifo(pytester.path / "fifo")
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs two cores")
    run().assert_outcomes(passed=1)


# --- Measuring


@WORKERS
def test_arms_are_measured_in_a_table(project, run, workers):
    project(
        "arms={'direct': {}, 'fallback': {}}, order='AB/BA/AB', at_least=1.0",
        "fast = fresh.arm == 'direct'\n"
        "fresh.measure('throughput', 110 if fast else 100, unit='tok/s', better='higher')\n"
        "fresh.measure('latency', 2.0 if fast else 2.5, unit='ms', better='lower')",
    )
    result = run(*workers)
    result.stdout.fnmatch_lines(
        [
            "*fresh processes*",
            "test_it.py::test_it",
            "  6 runs, AB/BA/AB, A = direct, B = fallback",
            "*A * B * A to B",
            "  call, s *",
            "  throughput, tok/s * 110 * 100 * 1.1000",
            "  latency, ms * 2 * 2.5 * 1.2500",
            "  2/2 axes at least 1",
        ]
    )
    assert all(len(line) <= 80 for line in result.outlines if "axes" in line or "tok/s" in line)


@WORKERS
def test_an_axis_below_the_bound_fails_and_is_named(project, run, workers):
    project(
        "arms={'direct': {}, 'fallback': {}}, order='ABBA', at_least=1.0",
        "fast = fresh.arm == 'direct'\n"
        "fresh.measure('throughput', 110 if fast else 100, better='higher')\n"
        "fresh.measure('p99 TPOT', 10.0 if fast else 9.97683, unit='ms', better='lower')",
    )
    result = run(*workers, returncode=1)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "1/2 axes at least 1: the first arm is behind",
            "*p99 TPOT, ms *10 * 9.9768 *0.9977  below 1",
        ]
    )
    assert result.stdout.str().count("p99 TPOT") == 1


def test_very_large_values_have_means(project, run):
    project(
        "arms={'x': {}, 'y': {}}, order='AABB', at_least=1.0",
        "fresh.measure('n', 1.7e308 if fresh.arm == 'x' else 1.6e308, better='lower')",
    )
    run(returncode=1).stdout.fnmatch_lines(["  n * 1.7e+308 * 1.6e+308 * 0.9412  below 1"])


def test_a_bound_with_nothing_measured_fails(project, run):
    project("arms={'x': {}, 'y': {}}, at_least=1.0", "pass")
    run(returncode=1).stdout.fnmatch_lines(
        ["*at_least compares what fresh.measure was given, and*"]
    )


def test_axes_that_one_run_lacks_fail(project, run):
    project("runs=2", "if fresh.run == 1: fresh.measure('x', 1, better='lower')")
    run(returncode=1).stdout.fnmatch_lines(["run 1 and run 2 did not measure the same: x"])


def test_axes_in_other_units_fail(project, run):
    project("runs=2", "fresh.measure('x', 1, better='lower', unit='ms' if fresh.run == 1 else 's')")
    run(returncode=1).stdout.fnmatch_lines(["run 1 and run 2 measured 'x' in another unit*"])


# --- Without processes


def test_no_fresh_runs_here_once(project, run, pytester):
    project("runs=3", "open('pids', 'a').write(f'{os.getppid()} ')\nfresh.record('x', fresh.run)")
    run("--nvfp4-no-fresh").assert_outcomes(passed=1)
    assert (pytester.path / "pids").read_text() == f"{os.getpid()} "


def test_the_fixture_needs_the_marker(pytester, run):
    pytester.makepyfile("def test_it(fresh): pass")
    result = run(returncode=1)
    result.stdout.fnmatch_lines(["the fixture fresh needs the marker fresh_process; add it"])


def test_a_record_may_be_large(project, run):
    project("runs=2", "fresh.record('x', os.urandom(1) * 5_000_000)\nfresh.record('y', fresh.run)")
    result = run(returncode=1)
    result.stdout.fnmatch_lines(["'y' differs between run 1 and run 2"])


def test_records_hold_any_json(project, run):
    value = {"é": [1, 2.5, None, True, "\ud800"], "nested": {"deep": [[]]}}
    project(
        "runs=2",
        f"fresh.record('x', {json.dumps(value)}".replace("null", "None").replace("true", "True")
        + ")",
    )
    run().assert_outcomes(passed=1)
