"""What all tests share: pytest's own tool for testing plugins, and the marker `wide`."""

import os
import signal

import pytest

pytest_plugins = ["pytester"]

# The runs that tests make are not the run that CI shows: they write no summary of theirs for
# GitHub, and their own summary says each failure in a line (where CI is set, pytest says it whole).
for _name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "CI", "BUILD_NUMBER"):
    os.environ.pop(_name, None)

# A shell starts what it runs in the background with SIGINT ignored, and every child inherits that: an
# interrupt that a test sends would be lost.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that also runs the wide tests."""
    parser.addoption("--wide", action="store_true", help="also run the tests that are marked wide")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out wide tests, unless they are asked for by the option or by their name."""
    if config.getoption("--wide") or any("::" in argument for argument in config.args):
        return
    wide = [item for item in items if item.get_closest_marker("wide") is not None]
    if wide:
        items[:] = [item for item in items if item.get_closest_marker("wide") is None]
        config.hook.pytest_deselected(items=wide)


@pytest.fixture(autouse=True)
def _runs_without_hypothesis(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hypothesis's plugin adds 0.6 s to the end of every pytest run, so the runs of tests load none.

    pytester removes PYTEST_ADDOPTS when it is set up, so this comes after it.
    """
    if "pytester" in request.fixturenames:
        request.getfixturevalue("pytester")
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:hypothesispytest")
