"""Read JSON strictly as RFC 8259 defines it.

The parser of the standard library is lenient: it accepts NaN, keeps the last of two equal members,
accepts half a surrogate pair, and raises other exceptions for 100,000 brackets or a number of 5,000
digits. Here each of these is a rejection. To keep the speed of the parser, a check that takes time
runs only where a cheap test of the text requires it.

Additional limits: `DEPTH_LIMIT` levels of nesting and `NUMBER_LIMIT` characters in one number.
"""

import json
import re
from itertools import accumulate

from .errors import Rejected
from .members import shown

DEPTH_LIMIT = 128
NUMBER_LIMIT = 1000


def parse(data: bytes) -> object:
    """The value of one strict JSON document in UTF-8; objects are dictionaries.

    Rejects `encoding`, `syntax` and `duplicate-member`.
    """
    text = _decode(data)
    if _deeper_than_limit(data):
        raise _syntax(f"the document nests deeper than {DEPTH_LIMIT} levels")
    try:
        value = (_MEASURING if _may_hold_long_number(data) else _PLAIN).decode(text)
    except _RepeatedMemberError:
        raise _repeated_member(text) from None
    except ValueError as error:
        if _looks_wide(data):
            raise _encoding("the document looks like UTF-16 or UTF-32") from None
        raise _not_json(error) from None
    if "\\" in text and _holds_lone_surrogate(text):
        raise _encoding("an escape names half of a surrogate pair")
    return value


# Encoding


def _decode(data: bytes) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise _encoding(f"byte {error.start} of the document is not UTF-8") from None
    if text.startswith("\ufeff"):
        raise _encoding("the document begins with a byte order mark")
    return text


_WIDE_PATTERNS = tuple(bytes(map(int, pattern)) for pattern in ("10", "01", "1000", "0001"))


def _looks_wide(data: bytes) -> bool:
    """Whether NUL bytes are where UTF-16 and UTF-32 have them in ASCII text.

    Such a text is also valid UTF-8, so only the parser rejects it. A file of NUL bytes alone is
    not UTF-16: it has blocks that were never written before a crash.
    """
    start = bytes(byte != 0 for byte in data[:8])
    return len(start) >= 4 and any(
        start == (pattern * 4)[: len(start)] for pattern in _WIDE_PATTERNS
    )


_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|(?P<lone>u[dD][89a-fA-F][0-9a-fA-F]{2})"
    r"|.)"
)
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def _holds_lone_surrogate(text: str) -> bool:
    """Whether valid JSON `text` has an escape for half a surrogate pair.

    In valid JSON, backslashes occur only in strings, so a scan from escape to escape is exact.
    """
    return _SURROGATE.search(text) is not None and any(
        match.lastgroup for match in _ESCAPE.finditer(text)
    )


# Depth

_NOT_STRUCTURE = bytes(set(range(256)) - set(b'"[]{}'))
_STEPS = bytes(1 if byte in b"[{" else 255 if byte in b"]}" else 0 for byte in range(256))


def _deeper_than_limit(data: bytes) -> bool:
    """Whether `data` nests deeper than the limit; found before the parser recurses.

    A document with fewer opening brackets than the limit does not, which covers ordinary documents.
    For others, strings are removed, since their brackets do not count. Then the brackets are added,
    +1 for an opening and -1 (255 as a signed byte) for a closing one, up to the first sum above the
    limit. For a text that is not JSON, the result is right up to the first error.
    """
    if data.count(b"[") + data.count(b"{") <= DEPTH_LIMIT:
        return False
    if b"\\" in data:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    # Two adjacent quotation marks are an empty string, or the end of one string and the start of
    # the next. Removing them does not change what is inside a string, and leaves little to split.
    quoted = data.translate(None, _NOT_STRUCTURE).replace(b'""', b"")
    brackets = b"".join(quoted.split(b'"')[::2])
    depths = accumulate(memoryview(brackets.translate(_STEPS)).cast("b"))
    return any(map(DEPTH_LIMIT.__lt__, depths))


# Members and numbers


class _RepeatedMemberError(Exception):
    """An object has a member twice; a second pass finds its path."""


def _distinct(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _RepeatedMemberError
    return members


class _Pairs(list[tuple[str, object]]):
    """The members of a JSON object, with repetitions."""


def _repeated_member(text: str) -> Rejected:
    try:
        path = _first_repetition(_PAIRS.decode(text), "")
    except ValueError as error:  # after the repetition, the text is not valid JSON
        return _not_json(error)
    assert path is not None
    return Rejected(
        "duplicate-member",
        path,
        f"{shown(path)} is in one object twice, so its value is ambiguous; "
        "write the document again.",
    )


def _first_repetition(value: object, path: str) -> str | None:
    inner: list[tuple[str, object]]
    if isinstance(value, _Pairs):
        inner = [(f"{path}.{name}" if path else name, item) for name, item in value]
    elif isinstance(value, list):
        inner = [(f"{path}[{index}]", item) for index, item in enumerate(value)]
    else:
        return None
    seen = set()
    for place, item in inner:
        if place in seen:
            return place
        seen.add(place)
        found = _first_repetition(item, place)
        if found is not None:
            return found
    return None


_DENSITY = 10
_STRIDE = NUMBER_LIMIT // _DENSITY
_IN_NUMBER = bytes(1 if byte in b"0123456789+-.eE" else 0 for byte in range(256))
_LONG_RUN = b"\1" * _DENSITY


def _may_hold_long_number(data: bytes) -> bool:
    """Whether a number in `data` may be longer than the limit.

    Such a number covers ten consecutive samples where every hundredth byte is sampled, so only
    samples are read. A string of digits can cover them as well; then the parser measures each
    number, at the cost of a call.
    """
    return _LONG_RUN in data[::_STRIDE].translate(_IN_NUMBER)


def _integer(literal: str) -> int:
    return int(_measured(literal))


def _float(literal: str) -> float:
    return float(_measured(literal))


def _measured(literal: str) -> str:
    if len(literal) > NUMBER_LIMIT:
        raise _syntax(
            f"a number is {len(literal)} characters long, and the limit is {NUMBER_LIMIT}"
        )
    return literal


def _constant(name: str) -> float:
    raise _syntax(f"{name} is not a JSON value")


_PLAIN = json.JSONDecoder(object_pairs_hook=_distinct, parse_constant=_constant)
_MEASURING = json.JSONDecoder(
    object_pairs_hook=_distinct,
    parse_constant=_constant,
    parse_int=_integer,
    parse_float=_float,
)
_PAIRS = json.JSONDecoder(
    object_pairs_hook=_Pairs, parse_constant=_constant, parse_int=_integer, parse_float=_float
)


def _not_json(error: ValueError) -> Rejected:
    if isinstance(error, json.JSONDecodeError):
        place = f"line {error.lineno} column {error.colno}"
        return _syntax(f"the document is not JSON at {place}: {error.msg}")
    # The interpreter's own limit of digits can be set below `NUMBER_LIMIT`.
    return _syntax("a number is longer than the limit of this interpreter")


def _syntax(what: str) -> Rejected:
    return Rejected("syntax", "", f"{what}; restore the file or remove it and tune again.")


def _encoding(what: str) -> Rejected:
    return Rejected(
        "encoding", "", f"{what}; write the document in UTF-8 without a byte order mark."
    )
