"""Text as HTML: escaped, cut to a length, and with nothing hidden in it."""

import re
from urllib.parse import urlsplit

from markupsafe import Markup, escape

from pytest_nvfp4.text import counted, escaped

_LONGEST = 2000
"""Characters of one text from a report; of a longer one, the page says how much is left out."""


def shown(value: object) -> Markup:
    """A value as HTML: characters that cannot be seen, such as bidirectional marks, are escaped."""
    return escape(value if hasattr(value, "__html__") else escaped(str(value), keep="\n"))


def cut(text: str, most: int = _LONGEST) -> str:
    """The beginning of a text, and how much of it is left out."""
    if len(text) <= most:
        return text
    return f"{text[:most]} … and {counted(len(text) - most, 'more character')}"


def foreign(text: str, most: int = _LONGEST) -> Markup:
    """A text of unknown origin within a sentence: cut, and with a reading direction of its own."""
    return Markup("<bdi>{}</bdi>").format(shown(cut(text, most)))


def prose(text: str) -> Markup:
    """A contract's text, in which backticks mark code."""
    parts = [shown(part) for part in cut(text).split("`")]
    if len(parts) % 2 == 0:
        return Markup("`").join(parts)
    parts[1::2] = [Markup("<code>{}</code>").format(part) for part in parts[1::2]]
    return Markup("").join(parts)


def link(text: str, address: str) -> Markup:
    """A link where the address is http or https, else the text alone."""
    try:
        web = urlsplit(address).scheme in ("http", "https") and bool(urlsplit(address).hostname)
    except ValueError:
        web = False
    if not web or len(address) > _LONGEST or re.search(r"[\s\x00-\x20\x7f]", address):
        return foreign(text)
    start = Markup('<a href="{}" rel="noopener noreferrer nofollow external">').format(
        shown(address)
    )
    return start + foreign(text) + Markup("</a>")
