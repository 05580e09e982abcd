"""Terminal text: its width is respected, nothing is lost, nothing hidden gets through."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import unhurried

from pytest_nvfp4 import text


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain", "plain"),
        ("two\n lines\tand\r\nmore ", "two lines and more"),
        ("\x1b[31mred\x07", r"\x1b[31mred\x07"),
        ("left\u202eright", r"left\u202eright"),
        ("odd \udcff path", r"odd \udcff path"),
        ("größe 漢", "größe 漢"),
    ],
)
def test_hidden_characters_become_visible(raw: str, shown: str) -> None:
    assert text.visible(raw) == shown


def test_ascii_only_escapes_the_rest() -> None:
    assert text.visible("größe 漢 😀", ascii_only=True) == r"gr\xf6\xdfe \u6f22 \U0001f600"


@unhurried
@given(st.text(), st.booleans())
def test_visible_text_is_one_line_and_stays_as_it_is(raw: str, ascii_only: bool) -> None:
    shown = text.visible(raw, ascii_only=ascii_only)
    assert all(unicodedata.category(char)[0] not in "C" for char in shown)
    assert shown.splitlines() in ([], [shown])
    assert text.visible(shown, ascii_only=ascii_only) == shown
    assert shown.isascii() or not ascii_only


def test_columns_of_wide_and_combining_characters() -> None:
    assert text.columns("abc") == 3
    assert text.columns("漢字") == 4
    assert text.columns("e\u0301") == 1


@unhurried
@given(st.text().map(text.visible), st.integers(3, 30), st.sampled_from(["…", "..."]))
def test_a_cut_text_fits_and_shows_that_it_was_cut(raw: str, width: int, ellipsis: str) -> None:
    cut = text.clip(raw, width, ellipsis)
    assert text.columns(cut) <= width
    assert cut == raw or cut.endswith(ellipsis)
    assert (cut == raw) or text.columns(raw) > width
    assert text.columns(text.pad(cut, width)) == width


@unhurried
@given(st.text().map(text.visible), st.integers(2, 30))
def test_wrapped_text_fits_and_loses_nothing(raw: str, width: int) -> None:
    lines = list(text.wrap(raw, width))
    assert all(0 < text.columns(line) <= width or unicodedata.combining(line[0]) for line in lines)
    assert "".join(lines).replace(" ", "") == "".join(raw.split())


def test_wrapping_breaks_at_spaces_and_long_words_where_it_must() -> None:
    assert list(text.wrap("one two three", 7)) == ["one two", "three"]
    assert list(text.wrap("ab 漢字漢字 c", 5)) == ["ab", "漢字", "漢字", "c"]
    assert list(text.wrap("", 5)) == []
