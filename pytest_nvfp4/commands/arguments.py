"""Arguments that several commands take."""

import argparse

IMPL = "reference, package.module:attribute, a module, or exec:COMMAND"


def seconds(text: str) -> float:
    """A number of seconds above 0 and up to a day."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number <= 86400:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds; use 1 to 86400")
    return number


def add_timeout(parser: argparse.ArgumentParser, default: float) -> None:
    """Add ``--timeout S``."""
    parser.add_argument(
        "--timeout",
        type=seconds,
        default=default,
        metavar="S",
        help=f"seconds that the implementation may take for one answer ({default:g})",
    )


def add_all(parser: argparse.ArgumentParser, what: str) -> None:
    """Add ``--all``, which shows all of what is shortened otherwise."""
    parser.add_argument("--all", action="store_true", help=f"show {what}")
