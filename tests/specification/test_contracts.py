"""The specification: it loads, it is complete, selections are exact, mistakes are named."""

import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
from samples import SPEC

from pytest_nvfp4.specification import contracts

FOLDER = Path(__file__).parents[2] / "conformance"

SMALL = """
version = "2.0"
[terms]
plan = "A choice."
[codes]
syntax = "Not JSON."
[capabilities]
merge = "Merges."
[[area]]
id = "MERG"
title = "Merge"
capability = "merge"
source = "design"
[[area.contract]]
id = "MERG-1"
level = "must"
text = "Current wins."
[[area.contract]]
id = "MERG-3"
level = "should"
source = "report"
text = "Order does not matter."
"""


def test_the_packaged_specification_has_the_areas_of_version_one() -> None:
    packaged = contracts.packaged()
    assert packaged.version == "1.0"
    numbers = {area.id: [c.number for c in area.contracts] for area in packaged.areas}
    assert numbers == {
        "PATH": list(range(1, 13)),
        "BUCK": [1, 2, 3],
        "TACT": [1, 2],
        "NDOC": list(range(1, 18)),
        "FIMP": list(range(1, 12)),
        "MERG": [1, 2, 3, 4, 5],
        "PUBL": [1, 2, 3, 4, 5, 10, 11, 12, 13, 14],
        "LOOK": list(range(1, 8)),
        "FLIT": [1, 2, 3, 4, 5],
        "PROF": list(range(1, 7)),
        "WARM": list(range(1, 9)),
        "FROZ": list(range(1, 7)),
        "CAPT": [1, 2, 3],
        "DIAG": [1, 2, 3, 4],
        "FRSH": [1, 2, 3],
        "GEMM": [1, 2, 3],
        "RANK": [1],
    }
    should = {c.id for c in packaged.contracts if c.level == "should"}
    assert should == {
        *("PATH-3", "PATH-7", "NDOC-6", "NDOC-14", "PROF-6"),
        *("PUBL-5", "PUBL-10", "PUBL-11", "PUBL-13", "PUBL-14"),
    }
    assert [c.id for c in packaged.contracts if c.level == "future"] == ["RANK-1"]


def test_every_code_of_the_interface_has_a_meaning() -> None:
    documents = (
        "not-regular unreadable too-large encoding syntax shape duplicate-member missing-field "
        "wrong-type unknown-format foreign-environment indeterminate-environment bad-plan "
        "unknown-runner unknown-tactic duplicate-plan configuration publication "
        "capture-miss frozen-miss no-valid-tactic lifecycle"
    )
    assert list(contracts.packaged().codes) == documents.split()


def test_texts_use_no_code_that_does_not_exist() -> None:
    for contract in SPEC.contracts:
        for code in re.findall(r"as ([a-z]+-[a-z-]+)", contract.text):
            assert code in SPEC.codes, contract.id


def test_the_text_is_ascii_so_that_any_terminal_shows_it() -> None:
    assert (FOLDER / "contracts.toml").read_bytes().isascii()


def test_the_markdown_beside_it_is_in_step() -> None:
    printed = contracts.markdown(contracts.packaged())
    assert (FOLDER / "CONTRACTS.md").read_text(encoding="utf-8") == printed


def test_the_module_prints_the_markdown() -> None:
    command = [
        sys.executable,
        "-W",
        "error",
        "-m",
        "pytest_nvfp4.specification.contracts",
        "--markdown",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == contracts.markdown(contracts.packaged())
    assert done.stderr == ""


def test_markdown_shows_markup_characters_as_they_are() -> None:
    text = SMALL.replace("Current wins.", "A <b> | *x* `a_b|c` _y_ [z].")
    assert r"A \<b\> \| \*x\* `a_b|c` \_y\_ \[z\]." in contracts.markdown(contracts.load(text))


def test_loading_gives_every_field() -> None:
    specification = contracts.load(SMALL)
    first, second = specification.contracts
    assert first == contracts.Contract(
        "MERG-1", "MERG", 1, "must", "merge", "Current wins.", "design"
    )
    assert (second.number, second.level, second.source) == (3, "should", "report")
    assert specification.contract("MERG-3") is second
    assert dict(specification.codes) == {"syntax": "Not JSON."}


def test_a_contract_may_need_another_capability_than_its_area() -> None:
    own = SMALL.replace('level = "should"', 'level = "should"\ncapability = "device"')
    with pytest.raises(ValueError, match=r"^The capability of contract MERG-3 is not in"):
        contracts.load(own)
    loaded = contracts.load(own.replace("[[area]]", 'device = "Has a GPU."\n[[area]]'))
    assert [c.capability for c in loaded.contracts] == ["merge", "device"]
    assert loaded.areas[0].capability == "merge"
    rows = [line for line in contracts.markdown(loaded).splitlines() if line.startswith("| MERG")]
    assert ["*Capability: `device`.*" in row for row in rows] == [False, True]


def test_the_digest_covers_the_content_and_not_the_layout() -> None:
    digest = contracts.load(SMALL).digest
    assert re.fullmatch(r"[0-9a-f]{64}", digest)
    assert contracts.load("# a comment\n" + SMALL.replace(" = ", "   =  ")).digest == digest
    for edit in (("wins.", "loses."), ('"must"', '"should"'), ("Not JSON.", "Not it.")):
        assert contracts.load(SMALL.replace(*edit)).digest != digest


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('version = "2.0"', "version = 2.0", "'version'"),
        ('version = "2.0"', 'version = "two"', "'two'"),
        ('version = "2.0"', 'version = "2.0"\nauthor = "x"', "'author' has no meaning"),
        ("[codes]", "[code]", "'code' has no meaning"),
        ('"MERG"', '"MERGE"', "four capital letters"),
        ('capability = "merge"', 'capability = "marge"', "not in [capabilities]"),
        ('id = "MERG-3"', 'id = "MERG-1"', "do not ascend"),
        ('id = "MERG-3"', 'id = "PUBL-3"', "not like MERG-1"),
        ('id = "MERG-3"', 'id = "MERG-03"', "not like MERG-1"),
        ('level = "must"', 'level = "may"', "none of 'must', 'should' and 'future'"),
        ('level = "must"', "", "'level' is missing"),
        ("Current wins.", "Current wins", "full stop"),
        ("Current wins.", "Current  wins.", "one line"),
        ('source = "report"', 'origin = "report"', "'origin' has no meaning"),
        ("[[area.contract]]", "[[area.contracts]]", "'contracts' has no meaning"),
        ("version", "= version", "not valid TOML"),
    ],
)
def test_a_mistake_in_the_file_is_named(old: str, new: str, says: str) -> None:
    with pytest.raises(ValueError) as caught:
        contracts.load(SMALL.replace(old, new))
    assert says in str(caught.value)
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize("wrong", ["area = [1]", "area = []", 'area = "x"'])
def test_areas_that_are_no_tables_are_refused(wrong: str) -> None:
    head = SMALL.partition("[[area]]")[0].replace('version = "2.0"', f'version = "2.0"\n{wrong}')
    with pytest.raises(ValueError, match="area"):
        contracts.load(head)


def test_a_selection_names_areas_and_contracts_in_any_order() -> None:
    ids = [contract.id for contract in contracts.select(SPEC, " TACT , NDOC-4,BUCK-2,TACT-1")]
    assert ids == ["BUCK-2", "TACT-1", "TACT-2", "NDOC-4"]


def test_a_selection_is_what_its_names_say_for_any_names() -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    source = random.Random(seed)
    names = [c.id for c in SPEC.contracts] + [area.id for area in SPEC.areas]
    for _ in range(50):
        wanted = source.sample(names, source.randint(1, 6))
        expected = [c for c in SPEC.contracts if c.id in wanted or c.area in wanted]
        assert list(contracts.select(SPEC, ",".join(wanted))) == expected
        assert list(contracts.select(SPEC, ",".join(wanted).lower())) == expected


@pytest.mark.parametrize(
    ("selection", "says"),
    [
        ("", "The contract selection is empty"),
        (" , ", "The contract selection is empty"),
        ("PUBL,", "'' is not in specification 1.0"),
        ("pubx", "'pubx' is not in specification 1.0; the nearest names are PUBL."),
        ("NDOC-44", "the nearest names are NDOC-4"),
        ("BUCK-1,PULB-1", "'PULB-1' is not in specification 1.0; the nearest names are PUBL-1"),
        ("GEMM9", "its areas are PATH, BUCK, TACT, NDOC, FIMP, MERG, PUBL."),
    ],
)
def test_a_selection_that_names_nothing_is_refused_with_advice(selection: str, says: str) -> None:
    with pytest.raises(ValueError) as caught:
        contracts.select(SPEC, selection)
    assert says in str(caught.value)


def test_an_unknown_contract_is_named() -> None:
    with pytest.raises(ValueError, match="'PUBL-99' is not in specification"):
        SPEC.contract("PUBL-99")


def test_importing_the_package_imports_nothing_heavy() -> None:
    names = [
        "results.deviations",
        "results.profile",
        "results.report",
        "results.reproducer",
        "results.verdicts",
        "specification.contracts",
        "views.badge",
        "views.table",
    ]
    code = (
        "import sys; "
        + "; ".join(f"import pytest_nvfp4.{name}" for name in names)
        + "; print(sorted({'pytest', 'hypothesis', 'numpy', 'jsonschema', 'syrupy', 'torch', "
        "'asyncio', 'urllib.request', 'xml.dom'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
