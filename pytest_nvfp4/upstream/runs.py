"""A pytest run: what it collects, its options, its plugins, and how it ends."""

import os
from collections.abc import Iterable
from typing import Any

import pytest

__all__ = [
    "collect_also",
    "collect_only",
    "colored",
    "exit_request",
    "exit_status",
    "leave_files_to_parent",
    "set_exit_status",
    "set_option",
    "silence",
    "tear_down",
]

# Plugins of pytest's: three write what they know of all tests into the cache, and one draws on the
# terminal. The first three are there since before 8.2, the last since 9.0.
_WRITERS = ("lfplugin", "nfplugin", "stepwiseplugin", "terminalprogress")
_TERMINAL = "terminalreporter"


def collect_only(config: pytest.Config, paths: Iterable[str]) -> None:
    """Collect these paths instead of those of the command line; while a run is configured.

    Reason: options, plugins and conftest files are found by the command line's paths, so these can
    only be replaced after that. `Config.args` is not public (changelog of pytest 9.0.0).
    """
    config.args = list(paths)


def collect_also(config: pytest.Config, paths: Iterable[str]) -> None:
    """Collect these paths besides those that the user named, and instead of the default ones.

    Reason: the same as of `collect_only`. ``file_or_dir`` is pytest's name for the paths of the
    command line; without any, `Config.args` has the ini file's testpaths or the current folder.
    """
    named = config.args if config.getoption("file_or_dir") else []
    config.args[:] = [*named, *(path for path in paths if path not in named)]


def set_option(config: pytest.Config, name: str, value: object) -> bool:
    """Set an option by its destination, if there is one, for plugins that read it after this.

    Returns whether there is such an option. Workers of pytest-xdist do not see the value: they
    read the command line. Reason: `Config.option` is documented for reading only.
    """
    if not hasattr(config.option, name):
        return False
    setattr(config.option, name, value)
    return True


def leave_files_to_parent(config: pytest.Config, *, basetemp: str, color: str) -> None:
    """Keep a child with its parent's command line from writing the parent's files.

    `basetemp` is the child's own temporary folder, `color` "yes" or "no". Reason: the child has to
    be given the whole command line, since other plugins read it before any hook could change it.
    """
    config.option.basetemp = basetemp
    set_option(config, "color", color)  # not there with -p no:terminal
    config.option.log_file = os.devnull  # or the parent's would be emptied
    config.option.cacheclear = False  # it has been, and others have written since
    config.option.pastebin = None


def silence(config: pytest.Config) -> None:
    """Take the terminal and the cache from pytest, once every plugin has been configured.

    The terminal reporter stays, since other plugins ask it how to colour, but it writes nowhere.
    Reason: the terminal is the parent's, and the cache is about all tests. There are no options for
    that which do not also change what is collected.
    """
    manager = config.pluginmanager
    for name in _WRITERS:
        if manager.has_plugin(name):
            manager.unregister(name=name)
    reporter = manager.get_plugin(_TERMINAL)
    if reporter is not None:
        manager.unregister(reporter)
        nowhere = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
        config.add_cleanup(nowhere.close)
        manager.register(type(reporter)(config, nowhere), _TERMINAL)


def colored(config: pytest.Config) -> bool | None:
    """Whether this run's terminal is written in colours; None where there is no terminal reporter.

    Reason: ``--color=auto`` is decided by a terminal that a child does not have.
    """
    if not config.pluginmanager.has_plugin(_TERMINAL):
        return None
    return config.get_terminal_writer().hasmarkup


def tear_down(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Tear down the fixtures that `nextitem` does not need, without a teardown of the test itself.

    Reason: pytest does that in the teardown of every test; a test that ran in another process has
    none, and other plugins must not see one. Of all that implement `pytest_runtest_teardown`, only
    pytest's runner, and the capturing of what fixtures print, are called.
    """
    manager = item.config.pluginmanager
    needed = [manager.get_plugin(name) for name in ("runner", "capturemanager")]
    others = [plugin for plugin in manager.get_plugins() if plugin not in needed]
    manager.subset_hook_caller("pytest_runtest_teardown", others)(item=item, nextitem=nextitem)


def set_exit_status(session: pytest.Session, status: int) -> None:
    """End the run with this status; for the hook `pytest_sessionfinish`.

    Reason: a run whose tests all passed may have failed nevertheless. The hook's own argument is a
    copy, and `Session.exitstatus` is not documented.
    """
    session.exitstatus = status


def exit_status(session: pytest.Session) -> int:
    """The status with which the run ends, once every plugin has had its say.

    Reason: the same as of `set_exit_status`.
    """
    return int(session.exitstatus)


def exit_request(error: BaseException) -> dict[str, Any]:
    """The arguments of the `pytest.exit` that raised this: ``{"reason": …, "returncode": …}``.

    Raises TypeError for another exception. Reason: to raise the same in another process. The
    exception's members are not documented.
    """
    if not isinstance(error, pytest.exit.Exception):
        raise TypeError(f"{error!r} was not raised by pytest.exit")
    return {"reason": error.msg, "returncode": error.returncode}
