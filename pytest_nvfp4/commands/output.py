"""What all commands print: lines that cannot command a terminal."""

import os
import sys
from typing import TextIO

from pytest_nvfp4.text import escaped, terminal_width


def show(line: str, file: TextIO | None = None) -> None:
    """Print a line with each character that cannot be seen escaped."""
    print(line if line.isprintable() else escaped(line), file=file)


def width() -> int | None:
    """The columns of the terminal; None where the output is a file or a pipe."""
    return terminal_width(_is_terminal())


def colour(choice: str) -> bool:
    """Whether to write colours; `choice` is always, never or auto."""
    return choice == "always" or (
        choice == "auto" and _is_terminal() and not os.environ.get("NO_COLOR")
    )


def ascii_only() -> bool:
    """Whether the output cannot hold more than ASCII."""
    encoding = getattr(sys.stdout, "encoding", None) or "ascii"
    return encoding.lower().replace("-", "") != "utf8"


def _is_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()
