"""Text in a terminal: how wide it is, how to cut and wrap it, and how to make it harmless.

Messages come from implementations under test, so they may hold anything: line feeds, escape
sequences, text that runs from right to left, characters that take two columns or none.
"""

import shutil
import unicodedata
from collections.abc import Iterator

# Control, format, surrogate, private and unassigned characters, line and paragraph separators.
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def visible(text: str, *, ascii_only: bool = False) -> str:
    """The text on one line with nothing hidden in it.

    White space becomes single spaces, a character that cannot be seen its escape, as in `\\x1b`;
    with `ascii_only` every character outside ASCII does.
    """
    return escaped(" ".join(text.split()), ascii_only=ascii_only)


def escaped(text: str, *, keep: str = "", ascii_only: bool = False) -> str:
    """The text with its white space as it is, and each character that cannot be seen escaped.

    `keep` holds the hidden characters, such as a line feed, that stay.
    """
    return "".join(
        char.encode("unicode_escape").decode("ascii")
        if (unicodedata.category(char) in _HIDDEN and char not in keep)
        or (ascii_only and not char.isascii())
        else char
        for char in text
    )


def counted(number: int, noun: str, nouns: str = "") -> str:
    """A number and its noun, `1 case` or `2,000 cases`; `nouns` is a plural other than with "s"."""
    return f"{number:,} {noun if number == 1 else nouns or noun + 's'}"


def terminal_width(is_terminal: bool) -> int | None:
    """The columns of the terminal; None for an output that is none, such as a log: never cut it."""
    return shutil.get_terminal_size().columns if is_terminal else None


def columns(text: str) -> int:
    """How many terminal columns visible text takes: 2 for a wide character, 0 for a combining."""
    from wcwidth import wcswidth

    return wcswidth(text)


def clip(text: str, width: int, ellipsis: str = "…") -> str:
    """The text, cut to at most `width` columns; a cut shows as the ellipsis."""
    if columns(text) <= width:
        return text
    return _beginning(text, width - columns(ellipsis)).rstrip() + ellipsis


def pad(text: str, width: int) -> str:
    """The text with spaces after it up to `width` columns."""
    return text + " " * (width - columns(text))


def wrap(text: str, width: int) -> Iterator[str]:
    """The text in lines of at most `width` columns (at least 2), broken at spaces where possible.

    Text without words gives no line. (wcwidth.wrap takes seconds for a word of 16,000 characters.)
    """
    line = ""
    for word in text.split():
        rest = word
        if line and columns(line) + 1 + columns(rest) <= width:
            line += " " + rest
            continue
        if line:
            yield line
        while columns(rest) > width:
            part = _beginning(rest, width) or rest[0]
            yield part
            rest = rest[len(part) :]
        line = rest
    if line:
        yield line


def _beginning(text: str, width: int) -> str:
    """The longest beginning of at most `width` columns, combining marks included."""
    import wcwidth

    return wcwidth.clip(text, 0, width, fillchar="")
