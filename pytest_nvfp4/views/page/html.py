"""Building HTML so that no text can become markup by accident.

`tag` escapes every child and every attribute value that is not `Html` already. Characters that
cannot be seen, such as marks that turn the reading direction, are shown as their escapes.
"""

import html
import re
from collections.abc import Iterable
from typing import TypeAlias
from urllib.parse import urlsplit

from pytest_nvfp4.text import escaped

_VOID = frozenset({"br", "col", "input", "link", "meta"})

LONGEST = 2000
"""Characters of one text from a report; more is said to be there."""


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


Child: TypeAlias = "str | int | Iterable[Child] | None"


def tag(name: str, /, *children: Child, **attributes: str | int | bool | None) -> Html:
    """One element. A trailing underscore of an attribute's name falls away, others become hyphens;
    None and False leave an attribute out, True gives it no value.
    """
    start = "".join([f"<{name}", *(_attribute(n, v) for n, v in attributes.items()), ">"])
    if name in _VOID:
        return Html(start)
    return Html(f"{start}{join(*children)}</{name}>")


def join(*children: Child) -> Html:
    """Children one after the other, each escaped unless it is HTML."""
    return Html("".join(map(_child, children)))


def foreign(text: str, most: int = LONGEST) -> Html:
    """A text of unknown origin within a sentence: cut, and with a reading direction of its own."""
    return tag("bdi", cut(text, most))


def cut(text: str, most: int = LONGEST) -> str:
    """The beginning of a text, and how much of it is left out."""
    if len(text) <= most:
        return text
    return f"{text[:most]} … and {len(text) - most:,} more characters"


def prose(text: str) -> list[Child]:
    """A contract's text, in which backticks mark code."""
    parts = cut(text).split("`")
    if len(parts) % 2 == 0:
        return ["`".join(parts)]
    return [tag("code", part) if index % 2 else part for index, part in enumerate(parts)]


def link(text: str, address: str) -> Html:
    """A link where the address is http or https, else the text alone."""
    try:
        web = urlsplit(address).scheme in ("http", "https") and bool(urlsplit(address).hostname)
    except ValueError:
        web = False
    if not web or len(address) > LONGEST or re.search(r"[\s\x00-\x20\x7f]", address):
        return foreign(text)
    return tag("a", foreign(text), href=address, rel="noopener noreferrer nofollow external")


def _child(child: Child) -> str:
    if isinstance(child, Html):
        return child
    if child is None:
        return ""
    if isinstance(child, str | int):
        return _escape(str(child))
    return "".join(map(_child, child))


def _attribute(name: str, value: str | int | bool | None) -> str:
    name = name.removesuffix("_").replace("_", "-")
    if value is None or value is False:
        return ""
    return f" {name}" if value is True else f' {name}="{_escape(str(value))}"'


def _escape(text: str) -> str:
    return html.escape(escaped(text, keep="\n"))
