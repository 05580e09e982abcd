"""Read JSON as RFC 8259 defines it and not one step beyond.

The standard parser is fast and lenient: it takes NaN, keeps the last of two equal members, accepts
half a surrogate pair, and answers a hundred thousand brackets or a five-thousand-digit number with
exceptions of other kinds. Here each of these is a rejection, at the parser's own speed: whatever
costs time is looked at only where the text gives cause.

Our own limits: `DEPTH_LIMIT` levels of nesting and `NUMBER_LIMIT` characters in one number.
"""

import json
import re
from itertools import accumulate

from .errors import Rejected
from .members import shown

DEPTH_LIMIT = 128
NUMBER_LIMIT = 1000


def parse(data: bytes) -> object:
    """The value of one strict UTF-8 JSON document; objects are plain dictionaries.

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
        raise _no_json(error) from None
    if "\\" in text and _holds_lone_surrogate(text):
        raise _encoding("an escape names half of a surrogate pair")
    return value


# Encoding


def _decode(data: bytes) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise _encoding(f"byte {error.start} of the document is no UTF-8") from None
    if text.startswith("\ufeff"):
        raise _encoding("the document begins with a byte order mark")
    return text


_WIDE_PATTERNS = tuple(bytes(map(int, pattern)) for pattern in ("10", "01", "1000", "0001"))


def _looks_wide(data: bytes) -> bool:
    """Whether NUL bytes stand where UTF-16 and UTF-32 have them in ASCII text.

    Such a text is valid UTF-8 as well, so only the parser notices. A file full of NUL bytes is
    something else: blocks that a crash never wrote.
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
    """Whether valid JSON `text` escapes half a surrogate pair.

    Backslashes stand only inside strings there, so going from escape to escape keeps in step.
    """
    return _SURROGATE.search(text) is not None and any(
        match.lastgroup for match in _ESCAPE.finditer(text)
    )


# Depth

_NOT_STRUCTURE = bytes(set(range(256)) - set(b'"[]{}'))
_STEPS = bytes(1 if byte in b"[{" else 255 if byte in b"]}" else 0 for byte in range(256))


def _deeper_than_limit(data: bytes) -> bool:
    """Whether `data` nests deeper than the limit, found before the parser can recurse.

    Fewer opening brackets than the limit cannot; this settles every ordinary document. Otherwise
    strings are dropped, since their brackets do not count, and the rest is added up: +1 for an
    opening bracket, -1 (255 as a signed byte) for a closing one, up to the first sum that is too
    high. On a text that is no JSON the answer is right up to the place where it stops to be.
    """
    if data.count(b"[") + data.count(b"{") <= DEPTH_LIMIT:
        return False
    if b"\\" in data:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    # Two quotation marks side by side are an empty string or the seam of two strings. Dropping
    # them leaves inside inside and outside outside, and nearly nothing to split.
    quoted = data.translate(None, _NOT_STRUCTURE).replace(b'""', b"")
    brackets = b"".join(quoted.split(b'"')[::2])
    depths = accumulate(memoryview(brackets.translate(_STEPS)).cast("b"))
    return any(map(DEPTH_LIMIT.__lt__, depths))


# Members and numbers


class _RepeatedMemberError(Exception):
    """An object names a member twice; where it is, only a second look can say."""


def _distinct(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _RepeatedMemberError
    return members


class _Pairs(list[tuple[str, object]]):
    """A JSON object as it is written, repetitions included."""


def _repeated_member(text: str) -> Rejected:
    try:
        path = _first_repetition(_PAIRS.decode(text), "")
    except ValueError as error:  # the text is broken as well, after the repetition
        return _no_json(error)
    assert path is not None
    return Rejected(
        "duplicate-member",
        path,
        f"{shown(path)} is there twice in one object, and no reader can know which is meant; "
        "let one writer write the document again.",
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
    """Whether a number in `data` could be longer than the limit.

    Such a number covers ten neighbours among every hundredth byte, so only these are looked at.
    A string of digits can do so too; then the parser measures each number, which costs a call.
    """
    return _LONG_RUN in data[::_STRIDE].translate(_IN_NUMBER)


def _integer(literal: str) -> int:
    return int(_measured(literal))


def _float(literal: str) -> float:
    return float(_measured(literal))


def _measured(literal: str) -> str:
    if len(literal) > NUMBER_LIMIT:
        raise _syntax(f"a number is {len(literal)} characters long; {NUMBER_LIMIT} are read")
    return literal


def _constant(name: str) -> float:
    raise _syntax(f"{name} is no JSON value")


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


def _no_json(error: ValueError) -> Rejected:
    if isinstance(error, json.JSONDecodeError):
        place = f"line {error.lineno} column {error.colno}"
        return _syntax(f"the document is no JSON at {place}: {error.msg}")
    # An interpreter can be told to convert fewer digits than our limit allows.
    return _syntax("a number is longer than this interpreter is set to convert")


def _syntax(what: str) -> Rejected:
    return Rejected("syntax", "", f"{what}; restore the file or let warm-up write a new one.")


def _encoding(what: str) -> Rejected:
    return Rejected("encoding", "", f"{what}; write the document in UTF-8 without a mark.")
