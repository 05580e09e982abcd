"""The badge: which profile, which counts, which colour, and a drawing that holds any text."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import ALL, SPEC, outcome, report_of, unhurried

from pytest_nvfp4.results import report
from pytest_nvfp4.results.profile import PROFILES, READS, earned
from pytest_nvfp4.results.verdicts import ContractResult, Verdict
from pytest_nvfp4.specification.contracts import Contract, packaged
from pytest_nvfp4.views import badge
from pytest_nvfp4.views.badge import Badge

V = Verdict

READER = frozenset({"buckets", "tactics", "native-document", "flashinfer-import"})
WRITER = READER | {"options", "merge", "publication"}


def earn(changed: Mapping[str, Verdict], claimed: frozenset[str]) -> Badge:
    return badge.from_report(report_of(outcome(changed, claimed=claimed), claimed=claimed))


@pytest.mark.parametrize(
    ("claimed", "message"),
    [
        (ALL, "writer · MUST 48/48 · SHOULD 8/8 · v1.0"),
        (WRITER, "writer · MUST 48/48 · SHOULD 8/8 · v1.0"),
        (WRITER - {"native-document"}, "writer · MUST 33/33 · SHOULD 6/6 · v1.0"),
        (WRITER - {"merge"}, "reader · MUST 31/31 · SHOULD 2/2 · v1.0"),
        (READER, "reader · MUST 31/31 · SHOULD 2/2 · v1.0"),
        (READER - {"native-document"}, "reader · MUST 16/16 · v1.0"),
        (READER - {"flashinfer-import"}, "reader · MUST 20/20 · SHOULD 2/2 · v1.0"),
    ],
)
def test_the_widest_profile_that_is_claimed_whole(claimed: frozenset[str], message: str) -> None:
    assert earn({}, claimed) == Badge(message, "green")


@pytest.mark.parametrize(
    ("claimed", "message"),
    [
        (WRITER - {"buckets"}, "6 areas · MUST 45/45"),
        (READER - {"native-document", "flashinfer-import"}, "BUCK + TACT · MUST 5/5 · v1.0"),
        ({"flashinfer-import"}, "FIMP · MUST 11/11 · v1.0"),
    ],
)
def test_single_areas_make_no_profile_and_no_green(claimed: frozenset[str], message: str) -> None:
    made = earn({}, frozenset(claimed))
    assert made.message.startswith(message)
    assert (made.colour, made.is_error) == ("blue", False)


@pytest.mark.parametrize(
    ("changed", "counts", "colour"),
    [
        ({"PUBL-5": V.FAILED}, "MUST 48/48 · SHOULD 7/8", "yellowgreen"),
        ({"PUBL-5": V.SKIPPED}, "MUST 48/48 · SHOULD 7/8", "yellowgreen"),
        ({"PUBL-4": V.SKIPPED}, "MUST 47/48 · SHOULD 8/8", "yellow"),
        ({"PUBL-4": V.SKIPPED, "PUBL-5": V.FAILED}, "MUST 47/48 · SHOULD 7/8", "yellow"),
        ({"PUBL-4": V.KNOWN_DEVIATION}, "MUST 47/48 · SHOULD 8/8", "orange"),
        ({"PUBL-5": V.KNOWN_DEVIATION}, "MUST 48/48 · SHOULD 7/8", "orange"),
        ({"PUBL-1": V.KNOWN_DEVIATION, "PUBL-2": V.SKIPPED}, "MUST 46/48 · SHOULD 8/8", "orange"),
        ({"PUBL-4": V.FAILED}, "MUST 47/48 · SHOULD 8/8", "red"),
        ({"PUBL-4": V.ERROR}, "MUST 47/48 · SHOULD 8/8", "red"),
        ({"PUBL-5": V.ERROR}, "MUST 48/48 · SHOULD 7/8", "red"),
        ({"PUBL-1": V.FAILED, "PUBL-2": V.KNOWN_DEVIATION}, "MUST 46/48 · SHOULD 8/8", "red"),
    ],
)
def test_the_colour_is_that_of_the_worst(
    changed: Mapping[str, Verdict], counts: str, colour: str
) -> None:
    assert earn(changed, ALL) == Badge(f"writer · {counts} · v1.0", colour)


def test_what_lies_outside_the_profile_does_not_count() -> None:
    claimed = WRITER - {"merge"}
    assert earn({"PUBL-4": V.FAILED}, claimed).message.startswith("reader · MUST 31/31")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: report_of(()), "empty run"),
        (lambda: report_of(outcome(selected={"MERG-1"})), "partial run"),
        (lambda: report_of(outcome(), whole=False), "partial run"),
        (lambda: report_of(outcome(claimed=set()), claimed=set()), "nothing claimed"),
        (
            lambda: report_of(outcome({c.id: V.SKIPPED for c in SPEC.contracts})),
            "everything skipped",
        ),
    ],
)
def test_a_run_that_shows_nothing_is_grey(make: Callable[[], dict[str, object]], says: str) -> None:
    made = badge.from_report(make())
    assert made == Badge(f"{says} · v1.0", "lightgrey", is_error=True)
    assert json.loads(badge.endpoint(made))["isError"] is True


def test_an_altered_report_earns_nothing() -> None:
    made = report_of(outcome({"MERG-1": V.FAILED}))
    made["summary"]["must"].update(passed=48, failed=0)
    with pytest.raises(ValueError, match=r"^A badge needs a report that verifies: .*altered"):
        badge.from_report(made)


@pytest.mark.parametrize(
    ("without", "words"),
    [
        (set(), "device · MUST 95/95 · SHOULD 10/10 · v1.0"),
        ({"device"}, "cache · MUST 91/91 · SHOULD 10/10 · v1.0"),
        ({"gemm"}, "cache · MUST 91/91 · SHOULD 10/10 · v1.0"),
        ({"capture-guard"}, "writer · MUST 51/51 · SHOULD 9/9 · v1.0"),
        ({"buckets", "options", "device"}, "14 areas · MUST 81/81"),
        ({"buckets", "options"}, "14 areas · MUST 82/82"),
    ],
)
def test_a_gpu_makes_the_device_profile_and_a_cpu_keeps_its_cache(
    without: set[str], words: str
) -> None:
    real = packaged()
    results = outcome(claimed=real.capabilities.keys() - without, specification=real)
    assert earned(results).words("1.0").startswith(words)


def test_a_replay_that_differs_makes_the_device_s_badge_red() -> None:
    real = packaged()
    every = real.capabilities.keys()
    for contract in ("CAPT-3", "GEMM-2"):
        results = outcome({contract: V.FAILED}, claimed=every, specification=real)
        made = badge.of(results, complete=True, version="1.0")
        assert made == Badge("device · MUST 94/95 · SHOULD 10/10 · v1.0", "red")


def test_every_contract_with_a_capability_of_its_own_counts_for_itself() -> None:
    named = {name for added in PROFILES.values() for name in added}
    for area in packaged().areas:
        own = {c.id for c in area.contracts if c.capability != area.capability}
        assert own == {c.id for c in area.contracts} & named


def later(name: str, verdict: Verdict = V.PASSED) -> ContractResult:
    area, _, number = name.partition("-")
    contract = Contract(
        f"{area}-{number or 1}", area, int(number or 1), "must", area.lower(), "Text.", ""
    )
    return ContractResult(contract, verdict, ())


def test_profiles_of_later_specifications_contain_each_other() -> None:
    have = [later("FIMP")]
    for name, areas in PROFILES.items():
        assert earned(have).profile != name
        have += [later(area) for area in areas]
        assert earned(have).profile == name
        assert earned(have[:-1]).profile != name
        assert earned([*have[:-1], later(areas[-1], V.NOT_CLAIMED)]).profile != name
    assert earned(have[1:]).profile is None
    assert earned([*have[:-1], later("CAPT-3", V.NOT_CLAIMED)]).profile == "cache"
    assert READS == ("NDOC", "FIMP")


def test_what_lies_in_the_future_is_no_claim() -> None:
    listed = ContractResult(replace(later("RANK").contract, level="future"), V.SKIPPED, ())
    assert earned([later("FIMP"), listed]).areas == ("FIMP",)
    assert earned([listed]).areas == ()


def test_many_areas_without_a_profile_are_counted() -> None:
    have = [later(area) for area in ("PATH", "MERG", "PUBL", "LOOK")]
    assert earned(have).words("1.0") == "PATH + MERG + PUBL + LOOK · MUST 4/4 · v1.0"
    assert earned([*have, later("FLIT")]).words("1.0") == "5 areas · MUST 5/5 · v1.0"


def test_the_endpoint_has_exactly_the_members_of_its_schema() -> None:
    text = badge.endpoint(Badge("writer · v1.0", "green"))
    assert json.loads(text) == {
        "schemaVersion": 1,
        "label": "nvfp4 plan cache",
        "message": "writer · v1.0",
        "color": "green",
    }
    assert text.endswith("}\n")


SVG = "{http://www.w3.org/2000/svg}"


def drawn(made: Badge) -> ET.Element:
    return ET.fromstring(badge.svg(made))


@pytest.mark.parametrize("colour", badge.COLOURS)
def test_the_drawing_is_named_and_each_text_lies_within_its_half(colour: str) -> None:
    root = drawn(Badge("writer · MUST 48/48 · SHOULD 8/8 · v1.0", colour))
    name = "nvfp4 plan cache: writer · MUST 48/48 · SHOULD 8/8 · v1.0"
    assert root.get("role") == "img"
    assert root.get("aria-label") == name
    assert root[0].tag == f"{SVG}title"
    assert root[0].text == name
    halves = root.findall(f"{SVG}path")
    assert halves[1].get("fill") == badge.COLOURS[colour]
    border = int(re.findall(r"M(\d+) ", halves[1].get("d", ""))[0])
    label, message = root.findall(f"{SVG}g/{SVG}text")
    ends = [int(t.get("x", "")) + int(t.get("textLength", "")) for t in (label, message)]
    assert ends[0] + 10 == border
    assert ends[1] + 10 == int(root.get("width", ""))
    assert int(message.get("x", "")) > border + 20


def test_white_text_is_readable_on_every_colour() -> None:
    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for name, colour in badge.COLOURS.items():
        assert 1.05 / (luminance(colour) + 0.05) >= 4.5, name


def test_the_drawing_refers_to_nothing_outside_itself() -> None:
    text = badge.svg(Badge("x", "red"))
    assert set(re.findall(r"[a-z]+://[^\"]*", text)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"href|url\(|<style|<script| id=", text)


@unhurried
@given(st.text(), st.text())
def test_any_text_is_shown_and_none_is_markup(label: str, message: str) -> None:
    root = drawn(Badge(message, "green", label=label))
    assert {element.tag for element in root.iter()} == {
        f"{SVG}{tag}" for tag in ("svg", "title", "path", "rect", "g", "text")
    }


def test_hostile_text_is_text() -> None:
    hostile = "\"'><script>alert(1)</script>&\x1b\x00]]>"
    root = drawn(Badge(hostile, "red"))
    shown = hostile.replace("\x1b", r"\x1b").replace("\x00", r"\x00")
    assert root.findall(f"{SVG}g/{SVG}text")[1].text == shown


def test_wider_text_is_estimated_wider() -> None:
    assert badge.text_width("iiii") < badge.text_width("nnnn") < badge.text_width("WWWW")
    assert badge.text_width("漢字") > badge.text_width("xx")
    assert badge.text_width("") == 1
    # 16 digits of Verdana at 11 pixels: 16 * 1302 / 2048 * 11 pixels.
    assert badge.text_width("0123456789012345") == 112


@pytest.mark.parametrize("name", ["badge.png", "badge", "badge.svg.gz", ".svg"])
def test_another_suffix_is_refused_before_anything_is_written(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with pytest.raises(ValueError, match=r"must end in \.svg or \.json; give one of these"):
        badge.form(path)
    with pytest.raises(ValueError, match="must end in"):
        badge.write(path, Badge("x", "red"))
    assert list(tmp_path.iterdir()) == []


def test_each_suffix_gets_its_form(tmp_path: Path) -> None:
    made = Badge("x", "red")
    for name, text in (("a.svg", badge.svg(made)), ("b.JSON", badge.endpoint(made))):
        badge.write(tmp_path / name, made)
        assert (tmp_path / name).read_text(encoding="utf-8") == text


def test_the_version_is_that_of_the_report() -> None:
    made = report_of(outcome())
    made["suite"].update(specification_version="7.3", specification_digest="ab" * 32)
    rest = {name: value for name, value in made.items() if name != "digest"}
    made["digest"] = report.digest(rest)
    assert badge.from_report(made).message.endswith("· v7.3")
    assert replace(Badge("x", "red"), message="y").message == "y"
