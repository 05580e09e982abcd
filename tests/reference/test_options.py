"""Option resolution."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from nvfp4_reference import Options, options
from nvfp4_reference.options import (
    DELAY,
    DIRECT_SCALES,
    FROZEN,
    IMPORT_PATH,
    NATIVE_PATH,
    PERSISTENT_CACHE,
    PLAN_CACHE,
)

from .documents import GB10, verdict

HOME = {"HOME": "/home/user"}
BOOLEANS = [PLAN_CACHE, PERSISTENT_CACHE, FROZEN, DIRECT_SCALES]
WRONG_BOOLEANS = ["2", "True", "ON", "yes", " 1", "1 ", "01", "\u0661", "-0"]
WRONG_DELAYS = ["-1", "+1", " 1", "1 ", "1_0", "1e3", "1.0", "0x1", "\u0665", "\u00b2"]
WRONG_DELAYS += ["1000001", "9" * 5000, "five", "\0"]


def resolve(**variables: str) -> Options:
    return options.resolve({**HOME, **variables}, GB10)


def test_the_default_file() -> None:
    found = resolve()
    assert found.native_path == (
        f"/home/user/.cache/nvfp4-reference/nvfp4_autotune/{GB10.format}/{GB10.directory}"
        "/autotune_configs.json"
    )
    assert (found.enabled, found.frozen, found.bypass) == (True, False, False)
    assert (found.delay_microseconds, found.import_path, found.warnings) == (5000, None, ())


@pytest.mark.parametrize(
    ("variables", "root"),
    [
        ({"XDG_CACHE_HOME": "/xdg"}, "/xdg"),
        ({"XDG_CACHE_HOME": "/xdg/"}, "/xdg"),
        ({"XDG_CACHE_HOME": "/"}, ""),
        ({"XDG_CACHE_HOME": ""}, "/home/user/.cache"),
        ({"XDG_CACHE_HOME": "cache"}, "/home/user/.cache"),
        ({"XDG_CACHE_HOME": "~/cache"}, "/home/user/.cache"),
    ],
)
def test_the_cache_root(variables: dict[str, str], root: str) -> None:
    path = resolve(**variables).native_path
    assert path is not None
    assert path.startswith(f"{root}/nvfp4-reference/")


@pytest.mark.parametrize("home", [{}, {"HOME": ""}, {"HOME": "user"}, {"HOME": "."}])
def test_no_cache_root(home: dict[str, str]) -> None:
    found = options.resolve(home, GB10)
    assert found.native_path is None
    assert found.enabled
    assert len(found.warnings) == 1
    frozen = {**home, FROZEN: "1"}
    assert verdict(options.resolve, frozen, GB10) == ("configuration", NATIVE_PATH)
    assert options.resolve({**frozen, NATIVE_PATH: "a"}, GB10).native_path == "a"
    assert options.resolve({**frozen, IMPORT_PATH: "b"}, GB10).import_path == "b"


@pytest.mark.parametrize("path", ["/a/b.json", "relative", "./x/../y", " ", "~/z"])
def test_explicit_paths_are_verbatim(path: str) -> None:
    assert resolve(**{NATIVE_PATH: path}).native_path == path
    assert resolve(**{IMPORT_PATH: path}).import_path == path


def test_an_empty_variable_is_unset() -> None:
    names = [*BOOLEANS, DELAY, NATIVE_PATH, IMPORT_PATH]
    assert resolve(**dict.fromkeys(names, "")) == resolve()


@pytest.mark.parametrize("name", BOOLEANS)
@pytest.mark.parametrize("value", WRONG_BOOLEANS)
def test_a_wrong_boolean_names_its_variable(name: str, value: str) -> None:
    assert verdict(options.resolve, {**HOME, name: value}, GB10) == ("configuration", name)


@pytest.mark.parametrize("value", WRONG_DELAYS)
def test_a_wrong_delay_names_its_variable(value: str) -> None:
    assert verdict(options.resolve, {**HOME, DELAY: value}, GB10) == ("configuration", DELAY)


@pytest.mark.parametrize(
    ("value", "delay"), [("0", 0), ("1000000", 1_000_000), ("0" * 5000 + "7", 7), ("5000", 5000)]
)
def test_the_delay_is_part_of_the_environment(value: str, delay: int) -> None:
    found = resolve(**{DELAY: value})
    assert found.delay_microseconds == found.metadata.delay_microseconds == delay
    assert (found.native_path == resolve().native_path) == (delay == 5000)


def test_the_delay_of_the_metadata_holds_where_none_is_set() -> None:
    slower = replace(GB10, delay_microseconds=9000)
    assert options.resolve(HOME, slower).delay_microseconds == 9000
    assert options.resolve(HOME, slower).native_path != resolve().native_path


@pytest.mark.parametrize("value", ["0", "false", "off"])
@pytest.mark.parametrize("switch", [PLAN_CACHE, PERSISTENT_CACHE])
def test_switched_off_nothing_else_matters(switch: str, value: str) -> None:
    others = dict.fromkeys([*BOOLEANS, DELAY], "nonsense")
    paths = {NATIVE_PATH: "/n", IMPORT_PATH: "/i"}
    found = options.resolve({**others, **paths, switch: value}, GB10)
    assert (found.enabled, found.frozen, found.bypass) == (False, False, switch == PLAN_CACHE)
    assert (found.native_path, found.import_path, found.warnings) == (None, None, ())
    assert found.delay_microseconds == 5000
    assert options.resolve({switch: value, DELAY: "70"}, GB10).delay_microseconds == 70


def test_an_imported_file_cannot_be_the_native_one() -> None:
    variables = {**HOME, NATIVE_PATH: "/a", IMPORT_PATH: "/a"}
    assert verdict(options.resolve, variables, GB10) == ("configuration", IMPORT_PATH)


def test_unrelated_things_do_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = resolve().native_path
    monkeypatch.chdir(tmp_path)
    assert resolve(LOGLEVEL="debug", **{DIRECT_SCALES: "0"}).native_path == before


def test_resolving_asks_the_system_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: Any, **named: Any) -> Any:
        raise AssertionError(arguments)

    with monkeypatch.context() as patch:
        for name in ("open", "mkdir", "makedirs", "stat", "lstat"):
            patch.setattr(os, name, refuse)
        resolve(XDG_CACHE_HOME=str(tmp_path / "absent"))
    assert not list(tmp_path.iterdir())
