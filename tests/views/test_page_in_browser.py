"""The page in a browser: it is operated, by keyboard too, and nothing hostile in it runs."""

import json
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from samples import ALL, SPEC, hostile, outcome, report_of

from pytest_nvfp4 import oracle
from pytest_nvfp4.plans import PlanKey, PlanMap
from pytest_nvfp4.results import report
from pytest_nvfp4.results.verdicts import Verdict
from pytest_nvfp4.views import comparison as compare
from pytest_nvfp4.views import page
from pytest_nvfp4.views.page import NamedMap

from . import browser as browsers

pytestmark = pytest.mark.skipif(browsers.PROGRAM is None, reason="needs chromium to look at pages")
V = Verdict
FAULTY = {"MERG-1": V.FAILED, "MERG-2": V.KNOWN_DEVIATION, "NDOC-6": V.SKIPPED, "PUBL-5": V.FAILED}


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[browsers.Browser]:
    made = browsers.Browser(tmp_path_factory.mktemp("profile"))
    yield made
    made.close()


def maps() -> list[NamedMap]:
    binding = oracle.load()
    changed = dict(binding.plans) | {PlanKey(1, 5120, 6144): 31}
    del changed[PlanKey(2048, 5120, 6144)]
    return [
        NamedMap("oracle", binding.plans, binding.metadata),
        NamedMap("mine", PlanMap(changed), {**binding.metadata, "gpu": "another"}),
    ]


@pytest.fixture
def shown(tmp_path: Path, browser: browsers.Browser) -> Callable[..., browsers.Browser]:
    def open_(*reports: dict[str, Any], fragment: str = "") -> browsers.Browser:
        path = tmp_path / "page.html"
        labelled = [(f"label {number}", data) for number, data in enumerate(reports)]
        page.write(path, compare.of(labelled, SPEC), maps())
        browser.call("Emulation.setEmulatedMedia", features=[])
        browser.call(
            "Emulation.setDeviceMetricsOverride",
            width=1280,
            height=900,
            deviceScaleFactor=1,
            mobile=False,
        )
        browser.open(path, fragment)
        # What an earlier test chose is remembered for all pages on this disk.
        browser.look("localStorage.clear(); delete document.documentElement.dataset.theme")
        return browser

    return open_


@pytest.fixture
def two(shown: Callable[..., browsers.Browser]) -> browsers.Browser:
    claimed = ALL - {"options"}
    good, bad = report_of(outcome()), report_of(outcome(FAULTY, claimed=claimed), claimed=claimed)
    return shown(good, bad)


VISIBLE = (
    "[...document.querySelectorAll('tbody[data-verdicts]')].filter(t => !t.hidden).map(t => t.id)"
)


def test_nothing_is_fetched_and_nothing_complains(two: browsers.Browser) -> None:
    asked = [event["request"]["url"] for event in two.told("Network.requestWillBeSent")]
    assert [url.partition(":")[0] for url in asked if not url.startswith("data:")] == ["file"]
    assert two.told("Log.entryAdded") == []
    assert two.told("Runtime.exceptionThrown") == []
    assert two.look("document.title") == "label 0 · label 1 — NVFP4 plan-cache conformance"


def test_filters_by_verdict_level_difference_and_words(two: browsers.Browser) -> None:
    def click(selector: str) -> None:
        two.look(f"document.querySelector({json.dumps(selector)}).click()")

    everything = [contract.id for contract in SPEC.contracts]
    assert two.look(VISIBLE) == everything
    assert two.look("document.getElementById('shown').textContent") == "all 56 contracts shown"
    click("#differing")
    differing = [i for i in everything if i in FAULTY or i.startswith("PATH")]
    assert two.look(VISIBLE) == differing
    for verdict in ("passed", "not_claimed", "skipped"):
        click(f"button[data-verdict={verdict}]")
    assert two.look(VISIBLE) == ["MERG-1", "MERG-2", "PUBL-5"]
    assert two.look("document.querySelector('#PATH').hidden") is True
    click("input[name=level][value=should]")
    assert two.look(VISIBLE) == ["PUBL-5"]
    click("input[name=level][value=must]")
    two.look("document.getElementById('words').focus()")
    for letter in "merg-1":
        two.press(letter)
    assert two.look(VISIBLE) == ["MERG-1"]
    assert two.look("document.getElementById('shown').textContent") == "1 of 56 contracts shown"
    for letter in "zzz":
        two.press(letter)
    assert two.look("document.getElementById('none').hidden") is False
    click("#reset")
    assert two.look(VISIBLE) == everything


def test_everything_is_reached_and_operated_by_keyboard(two: browsers.Browser) -> None:
    two.tab_to("it.className === 'skip'")
    two.tab_to("it.id === 'theme'")
    two.press("Enter")
    assert two.look("document.documentElement.dataset.theme") == "light"
    two.press(" ")
    assert two.look("document.documentElement.dataset.theme") == "dark"
    two.tab_to("it.name === 'level'")
    two.press("ArrowRight")
    assert two.look("document.querySelector('input[name=level]:checked').value") == "must"
    two.press("ArrowRight")
    assert two.look(VISIBLE) == [c.id for c in SPEC.contracts if c.level == "should"]
    two.tab_to("it.dataset.verdict === 'failed'")
    two.press(" ")
    assert two.look("document.activeElement.ariaPressed") == "false"
    assert "PUBL-5" in two.look(VISIBLE), "it passed in one of the two"
    two.tab_to("it.id === 'differing'")
    two.press(" ")
    assert "MERG-1" not in two.look(VISIBLE)
    two.tab_to("it.id === 'reset'")
    two.press("Enter")
    assert two.look("document.activeElement.id") == "words"
    two.tab_to("it.tagName === 'SUMMARY' && it.parentElement.id === 'BUCK'")
    two.press("Enter")
    assert two.look("document.getElementById('BUCK').open") is True
    two.tab_to("it.tagName === 'SUMMARY' && it.parentElement.className === 'failure'")
    two.press(" ")
    assert two.look("document.activeElement.parentElement.open") is True
    two.tab_to("it.id === 'right'")
    assert two.look("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_theme_is_the_systems_unless_the_reader_says_otherwise(two: browsers.Browser) -> None:
    two.look("localStorage.clear()")
    colour = "getComputedStyle(document.body).backgroundColor"
    seen = {}
    for scheme in ("light", "dark"):
        feature = {"name": "prefers-color-scheme", "value": scheme}
        two.call("Emulation.setEmulatedMedia", features=[feature])
        seen[scheme] = two.look(colour)
    assert seen["light"] != seen["dark"]
    two.look("document.getElementById('theme').click()")
    if two.look("document.documentElement.dataset.theme") != "light":
        two.look("document.getElementById('theme').click()")
    assert two.look(colour) == seen["light"]


# What text needs to be read on its background (WCAG 2.2, 1.4.3).
CONTRAST = """(() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgb = (colour) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = (c) => c.slice(0, 3).map((v) => v / 255)
    .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = rgb(getComputedStyle(at).backgroundColor);
      if (colour[3] === 255) return colour;
    }
    return [255, 255, 255, 255];
  };
  document.querySelectorAll("details").forEach((d) => { d.open = true; });
  const poor = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let seen = 0;
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.data.trim() || element.closest("svg, script, option") || !element.checkVisibility()) continue;
    const pair = [light(rgb(getComputedStyle(element).color)), light(behind(element))].sort();
    const ratio = (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
    seen += 1;
    if (ratio < 4.5) poor.add(`${element.className || element.tagName}: ${ratio.toFixed(2)}`);
  }
  return { seen, poor: [...poor] };
})()"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_stands_out_from_what_is_behind_it(two: browsers.Browser, scheme: str) -> None:
    two.look("localStorage.clear(); delete document.documentElement.dataset.theme")
    feature = {"name": "prefers-color-scheme", "value": scheme}
    two.call("Emulation.setEmulatedMedia", features=[feature])
    two.look(
        "document.getElementById('left').value = '0'; document.getElementById('right').value = ''"
    )
    two.look("document.getElementById('left').dispatchEvent(new Event('input'))")
    found = two.look(CONTRAST)
    assert found["seen"] > 500
    assert found["poor"] == []


@pytest.mark.parametrize("width", [320, 400, 1280])
def test_the_page_is_never_wider_than_its_window(
    shown: Callable[..., browsers.Browser], width: int
) -> None:
    long = hostile(report_of(outcome(FAULTY)), "x" * 5000)
    two = shown(report_of(outcome()), long)
    two.call(
        "Emulation.setDeviceMetricsOverride",
        width=width,
        height=900,
        deviceScaleFactor=1,
        mobile=False,
    )
    two.look("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    assert two.look("document.documentElement.scrollWidth") <= width


def test_plan_maps_are_chosen_and_compared(two: browsers.Browser) -> None:
    seen = "[...document.querySelectorAll('details.view')].filter(v => !v.hidden).map(v => v.querySelector('summary').textContent)"
    assert two.look(seen) == ["oracle → mine: 2 of 64 plans differ"]
    changed = (
        "[...document.querySelectorAll('details.view:not([hidden]) td.changed')].map(t => t.title)"
    )
    assert two.look(changed) == [
        "4: 128x32x256 swap data-parallel → 31: 128x256x128 plain stream-k",
        "18: 128x128x128 swap stream-k → no plan",
    ]

    def choose(left: str, right: str) -> None:
        two.look(f"document.getElementById('left').value = '{left}'")
        two.look(f"document.getElementById('right').value = '{right}'")
        two.look("document.getElementById('right').dispatchEvent(new Event('input'))")

    choose("1", "")
    assert two.look(seen) == ["mine: 63 plans"]
    choose("1", "0")
    assert two.look(seen) == ["oracle → mine: 2 of 64 plans differ"]
    choose("1", "1")
    assert two.look(seen) == ["mine: 63 plans"]


def test_a_link_to_a_contract_opens_its_area(shown: Callable[..., browsers.Browser]) -> None:
    made = shown(report_of(outcome()), fragment="#BUCK-2")
    assert made.look("document.getElementById('BUCK').open") is True
    assert made.look("document.getElementById('TACT').open") is False
    assert shown(report_of(outcome()), fragment="#%zz").told("Runtime.exceptionThrown") == []


def test_without_javascript_it_can_still_be_read(two: browsers.Browser, tmp_path: Path) -> None:
    two.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        two.open(tmp_path / "page.html")
        controls = two.call("DOM.getDocument", depth=-1)
        text = json.dumps(controls)
        assert "MERG-1" in text
        query = {"nodeId": controls["root"]["nodeId"], "selector": ".filters:not([hidden])"}
        assert two.call("DOM.querySelectorAll", **query)["nodeIds"] == []
    finally:
        two.call("Emulation.setScriptExecutionDisabled", value=False)


HOSTILE = [
    "<script>document.title='taken'</script>",
    "</script><script>document.title='taken'</script>",
    "</style></title></pre><img src=x onerror=\"document.title='taken'\">",
    "'\"><svg onload=document.title='taken'>",
    '" onmouseover="document.title=\'taken\'" autofocus onfocus="document.title=\'taken\'" x="',
    "javascript:document.title='taken'",
    "<!--<script>-->]]>&#60;script&#62;",
    "right\u202eto\u2066left\u200f\u0000\u001b[2J",
    "<b>" * 20_000,
    "\ud800 half, \u05d0\u05d1\u05d2 and e" + "\u0301" * 500,
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_is_shown_and_never_executed(
    browser: browsers.Browser, tmp_path: Path, text: str
) -> None:
    path = tmp_path / "page.html"
    data = hostile(report_of(outcome(FAULTY)), text)
    evil = NamedMap(text, oracle.load().plans, {text: text})
    page.write(
        path, compare.of([(text, data), ("fine", report_of(outcome()))], SPEC), [*maps(), evil]
    )
    browser.open(path)
    browser.look("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    browser.look(
        "document.querySelectorAll('a').forEach(a => { a.focus(); a.dispatchEvent(new Event('mouseover')); })"
    )
    assert "NVFP4 plan-cache conformance" in browser.look("document.title")
    assert browser.look("document.title") != "taken"
    assert browser.look("document.scripts.length") == 1
    assert browser.look("document.querySelectorAll('img, iframe, object, embed, b b').length") == 0
    assert (
        browser.look(
            "[...document.querySelectorAll('*')].flatMap(e => e.getAttributeNames()).filter(n => n.startsWith('on') || n === 'style').length"
        )
        == 0
    )
    links = browser.look("[...document.links].map(a => a.getAttribute('href'))")
    assert {link for link in links if link[0] != "#"} == {"https://example.org/toy"}, "the other's"
    assert browser.told("Log.entryAdded") == []
    first = browser.look("document.querySelector('.case').textContent")
    assert first.startswith("0")
    shown = browser.look("document.body.innerText")
    assert not set(shown) & set("\u202e\u2066\u200f\0\x1b")


def test_a_picture_of_the_page_is_no_blank_sheet(two: browsers.Browser, tmp_path: Path) -> None:
    path = tmp_path / "page.png"
    two.screenshot(path)
    data = path.read_bytes()
    assert struct.unpack(">II", data[16:24]) == (1280, 900)
    pixels = zlib.decompress(b"".join(chunks(data, b"IDAT")))
    assert len(set(pixels)) > 100


def chunks(data: bytes, kind: bytes) -> Iterator[bytes]:
    at = 8
    while at < len(data):
        length = int.from_bytes(data[at : at + 4])
        if data[at + 4 : at + 8] == kind:
            yield data[at + 8 : at + 8 + length]
        at += length + 12


def test_a_report_with_nothing_in_it_makes_a_page_that_works(
    shown: Callable[..., browsers.Browser],
) -> None:
    made = shown(report_of(()))
    assert made.told("Runtime.exceptionThrown") == []
    assert "no contract was selected" in made.look("document.body.innerText")
    assert report.verify(report_of(())) == []
