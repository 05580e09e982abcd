"""The battery: what users see of a test in a fresh process is what they see of it in an ordinary run.

The whole text on the terminal is compared, the whole JUnit report, and the exit status.
"""

import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

BATTERY = Path(__file__).parent / "battery"

# What differs between any two runs.
VARYING = [
    (re.compile(r"0x[0-9a-f]{6,}"), "0x"),
    (re.compile(r"in \d+\.\d+s( \(\d:\d\d:\d\d\))?"), "in …s"),
    (re.compile(r"^=+ (.*?) =+$", re.M), r"= \1 ="),  # as wide as the time is long
    (re.compile(r"\b(plain|fresh)\b\.xml"), "xml"),
    (re.compile(r"^cachedir: .*$", re.M), "cachedir"),
    # Subtests of unittest: in an ordinary run their lines end in what the test prints.
    (re.compile(r"^\S*::TestSubtestsOfUnittest::test_one_of_three (SUB.*)?\n", re.M), ""),
    # Which of two workers had it, and when.
    (re.compile(r"\[gw\d\]( \[ *\d+%\])?"), "[gw]"),
]


def normal(text, shuffled):
    for pattern, replacement in VARYING:
        text = pattern.sub(replacement, text)
    return sorted(text.splitlines()) if shuffled else text.splitlines()


def junit(path, shuffled):
    suite = ET.parse(path).find("testsuite")
    counts = {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")}
    cases = [
        (
            case.get("classname"),
            case.get("name"),
            [normal(ET.tostring(part, encoding="unicode"), False) for part in case],
        )
        for case in suite.iter("testcase")
    ]
    return counts, sorted(cases) if shuffled else cases


@pytest.fixture
def both(tmp_path):
    """``both(*arguments)``: the battery's outcome, plainly and in fresh processes."""
    shutil.copytree(BATTERY, tmp_path / "battery")

    def run(*arguments, environment=(), report=True):
        told = {}
        shuffled = "-n2" in arguments
        for mode in ("plain", "fresh"):
            command = [sys.executable, "-m", "pytest", "-p", "nvfp4", *arguments]
            command += ["-o", f"cache_dir=.cache-{mode}"]
            if report:
                command.append(f"--junitxml={mode}.xml")
            done = subprocess.run(
                command,
                cwd=tmp_path / "battery",
                env=os.environ | {"BATTERY": mode, "COLUMNS": "100"} | dict(environment),
                capture_output=True,
                check=False,
            )
            text = (done.stdout + done.stderr).decode("utf-8", "backslashreplace")
            cases = junit(tmp_path / "battery" / f"{mode}.xml", shuffled) if report else None
            told[mode] = (done.returncode, normal(text, shuffled), cases)
        return told["plain"], told["fresh"]

    return run


def assert_agree(plain, fresh):
    assert fresh[1] == plain[1]
    assert fresh[2] == plain[2]
    assert fresh[0] == plain[0]


@pytest.mark.wide
@pytest.mark.parametrize("mode", [("-p", "no:xdist"), ("-n0",), ("-n2",)], ids=" ".join)
def test_all_of_it_agrees(both, mode):
    plain, fresh = both("-v", "-p", "no:cacheprovider", *mode)
    assert_agree(plain, fresh)
    assert plain[0] == 1
    assert int(plain[2][0]["tests"]) >= 60


def _wide(*arguments):
    return pytest.param(arguments, marks=pytest.mark.wide)


SOME = (
    "test_passes or test_dicts_differ or test_skips_itself or test_output or test_fails_as_expected"
)


@pytest.mark.parametrize(
    "arguments",
    [
        ("-n2", "-v", "-k", SOME),
        ("-k", SOME, "-rA", "--tb=short"),
        _wide("-k", SOME, "-q", "--color=yes", "--code-highlight=no"),
        ("-k", "test_warn or test_thread", "-W", "error"),
        ("-x", "-k", SOME),
        _wide("--maxfail=2", "-k", "test_numbers or test_tear_down_fails or test_odd_ids"),
        _wide("-m", "slow", "--greeting=hello"),
        _wide("--deselect", "test_battery.py::test_numbers[2]", "-k", "test_numbers"),
        _wide("test_battery.py::TestInAClass::test_set_up", "inner"),
        _wide("--capture=sys", "-k", "test_passes or test_uses_fixtures or test_logs"),
        _wide("--runxfail", "-k", "expect"),
        _wide("--tb=native", "-k", SOME),
        _wide("--show-capture=no", "-k", SOME),
        _wide("-o", "log_level=INFO", "-k", "test_logs"),
        _wide("--import-mode=importlib", "-k", "test_assertion_of or inner"),
        _wide("-vv", "--assert=plain", "-k", SOME),
        _wide("--co", "-q", "-k", SOME),
    ],
    ids=" ".join,
)
def test_options_act_as_ever(both, arguments):
    assert_agree(*both("-p", "no:cacheprovider", *arguments))


def test_what_failed_last_runs_first_or_alone(both):
    arguments = ("-k", "test_dicts_differ or test_passes", "--lf", "-v")
    assert_agree(*both(*arguments))
    plain, fresh = both(*arguments)
    assert_agree(plain, fresh)
    assert any("run-last-failure: rerun previous" in line for line in fresh[1])


def test_uncaptured_output_is_seen_at_once(both):
    arguments = (
        "-s",
        "-k",
        "test_fixtures_in_order or test_uses_fixtures",
        "-p",
        "no:cacheprovider",
    )
    assert_agree(*both(*arguments))


def test_without_autoload_and_named_twice(both):
    environment = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}.items()
    assert_agree(
        *both("-p", "nvfp4", "-k", SOME, "-p", "no:cacheprovider", environment=environment)
    )
