"""Byte-level edits of a document: every truncation, and substitutions of single bytes."""

import random
import re
from collections.abc import Iterator
from typing import NamedTuple

# A JSON string, or one of the characters that give a JSON text its structure.
_STRING_OR_STRUCTURE = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]:,]', re.DOTALL)


class Substitution(NamedTuple):
    """One byte of a document replaced by another value."""

    offset: int
    value: int

    def apply(self, document: bytes) -> bytes:
        """The document with this one byte replaced."""
        return document[: self.offset] + bytes((self.value,)) + document[self.offset + 1 :]


def truncations(document: bytes) -> Iterator[bytes]:
    """Every proper prefix, from the empty file to the one that lacks the last byte."""
    return (document[:length] for length in range(len(document)))


def structural_offsets(document: bytes) -> list[int]:
    """The offsets of the six structural characters that stand outside strings."""
    return [
        match.start()
        for match in _STRING_OR_STRUCTURE.finditer(document)
        if match.end() - match.start() == 1
    ]


def all_substitutions(document: bytes, offset: int) -> Iterator[Substitution]:
    """The 255 ways to replace the byte at an offset by another one."""
    old = document[offset]
    return (Substitution(offset, value) for value in range(256) if value != old)


def sampled_substitutions(
    document: bytes, count: int, rng: random.Random
) -> Iterator[Substitution]:
    """`count` substitutions, uniform over offsets and over the 255 other values."""
    for _ in range(count):
        offset = rng.randrange(len(document))
        yield Substitution(offset, (document[offset] + rng.randrange(1, 256)) % 256)
