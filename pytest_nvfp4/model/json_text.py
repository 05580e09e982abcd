"""One strict JSON text (RFC 8259), read without loss: member order, repeats and number spelling.

The usual parsers keep the last of two equal members, turn 4.0 into a number that equals 4, and let
NaN pass. This reader keeps what was written, so that every rule about it can be decided later. It
uses no recursion; nesting is bounded by a limit, not by the interpreter's stack.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

MAX_DEPTH = 128
MAX_NUMBER = 1000

Value: TypeAlias = "Object | list[Value] | str | Number | bool | None"


class NotJsonError(Exception):
    """The bytes are not one JSON text; `codes` says in which way."""

    def __init__(self, codes: tuple[str, ...], message: str):
        super().__init__(message)
        self.codes = codes


class Number(float):
    """A JSON number by its spelling; it is no `str`, so that no string rule can take it for one."""

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> "Number":
        self = super().__new__(cls, 0.0)
        self.text = text
        return self


@dataclass(frozen=True, slots=True)
class Object:
    """A JSON object as its members in file order, repeats included."""

    members: list[tuple[str, Value]]

    def get(self, name: str) -> list[Value]:
        """All values that are given for a member; empty where it is absent."""
        return [value for key, value in self.members if key == name]


_TOKEN = re.compile(
    r"""[ \t\n\r]*(?:
        ([{}\[\]:,])
      | "((?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+)"
      | (-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)
      | (true|false|null)
    )""",
    re.VERBOSE,
)
_BLANK = re.compile(r"[ \t\n\r]*")
_ESCAPE = re.compile(r'\\(?:u([0-9a-fA-F]{4})|(["\\/bfnrt]))')
_SHORT = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "/": "/"}
_LITERALS: dict[str, bool | None] = {"true": True, "false": False, "null": None}

_PUNCTUATION, _STRING, _NUMBER, _LITERAL = range(1, 5)  # the groups of _TOKEN

# What may come next, while reading.
_VALUE, _VALUE_OR_END, _NAME, _NAME_OR_END, _COLON, _COMMA_OR_END, _DONE = range(7)
_EXPECTED = (
    "a value",
    "a value or ']'",
    "a member name",
    "a member name or '}'",
    "':'",
    "',' or the end of the container",
    "nothing more",
)


def parse(data: bytes) -> Value:
    """Read exactly one JSON text; raise NotJsonError with the line and column of the fault."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise NotJsonError(
            ("encoding",), f"byte {error.start} is not UTF-8; write the file as UTF-8"
        ) from None
    if text.startswith("\ufeff"):
        raise NotJsonError(
            ("encoding", "syntax"), "the file starts with a byte order mark; write it without"
        )
    if "\0" in text[:4]:
        raise NotJsonError(
            ("syntax", "encoding"), "the file starts with NUL bytes, as if it were UTF-16 or lost"
        )
    return _Reader(text).read()


class _Reader:
    """A state machine over tokens, with the open containers on a stack of its own."""

    def __init__(self, text: str):
        self.text = text
        self.state = _VALUE
        # Open containers: an array's values, or an object's members with the pending name.
        self.contents: list[list[Any]] = []
        self.names: list[str | None] = []

    def read(self) -> Value:
        text, match = self.text, _TOKEN.match
        position = 0
        while token := match(text, position):
            kind = token.lastindex
            assert kind is not None
            piece, start = token[kind], token.start(kind)
            position = token.end()
            value: Value
            if kind == _PUNCTUATION:
                if piece in ",:":
                    self.separate(piece, start)
                    continue
                if piece in "{[":
                    self.open(piece, start)
                    continue
                value = self.close(piece, start)
            elif kind == _STRING and self.state in (_NAME, _NAME_OR_END):
                self.names[-1] = self.unescape(piece)
                self.state = _COLON
                continue
            else:
                if self.state not in (_VALUE, _VALUE_OR_END):
                    self.unexpected(start)
                value = self.scalar(kind, piece, start)
            if not self.contents:
                self.state = _DONE
                self.end(position)
                return value
            name = self.names[-1]
            self.contents[-1].append(value if name is None else (name, value))
            self.state = _COMMA_OR_END
        self.end(position)
        raise AssertionError("unreachable: an unfinished text has been refused")

    def separate(self, piece: str, start: int) -> None:
        if self.state != (_COMMA_OR_END if piece == "," else _COLON):
            self.unexpected(start)
        self.state = _NAME if piece == "," and self.names[-1] is not None else _VALUE

    def open(self, piece: str, start: int) -> None:
        if self.state not in (_VALUE, _VALUE_OR_END):
            self.unexpected(start)
        if len(self.contents) == MAX_DEPTH:
            self.fail(start, f"nested deeper than {MAX_DEPTH} levels")
        self.contents.append([])
        self.names.append("" if piece == "{" else None)
        self.state = _NAME_OR_END if piece == "{" else _VALUE_OR_END

    def close(self, piece: str, start: int) -> Value:
        is_object = bool(self.names) and self.names[-1] is not None
        empty = _NAME_OR_END if is_object else _VALUE_OR_END
        if (
            not self.names
            or piece != ("}" if is_object else "]")
            or self.state not in (_COMMA_OR_END, empty)
        ):
            self.unexpected(start)
        self.names.pop()
        content = self.contents.pop()
        return Object(content) if is_object else content

    def scalar(self, kind: int, piece: str, start: int) -> Value:
        if kind == _STRING:
            return self.unescape(piece)
        if kind == _LITERAL:
            return _LITERALS[piece]
        if len(piece) > MAX_NUMBER:
            self.fail(start, f"a number of {len(piece)} characters")
        return Number(piece)

    def unescape(self, piece: str) -> str:
        if "\\" not in piece:
            return piece
        plain = _ESCAPE.sub(lambda m: chr(int(m[1], 16)) if m[1] else _SHORT[m[2]], piece)
        # Two escapes that make a pair become one character; half a pair stays and is found later.
        return plain.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")

    def end(self, position: int) -> None:
        """Insist that the text is over, and that it may be."""
        blank = _BLANK.match(self.text, position)
        position = blank.end() if blank else position
        if position != len(self.text) or self.state != _DONE:
            self.unexpected(position)

    def unexpected(self, position: int) -> NoReturn:
        found = repr(self.text[position]) if position < len(self.text) else "the end of the file"
        self.fail(position, f"found {found} where {_EXPECTED[self.state]} belongs")

    def fail(self, position: int, message: str) -> NoReturn:
        line = self.text.count("\n", 0, position) + 1
        column = position - self.text.rfind("\n", 0, position)
        raise NotJsonError(("syntax",), f"line {line}, column {column}: {message}")


def repeated_members(value: Value, path: str = "") -> Iterator[str]:
    """Yield the path of every member that an object, at any depth, gives more than once."""
    if isinstance(value, Object):
        seen: set[str] = set()
        for name, child in value.members:
            where = f"{path}.{name}" if path else name
            if name in seen:
                yield where
            seen.add(name)
            if isinstance(child, Object | list):
                yield from repeated_members(child, where)
    elif isinstance(value, list):
        for index, child in enumerate(value):
            if isinstance(child, Object | list):
                yield from repeated_members(child, f"{path}[{index}]")


def half_pairs(value: Value) -> int:
    """How many strings, member names included, hold half of a surrogate pair."""
    if isinstance(value, str):
        return int(any("\ud800" <= character <= "\udfff" for character in value))
    if isinstance(value, Object):
        return sum(half_pairs(name) + half_pairs(child) for name, child in value.members)
    return sum(map(half_pairs, value)) if isinstance(value, list) else 0
