"""Reproducers: exact bytes under a safe name that no other case has."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import unhurried

from pytest_nvfp4.results import reproducer


def test_the_files_hold_the_bytes_and_the_requests(tmp_path: Path) -> None:
    document = b'\xef\xbb\xbf{"plans": \xff\x00'
    requests = [{"seq": 1, "op": "describe"}, {"seq": 2, "op": "bucket", "m": 3, "x": "ä\n"}]
    folder = tmp_path / "new" / "folder"
    paths = reproducer.write(folder, "NDOC-12", "bom", document=document, requests=requests)
    assert paths == (folder / "NDOC-12--bom.json", folder / "NDOC-12--bom.jsonl")
    assert paths[0].read_bytes() == document
    lines = paths[1].read_text(encoding="ascii").splitlines()
    assert [json.loads(line) for line in lines] == requests
    assert sorted(folder.iterdir()) == sorted(paths)


def test_only_what_is_given_is_written(tmp_path: Path) -> None:
    assert reproducer.write(tmp_path, "NDOC-1", "a") == ()
    (empty,) = reproducer.write(tmp_path, "NDOC-1", "b", document=b"")
    assert (empty.name, empty.read_bytes()) == ("NDOC-1--b.json", b"")
    (requests,) = reproducer.write(tmp_path, "NDOC-1", "c", requests=[])
    assert (requests.name, requests.read_bytes()) == ("NDOC-1--c.jsonl", b"")


def test_the_same_case_is_replaced_and_another_is_kept(tmp_path: Path) -> None:
    for case, content in (("x", b"1"), ("X", b"2"), ("x ", b"3"), ("x_", b"4"), ("x", b"5")):
        reproducer.write(tmp_path, "NDOC-1", case, document=content)
    assert sorted(path.read_bytes() for path in tmp_path.iterdir()) == [b"2", b"3", b"4", b"5"]


def test_two_transports_have_two_files() -> None:
    names = {reproducer.name("NDOC-1", "x", t) for t in ("", "in process", "JSON lines")}
    assert len(names) == 3
    assert any(name.startswith("NDOC-1--x--JSON_lines-") for name in names)


def test_a_request_that_is_not_json_is_refused_and_nothing_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"[Oo]ut of range|JSON compliant"):
        reproducer.write(tmp_path, "A", "b", document=b"", requests=[{"t": float("nan")}])
    assert list(tmp_path.iterdir()) == []


HOSTILE = ["", ".", "..", "/etc/passwd", "../../x", "a/b", "a\x00b", "-rf", "x" * 5000, "ä" * 200]
HOSTILE += ["con.txt\n", "a--b", "x-" + "0" * 12, "0" * 12, "\udcff", "%s", "a b", "plans[3].k-4.0"]

names = st.sampled_from(HOSTILE) | st.text(st.characters(), max_size=200)


@unhurried
@given(names, names, st.sampled_from(["", "in process", "JSON lines"]))
def test_every_name_is_safe(contract: str, case: str, transport: str) -> None:
    name = reproducer.name(contract, case, transport)
    assert 0 < len(name) <= 120
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
    assert not name.startswith(".")


parts = st.text("aA1-_.~", max_size=6)
cases = st.tuples(st.sampled_from(["NDOC-1", "NDOC-1-", "NDOC-11", ""]) | parts, parts, parts)


@unhurried
@given(st.lists(cases, min_size=2, max_size=20, unique=True))
def test_no_two_cases_share_a_name_even_where_case_is_ignored(
    found: list[tuple[str, str, str]],
) -> None:
    assert len({reproducer.name(*one).lower() for one in found}) == len(found)


def test_a_case_that_looks_like_a_digest_gets_its_own() -> None:
    hashed = reproducer.name("NDOC-1", "a b")
    twin = hashed.removeprefix("NDOC-1--")
    assert reproducer.name("NDOC-1", twin) != hashed


def test_an_excerpt_shows_requests_and_document_and_says_what_it_leaves_out(
    tmp_path: Path,
) -> None:
    path, _ = reproducer.write(tmp_path, "NDOC-1", "a", document=b"\xff{}", requests=[{"seq": 1}])
    assert reproducer.excerpt(path) == (
        'requests, 11 bytes:\n{"seq": 1}\n\ndocument, 3 bytes:\n\\xff{}'
    )
    long = bytes(range(48, 58)) * 500
    (path,) = reproducer.write(tmp_path, "NDOC-1", "b", document=long)
    shown = reproducer.excerpt(path)
    assert "document, 5000 bytes:" in shown
    assert "… 3000 characters are left out here …" in shown
    assert shown.endswith("789")
    assert len(shown) < 2200
    (path,) = reproducer.write(tmp_path, "NDOC-1", "b", requests=[])
    assert reproducer.excerpt(path) == "requests, 0 bytes:\n", "the document is of another run"
    assert reproducer.excerpt(tmp_path / "absent.json") == ""
