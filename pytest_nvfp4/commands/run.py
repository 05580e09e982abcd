"""``nvfp4-conformance run``: the conformance suite, without the surrounding pytest project."""

import argparse
import os
import sys
import tempfile
import threading
from pathlib import Path

from pytest_nvfp4.commands import arguments
from pytest_nvfp4.commands.output import show
from pytest_nvfp4.extras import require_suite
from pytest_nvfp4.run_settings import RUN_SETTINGS
from pytest_nvfp4.settings import Given

SUMMARY = "run the suite against an implementation"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the implementation, the number of workers, and the suite's settings."""
    parser.add_argument("impl", metavar="IMPL", help=arguments.IMPL)
    parser.add_argument("-n", dest="workers", metavar="N", help="worker processes, or auto")
    for setting in RUN_SETTINGS:
        parser.add_argument(
            f"--{setting.name}",
            dest=setting.ini,
            action="append" if setting.repeatable else "store",
            metavar=setting.metavar,
            help=setting.help,
        )
    parser.set_defaults(passes_on=True)


def execute(options: argparse.Namespace) -> int:
    """Run the conformance suite against an implementation. Every other option, such as -k or
    --junitxml, goes to pytest.
    """
    require_suite("the conformance suite")
    import pytest

    words = _settings(options)
    # Plugins, conftest files and settings of the surrounding project do not belong to this run.
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    interrupted: list[bool] = []

    class Interrupts:
        @pytest.hookimpl
        def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
            interrupted.append(excinfo.errisinstance(KeyboardInterrupt))

    with tempfile.TemporaryDirectory(prefix="nvfp4-") as folder:
        ini = Path(folder, "pytest.ini")
        ini.write_text("[pytest]\n", encoding="ascii")
        workers = ["-n", options.workers] if options.workers else []
        status = int(
            pytest.main(
                [
                    *("-p", "xdist", "-p", "nvfp4", "-p", "no:cacheprovider"),
                    *("-c", str(ini), "--rootdir", os.getcwd(), "--noconftest", "--tb=no", "-rN"),
                    *("--nvfp4-conformance", "--nvfp4-impl", options.impl),
                    *(*workers, *words, *options.rest),
                ],
                plugins=[Interrupts()],
            )
        )
    if any(interrupted):
        status = 130
    elif status not in (pytest.ExitCode.OK, pytest.ExitCode.USAGE_ERROR):
        status = 1  # pytest has more kinds of failures
    _leave_threads(status)
    return status


def _settings(options: argparse.Namespace) -> list[str]:
    """The settings that were given, checked, as options of pytest."""
    words = []
    for setting in RUN_SETTINGS:
        chosen = getattr(options, setting.ini)
        for text in chosen if isinstance(chosen, list) else filter(None, [chosen]):
            setting.read(Given(text, f"--{setting.name}", Path.cwd()))
            words.append(f"{setting.option}={text}")
    return words


def _leave_threads(status: int) -> None:
    """End the process where an adapter left threads running that would keep it alive for ever."""
    threads = [t for t in threading.enumerate() if t is not threading.main_thread()]
    left = [thread.name for thread in threads if not thread.daemon]
    if left:
        show(f"the adapter left threads running: {', '.join(left)}", sys.stderr)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
