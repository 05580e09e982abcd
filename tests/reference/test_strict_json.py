"""Strict JSON: documents that a lenient parser accepts and this one rejects."""

import json
import random
import subprocess
import sys
from typing import Any

import pytest
from nvfp4_reference import strict_json

from .documents import ORACLE, verdict


def rejection(data: bytes) -> tuple[str, str]:
    return verdict(strict_json.parse, data)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "{",
        "{} {}",
        "{}x",
        '{"a": 1,}',
        "[1,]",
        "{'a': 1}",
        "{a: 1}",
        "// c\n{}",
        "{/* c */}",
        "[NaN]",
        "[Infinity]",
        "[-Infinity]",
        "[01]",
        "[+1]",
        "[1.]",
        "[.5]",
        "[0x10]",
        "[1e]",
        "[--1]",
        '["\t"]',
        '["\\x41"]',
        '["\\u12"]',
        "[\x0b1]",
        "[\u00a01]",
        "[\u0661]",
        "\0" * 64,
        "{}" + "\0" * 64,
        "nul",
        "True",
    ],
)
def test_what_is_no_json(text: str) -> None:
    assert rejection(text.encode()) == ("syntax", "")


@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbf{}",
        '{"a": 1}'.encode("utf-16"),
        '{"a": 1}'.encode("utf-16-le"),
        '{"a": 1}'.encode("utf-16-be"),
        '{"a": 1}'.encode("utf-32"),
        '{"a": 1}'.encode("utf-32-le"),
        '{"a": 1}'.encode("utf-32-be"),
        b'["\xff"]',
        b'["\xc0\xaf"]',
        b'["\xed\xa0\x80"]',
        b'["\xf4\x90\x80\x80"]',
        rb'["\ud800"]',
        rb'["\uDFFF"]',
        rb'["\udc00\ud800"]',
        rb'["\ud800\ud800\udc00"]',
        rb'["\ud83d\u0041"]',
        rb'{"\ud800": 1}',
        rb'["\\\ud800"]',
    ],
)
def test_what_is_no_unicode(data: bytes) -> None:
    assert rejection(data) == ("encoding", "")


def test_what_looks_like_half_a_pair_and_is_none() -> None:
    assert strict_json.parse(rb'["\ud83d\ude00", "\\ud800", "\\\\ud800", "\u0041"]') == [
        "\U0001f600",
        "\\ud800",
        "\\\\ud800",
        "A",
    ]


@pytest.mark.parametrize(
    ("text", "member"),
    [
        ('{"a": 1, "a": 1}', "a"),
        ('{"a": 1, "\\u0061": 2}', "a"),
        ('{"_metadata": {"gpu": 1, "gpu": 2}}', "_metadata.gpu"),
        ('{"plans": [{}, {"k": 1, "m": 2, "k": 3}]}', "plans[1].k"),
        ('{"x": [[{"y": {"z": 1, "z": 1}}]]}', "x[0][0].y.z"),
        ('{"plans": [], "plans": [{"k": 1, "k": 2}]}', "plans"),
    ],
)
def test_a_repeated_member_is_named_by_its_place(text: str, member: str) -> None:
    assert rejection(text.encode()) == ("duplicate-member", member)


def test_a_repetition_before_a_break_is_one_of_the_two() -> None:
    assert rejection(b'[{"a": 1, "a": 1}, ')[0] in {"duplicate-member", "syntax"}


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_the_limit_of_nesting(opening: str, closing: str) -> None:
    def nested(levels: int) -> bytes:
        return (opening * levels + "1" + closing * levels).encode()

    strict_json.parse(nested(128))
    assert rejection(nested(129)) == ("syntax", "")
    assert rejection(nested(100_000)) == ("syntax", "")


@pytest.mark.parametrize(
    "text",
    [
        "[" * 10_000_000,
        "[" * 5_000_000 + "]" * 5_000_000,
        "]" * 10_000_000,
        '{"a":' * 1_000_000,
        '"' + "[" * 10_000_000,
    ],
    ids=["open", "balanced", "close", "objects", "unclosed-string"],
)
def test_millions_of_brackets(text: str) -> None:
    assert rejection(text.encode()) == ("syntax", "")


@pytest.mark.parametrize("filler", ["[" * 500, '\\"[', "\\\\", '\\\\\\"[[', "\\n[", "{" * 129])
def test_brackets_in_strings_do_not_count(filler: str) -> None:
    text = "[" + ", ".join([f'"{filler}"'] * 200) + "]"
    assert strict_json.parse(text.encode()) == json.loads(text)


def test_many_brackets_side_by_side_do_not_count() -> None:
    assert strict_json.parse(b"[" + b"[], {}, " * 10_000 + b"[]]") == [[], {}] * 10_000 + [[]]


@pytest.mark.parametrize(
    "literal", ["1" * 1000, "-" + "9" * 999, "0." + "5" * 998, "1e0" + "0" * 997]
)
def test_the_longest_number(literal: str) -> None:
    for before in (0, 1, 50, 99, 100, 777):
        text = "[" + " " * before + literal
        assert strict_json.parse((text + "]").encode()) == json.loads(text + "]")
        assert rejection((text + "0]").encode()) == ("syntax", "")


@pytest.mark.parametrize("length", [1001, 5000, 1_000_000])
def test_a_number_beyond_the_limit(length: int) -> None:
    for member in ("1" * length, "0." + "1" * length, "1e" + "1" * length):
        assert rejection(b'{"a": ' + member.encode() + b"}") == ("syntax", "")


def test_digits_in_a_string_have_no_limit() -> None:
    assert strict_json.parse(b'["' + b"7" * 9000 + b'", 12]') == ["7" * 9000, 12]


def test_an_interpreter_with_a_lower_limit_of_digits() -> None:
    script = (
        "from nvfp4_reference import strict_json, Rejected\n"
        "try: strict_json.parse(b'[' + b'1' * 900 + b']')\n"
        "except Rejected as rejected: print(rejected.code)"
    )
    command = [sys.executable, "-X", "int_max_str_digits=640", "-c", script]
    assert subprocess.check_output(command, text=True) == "syntax\n"


def test_a_large_exponent_is_json() -> None:
    assert strict_json.parse(b"[1e400, 4e0]") == [float("inf"), 4.0]


def test_every_truncation_of_the_oracle() -> None:
    whole = ORACLE.rstrip()
    for length in range(0, len(whole), 7):
        assert rejection(whole[:length]) == ("syntax", "")
    strict_json.parse(whole)


def test_agrees_with_the_standard_parser_on_random_documents(rng: random.Random) -> None:
    def value(depth: int) -> Any:
        kind = rng.randrange(8 if depth else 6)
        if kind == 6:
            return [value(depth - 1) for _ in range(rng.randrange(5))]
        if kind == 7:
            return {text(): value(depth - 1) for _ in range(rng.randrange(5))}
        return [None, True, rng.randrange(-(10**30), 10**30), rng.random(), text(), 0][kind]

    def text() -> str:
        return "".join(rng.choice('a"\\[]{}\n\u00e9\U0001f600/0') for _ in range(rng.randrange(8)))

    for _ in range(500):
        expected = value(6)
        for ascii_only in (True, False):
            data = json.dumps(expected, ensure_ascii=ascii_only).encode()
            assert strict_json.parse(data) == expected
