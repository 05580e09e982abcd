"""How the command line of a fresh process comes about."""

import pytest

from pytest_nvfp4.markers.fresh_process.launch import interpreter_flags


@pytest.mark.parametrize(
    ("words", "flags"),
    [
        (["python", "-m", "pytest", "-x"], []),
        (["python", "/usr/bin/pytest", "-x"], []),
        (["python", "-W", "error", "-X", "dev", "-m", "pytest"], ["-W", "error", "-X", "dev"]),
        (["python", "-Werror", "-Xdev", "-mpytest"], ["-Werror", "-Xdev"]),
        (["python", "-u", "-c", "import pytest"], ["-u"]),
        (["python", "-Bm", "pytest", "-m", "slow"], ["-B"]),
        (["python", "-uWerror", "x.py"], ["-uWerror"]),
        (["python", "-uW", "error", "x.py"], ["-uW", "error"]),
        (["python", "--check-hash-based-pycs", "never", "-m", "pytest"], ["--check-hash-based-pycs", "never"]),
        (["python", "-i", "-Bi", "-im", "pytest", "-i"], ["-B"]),
        (["python", "-iXdev", "-Ic", "import pytest"], ["-Xdev", "-I"]),
        (["python", "-"], []),
        (["python"], []),
    ],
    ids=" ".join,
)  # fmt: skip
def test_flags_of_the_interpreter(words, flags):
    assert interpreter_flags(words) == flags
