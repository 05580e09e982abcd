"""The page as text: well formed, self-contained, escaped, and complete."""

import base64
import hashlib
import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import jinja2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup
from samples import ALL, SPEC, case, hostile, outcome, report_of, unhurried

from pytest_nvfp4 import oracle
from pytest_nvfp4.plans import PlanKey, PlanMap
from pytest_nvfp4.results.verdicts import IN_PROCESS, JSON_LINES, CaseResult, Verdict, aggregate
from pytest_nvfp4.views import comparison as compare
from pytest_nvfp4.views import page
from pytest_nvfp4.views.page import NamedMap, document
from pytest_nvfp4.views.page.markup import cut, foreign, link, prose, shown

V = Verdict
VOID = {"br", "col", "input", "link", "meta"}
FAULTY = {"MERG-1": V.FAILED, "MERG-2": V.KNOWN_DEVIATION, "NDOC-6": V.SKIPPED, "PUBL-5": V.ERROR}


class Outline(HTMLParser):
    """The elements of a page as (name, attributes, depth), and its text; unbalanced is an error."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, name: str, attributes: list[tuple[str, str | None]]) -> None:
        assert len(dict(attributes)) == len(attributes), attributes
        self.elements.append((name, dict(attributes)))
        if name in ("td", "th", "li", "p", "dt", "dd", "br"):
            self.texts.append(" ")
        if name not in VOID:
            self._open.append(name)

    def handle_startendtag(self, name: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((name, dict(attributes)))

    def handle_endtag(self, name: str) -> None:
        assert self._open.pop() == name

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def all(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for found, attributes in self.elements if found == name]

    @property
    def structure(self) -> list[tuple[str, tuple[str, ...]]]:
        return [(name, tuple(attributes)) for name, attributes in self.elements]

    @property
    def text(self) -> str:
        return " ".join("".join(self.texts).split())


def maps() -> list[NamedMap]:
    binding = oracle.load()
    changed = dict(binding.plans) | {PlanKey(1, 5120, 6144): 31}
    return [
        NamedMap("oracle", binding.plans, binding.metadata),
        NamedMap("mine", PlanMap(changed), {**binding.metadata, "gpu": "another"}),
    ]


def comparison(*reports: dict[str, Any]) -> compare.Comparison:
    return compare.of([(f"label {number}", data) for number, data in enumerate(reports)], SPEC)


def two() -> compare.Comparison:
    return comparison(report_of(outcome()), report_of(outcome(FAULTY)))


def test_the_page_is_well_formed_and_a_function_of_what_it_shows() -> None:
    text = page.render(two(), maps())
    assert text == page.render(two(), maps())
    assert text.startswith("<!doctype html>\n<html lang=")
    assert text.endswith("</html>\n")
    outline = Outline(text)
    ids = [about["id"] for _, about in outline.elements if "id" in about]
    assert sorted(ids) == sorted(set(ids))
    assert {contract.id for contract in SPEC.contracts} < set(ids)


def test_the_page_needs_nothing_but_itself() -> None:
    outline = Outline(page.render(two(), maps()))
    for name, about in outline.elements:
        assert name not in {"iframe", "object", "embed", "img", "base", "form"}
        assert not any(attribute.startswith("on") or attribute == "style" for attribute in about)
        assert "src" not in about
        if name == "a":
            assert about["href"] == "https://example.org/toy" or str(about["href"])[0] == "#"
        if name == "link":
            assert about["href"] == "data:,"


def test_the_policy_lets_only_the_pages_own_style_and_script_in() -> None:
    text = page.render(two())
    (policy,) = [
        about["content"]
        for about in Outline(text).all("meta")
        if about.get("http-equiv") == "Content-Security-Policy"
    ]
    for name in ("style", "script"):
        (content,) = re.findall(f"<{name}>(.*?)</{name}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{name}-src 'sha256-{digest}'" in str(policy)
    assert str(policy).startswith("default-src 'none'; ")
    assert "unsafe" not in str(policy)
    assert text.index("Content-Security-Policy") < text.index("<style>")


def test_tables_controls_and_disclosures_say_what_they_are() -> None:
    outline = Outline(page.render(two(), maps()))
    assert all(about["scope"] in ("row", "col") for about in outline.all("th"))
    assert all(about["type"] == "button" for about in outline.all("button"))
    following = [
        b
        for (a, _), (b, _) in zip(outline.elements, outline.elements[1:], strict=False)
        if a == "details"
    ]
    assert set(following) == {"summary"}
    for glyph in [about for about in outline.all("span") if "glyph" in (about.get("class") or "")]:
        assert glyph["aria-hidden"] == "true"
    assert outline.all("html") == [{"lang": "en"}]
    assert [name for name, _ in outline.elements if name in ("h1", "main", "header", "footer")] == [
        "header",
        "h1",
        "main",
        "footer",
    ]


def failing(count: int, reproduction: str = "") -> dict[str, Any]:
    cases: list[CaseResult] = []
    for number in range(count):
        for transport in (IN_PROCESS, JSON_LINES):
            bad = case(
                "MERG-1",
                V.FAILED,
                name=f"case {number:03}",
                transport=transport,
                message=f"sentence {number} over {transport}",
                reproducer=f"folder/MERG-1--{number}.json",
            )
            cases.append(replace(bad, reproduction=reproduction and f"{reproduction}{number}"))
    results = aggregate(SPEC, cases, claimed=ALL)
    return report_of(results)


def test_every_failure_has_its_sentence_and_its_reproducer() -> None:
    text = Outline(page.render(comparison(failing(7, "requests, 2 bytes:\n{}\n")))).text
    for number in range(7):
        assert f"in process: sentence {number} over in process" in text
        assert f"JSON lines: sentence {number} over JSON lines" in text
        assert f"file: folder/MERG-1--{number}.json" in text
        assert f"requests, 2 bytes: {{}} {number}" in text
    assert "failed, 14 of 14 cases: sentence 0 over in process" in text
    command = "nvfp4-conformance run toy.adapter:make --contract MERG-1 --seed 81234"
    assert text.count(command) == 7


def test_one_sentence_over_both_transports_is_said_once() -> None:
    cases = [
        case("MERG-1", V.FAILED, transport=transport, message="it lost a plan")
        for transport in (IN_PROCESS, JSON_LINES)
    ]
    text = Outline(page.render(comparison(report_of(aggregate(SPEC, cases, claimed=ALL))))).text
    assert "in process, JSON lines: it lost a plan" in text


def test_of_very_many_failures_the_page_says_how_many_it_leaves_out() -> None:
    text = Outline(page.render(comparison(failing(103)))).text
    assert "sentence 99 over" in text
    assert "sentence 100 over" not in text
    assert "3 more cases are in the report." in text


def test_what_did_not_run_and_what_is_accepted_has_its_reason() -> None:
    text = Outline(page.render(two())).text
    assert "B why it is known deviation" in text
    assert "B why it is skipped" in text
    partly = [
        case("PUBL-1", V.SKIPPED, message="only seen from outside"),
        case("PUBL-1", transport=JSON_LINES),
    ]
    text = Outline(page.render(comparison(report_of(aggregate(SPEC, partly, claimed=ALL))))).text
    assert "A in process, skipped: only seen from outside" in text
    assert "A no case of it ran" in text


def test_areas_with_something_to_see_are_open() -> None:
    areas = {
        about["id"]: "open" in about
        for about in Outline(page.render(two())).all("details")
        if about.get("class") == "area"
    }
    assert areas == {
        "PATH": False,
        "BUCK": False,
        "TACT": False,
        "NDOC": True,
        "FIMP": False,
        "MERG": True,
        "PUBL": True,
    }


def test_numbers_of_the_page_are_those_of_the_report() -> None:
    text = Outline(page.render(two())).text
    assert (
        "56 contracts of specification 1.0 · 2 reports · 4 contracts with different verdicts"
        in text
    )
    assert "B ○ 16/17" in text
    assert "! 1 error ✗ 1 failed ≈ 1 known deviation ○ 1 skipped" in text
    assert "took 12.3 s for 112 cases" in text


STRUCTURE = Outline(
    page.render(compare.of([("x", hostile(report_of(outcome(FAULTY)), "x"))], SPEC), maps())
).structure


def plain_text() -> st.SearchStrategy[str]:
    """Text of any characters but backticks, which contracts mark code with; often hostile."""
    nasty = st.sampled_from(["<", ">", "&", '"', "'", "</script>", "<!--", "]]>", "\0", "\u202e"])
    some = st.text(st.characters(exclude_characters="`"))
    return st.lists(nasty | some, min_size=1).map("".join).map("x".__add__)


@unhurried
@given(plain_text())
def test_no_text_changes_the_structure_of_the_page(text: str) -> None:
    made = compare.of([(text, hostile(report_of(outcome(FAULTY)), text))], SPEC)
    assert Outline(page.render(made, maps())).structure == STRUCTURE


def test_long_text_is_cut_and_says_so() -> None:
    long = "long " * 20_000
    data = hostile(report_of(outcome(FAULTY)), long)
    text = page.render(compare.of([(None, data)], SPEC))
    assert "… and 98,000 more characters" in text
    assert len(text) < 1_000_000


def cells(plans: PlanMap) -> tuple[Outline, list[str | None]]:
    outline = Outline(page.render(comparison(report_of(())), [NamedMap("one", plans, {})]))
    return outline, [about.get("title") for about in outline.all("td")]


def test_a_heat_map_has_a_cell_for_each_bucket_and_shape() -> None:
    outline, titles = cells(PlanMap({PlanKey(1, 32, 16): 0, PlanKey(4, 16, 32): 7}))
    assert titles == [
        "no plan",
        "0: 128x32x128 swap data-parallel",
        "7: 128x32x256 plain stream-k",
        "no plan",
    ]
    assert "M N 16 K 32 N 32 K 16 1 · 0 ⇄ dp 4 7 sk ·" in outline.text
    assert "one: 2 plans" in outline.text


def test_all_tactics_are_told_apart_without_colour() -> None:
    outline, titles = cells(PlanMap({PlanKey(1, n + 1, 16): n for n in range(8)}))
    assert len(set(titles)) == 8
    classes = [about["class"] for about in outline.all("td")]
    assert classes == ["tile t0"] * 4 + ["tile t1"] * 4
    outline, titles = cells(PlanMap({PlanKey(1, 1, 16): 99}))
    assert titles == ["99: unknown tactic"]


def test_of_very_many_shapes_those_that_differ_come_first() -> None:
    plans = {PlanKey(1, n, 16): 0 for n in range(1, 41)}
    changed = plans | {PlanKey(1, 40, 16): 5}
    named = [NamedMap(name, PlanMap(p), {}) for name, p in (("a", plans), ("b", changed))]
    outline = Outline(page.render(comparison(report_of(())), named))
    assert (
        "16 more shapes: nvfp4-conformance check or diff, with --all, lists them." in outline.text
    )
    titles = [about.get("title") for about in outline.all("td")]
    assert "0: 128x32x128 swap data-parallel → 5: 128x32x256 plain data-parallel" in titles
    assert len(titles) == 3 * 24


def test_environments_are_compared() -> None:
    text = Outline(page.render(two(), maps())).text
    assert "Environments: 1 field differs" in text
    assert "≠ gpu NVIDIA GB10 another" in text
    assert "≠ cuda_version" not in text


def test_a_page_is_written_in_one_step(tmp_path: Path) -> None:
    path = tmp_path / "new" / "page.html"
    page.write(path, two(), maps())
    assert path.read_bytes() == page.render(two(), maps()).encode()
    assert list(path.parent.iterdir()) == [path]


def test_text_is_escaped_and_cut() -> None:
    assert shown("a<b\n&\"'") == "a&lt;b\n&amp;&#34;&#39;"
    assert shown(Markup("<br>")) == "<br>"
    assert shown(3) == "3"
    assert foreign("a\u202eb<") == r"<bdi>a\u202eb&lt;</bdi>"
    assert cut("abc", 2) == "ab … and 1 more character"
    assert prose("see `a<b` and `c`") == "see <code>a&lt;b</code> and <code>c</code>"
    assert prose("one ` alone") == "one ` alone"
    assert prose("<b>` `<i>") == "&lt;b&gt;<code> </code>&lt;i&gt;"


def test_every_template_is_escaped_and_refuses_unknown_names() -> None:
    environment = document._environment()
    made = environment.from_string('{{ text }}<p title="{{ text }}">').render(text='<\u202e">')
    assert made == '&lt;\\u202e&#34;&gt;<p title="&lt;\\u202e&#34;&gt;">'
    with pytest.raises(jinja2.UndefinedError):
        environment.from_string("{{ nosuch }}").render()


@pytest.mark.parametrize(
    "address",
    [
        "javascript:alert(1)",
        "JavaScript:alert(1)",
        " https://example.org",
        "https:example.org",
        "https://[::1",
        "http://a b",
        "java\nscript:alert(1)",
        "data:text/html,x",
        "//example.org",
        "file:///etc/passwd",
        "https://" + "x" * 5000,
        "",
    ],
)
def test_only_web_addresses_become_links(address: str) -> None:
    assert "<a" not in link("text", address)
    assert link("text", "https://example.org/?a=1&b=2") == (
        '<a href="https://example.org/?a=1&amp;b=2" rel="noopener noreferrer nofollow external">'
        "<bdi>text</bdi></a>"
    )


def lines_of(name: str) -> Iterator[str]:
    folder = Path(page.__file__).parent
    yield from (folder / name).read_text("utf-8").splitlines()


def test_style_and_script_fetch_nothing() -> None:
    for name in ("style.css", "script.js"):
        for line in lines_of(name):
            assert not re.search(r"url\(|@import|fetch|XMLHttp|import\(|innerHTML|eval|</", line), (
                line
            )
