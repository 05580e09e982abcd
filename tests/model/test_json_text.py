"""The model's JSON reader: strict, lossless, and of one mind with the standard one on good text."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_nvfp4.model.json_text import (
    MAX_DEPTH,
    MAX_NUMBER,
    NotJsonError,
    Number,
    Object,
    half_pairs,
    parse,
    repeated_members,
)

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda children: st.lists(children) | st.dictionaries(st.text(), children),
    max_leaves=20,
)


def plain(value):
    """The value as the standard reader would give it."""
    if isinstance(value, Object):
        return {name: plain(child) for name, child in value.members}
    if isinstance(value, list):
        return [plain(child) for child in value]
    if isinstance(value, Number):
        return json.loads(value.text)
    return value


@given(VALUES, st.booleans(), st.sampled_from([None, 1, "\t"]))
def test_good_text_is_read_as_by_the_standard_reader(value, ascii_only, indent):
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    try:
        data = text.encode()
    except UnicodeEncodeError:
        return
    if "\\ud" in text and "\\ud83d" not in text:
        return
    assert plain(parse(data)) == json.loads(text)


@given(st.binary(max_size=40) | st.text(max_size=40).map(str.encode))
def test_anything_accepted_is_accepted_by_the_standard_reader(data):
    try:
        value = parse(data)
    except NotJsonError:
        return
    assert plain(value) == json.loads(data)


@given(VALUES, st.data())
def test_damaged_text_is_never_accepted_where_the_standard_reader_refuses(value, data):
    text = json.dumps(value).encode()
    at = data.draw(st.integers(0, len(text) - 1))
    damaged = text[:at] + bytes([data.draw(st.integers(0, 255))]) + text[at + 1 :]
    try:
        json.loads(damaged.decode())
        refused = False
    except ValueError:
        refused = True
    if refused:
        with pytest.raises(NotJsonError):
            parse(damaged)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"a": 1,}', "line 1, column 9: found '}' where a member name belongs"),
        ("[1,\n 2,\n]", "line 3, column 1: found ']' where a value belongs"),
        ('{"a" 1}', "line 1, column 6: found '1' where ':' belongs"),
        ('{"a": 1', "the end of the file where ',' or the end of the container belongs"),
        ("{1: 2}", "found '1' where a member name or '}' belongs"),
        ('{"a": 1}}', "found '}' where nothing more belongs"),
        ("", "the end of the file where a value belongs"),
        ("[}", "found '}' where a value or ']' belongs"),
        ("nul", "found 'n' where a value belongs"),
        ("]", "found ']' where a value belongs"),
        (",", "found ',' where a value belongs"),
    ],
)
def test_message_says_where_and_what(text, place):
    with pytest.raises(NotJsonError) as caught:
        parse(text.encode())
    assert place in str(caught.value)


@pytest.mark.parametrize(
    ("data", "codes"),
    [
        (b"\xff", ("encoding",)),
        (b"\xef\xbb\xbf{}", ("encoding", "syntax")),
        ("{}".encode("utf-16"), ("encoding",)),
        ("{}".encode("utf-16-le"), ("syntax", "encoding")),
        (b"{} {}", ("syntax",)),
        (b"NaN", ("syntax",)),
        (b"\0\0\0\0\0", ("syntax", "encoding")),
    ],
)
def test_codes(data, codes):
    with pytest.raises(NotJsonError) as caught:
        parse(data)
    assert caught.value.codes == codes


def test_limits_are_exact():
    nested = b"[" * MAX_DEPTH + b"]" * MAX_DEPTH
    assert isinstance(parse(nested), list)
    assert parse(b'"' + b"[" * 500 + b'"') == "[" * 500, "brackets in strings do not count"
    with pytest.raises(NotJsonError, match="nested deeper"):
        parse(b"[" + nested + b"]")
    assert isinstance(parse(b"1" * MAX_NUMBER), Number)
    with pytest.raises(NotJsonError, match="a number of 1001 characters"):
        parse(b"1" * (MAX_NUMBER + 1))


def test_half_pairs_are_counted():
    assert half_pairs(parse(b'["\\ud800", "\\udc00\\ud800", {"\\udfff": "\\ud83d\\ude00"}]')) == 3


def test_surrogate_pair_is_one_character():
    assert parse(b'"\\ud83d\\ude00"') == "\U0001f600"


def test_spelling_order_and_repeats_are_kept():
    value = parse(b'{"b": 4.0, "a": 4, "b": true}')
    assert isinstance(value, Object)
    assert [name for name, _ in value.members] == ["b", "a", "b"]
    assert [v.text for v in value.get("b")[:1]] == ["4.0"]
    assert list(repeated_members(value)) == ["b"]


def test_repeated_members_are_found_at_any_depth():
    value = parse(b'{"a": [{"b": {"c": 1, "c": 2}}, {"d": 1, "d": 1}], "a": 3}')
    assert sorted(repeated_members(value)) == ["a", "a[0].b.c", "a[1].d"]
