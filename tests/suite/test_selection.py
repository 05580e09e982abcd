"""What is selected, from where, and what a run says about itself."""

import json
import random
import xml.etree.ElementTree as ET

import jsonschema
import pytest
from workers import WITH_WORKERS, WORKERS

from pytest_nvfp4.results import report


def test_contracts_and_areas_are_selected(conformance, verdicts):
    result = conformance("--nvfp4-contract", "BUCK, TACT-2,MERG-3")
    assert list(verdicts(result)) == ["BUCK-1", "BUCK-2", "BUCK-3", "TACT-2", "MERG-3"]
    assert result.report["run"]["complete"] is False


def test_level_must_leaves_out_should(conformance, verdicts):
    result = conformance("--nvfp4-contract", "PUBL-3,PUBL-10", "--nvfp4-level", "must")
    assert list(verdicts(result)) == ["PUBL-3"]


def test_environment_and_ini_are_read_with_one_precedence(
    pytester, conformance, verdicts, monkeypatch
):
    pytester.makeini("[pytest]\nnvfp4_contract = BUCK-1\nnvfp4_level = must\n")
    result = conformance()
    assert list(verdicts(result)) == ["BUCK-1"]
    result.stdout.fnmatch_lines(["*contract from nvfp4_contract in the ini file*"])
    monkeypatch.setenv("NVFP4_CONTRACT", "BUCK-2")
    result = conformance()
    assert list(verdicts(result)) == ["BUCK-2"]
    result.stdout.fnmatch_lines(["*contract from NVFP4_CONTRACT*"])
    assert list(verdicts(conformance("--nvfp4-contract=BUCK-3"))) == ["BUCK-3"]


def test_environment_alone_turns_the_suite_on(pytester, monkeypatch):
    monkeypatch.setenv("NVFP4_CONFORMANCE", "1")
    monkeypatch.setenv("NVFP4_CONTRACT", "BUCK-2")
    monkeypatch.setenv("NVFP4_IMPL", "reference")
    result = pytester.runpytest_subprocess("-p", "nvfp4")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*BUCK  M buckets*"])


@WORKERS
def test_random_data_follows_from_the_seed(conformance, workers):
    seed = random.SystemRandom().randrange(2**32)
    result = conformance("--nvfp4-contract", "BUCK-1", f"--nvfp4-seed={seed}", workers)
    assert result.report["run"]["seed"] == seed
    result.stdout.fnmatch_lines([f"*seed {seed}*"])


def test_seeds_are_fresh_in_every_run(conformance):
    seeds = {conformance("--nvfp4-contract", "BUCK-2").report["run"]["seed"] for _ in range(2)}
    assert len(seeds) == 2


@WITH_WORKERS
def test_report_satisfies_its_schema_and_verifies(conformance, workers):
    import importlib.resources

    result = conformance("--nvfp4-contract", "BUCK,FIMP-11", workers)
    schema = json.loads(
        (importlib.resources.files("pytest_nvfp4.results") / "report.schema.json").read_text()
    )
    jsonschema.validate(result.report, schema)
    assert report.verify(result.report) == []
    skipped = next(c for c in result.report["contracts"] if c["id"] == "FIMP-11")
    assert skipped["verdict"] == "skipped"
    assert "FlashInfer" in skipped["cases"][0]["message"]


@pytest.mark.parametrize("narrowing", [("-k", "zero"), ("-x", "--maxfail=1"), ("--deselect", "x")])
@WORKERS
def test_narrowed_run_is_not_complete(conformance, pytester, narrowing, workers):
    badge = pytester.path / "badge.json"
    pytester.makeconftest(
        "def pytest_collection_modifyitems(items): items[:] = items[:-1]"
        if narrowing[0] == "--deselect"
        else "import os"
    )
    impl = "faulty.lenient:Lenient" if narrowing[0] == "-x" else "reference"
    result = conformance(
        "--nvfp4-contract",
        "NDOC-9,NDOC-8,BUCK-1",
        workers,
        *narrowing,
        f"--nvfp4-badge={badge}",
        impl=impl,
    )
    assert result.report["run"]["complete"] is False
    assert json.loads(badge.read_text())["isError"] is True


def test_complete_run_earns_a_badge_in_both_forms(conformance, pytester):
    svg, endpoint = pytester.path / "b.svg", pytester.path / "b.json"
    badges = (f"--nvfp4-badge={svg}", f"--nvfp4-badge={endpoint}")
    result = conformance("-n2", *badges, impl="faulty.partial:Reader")
    assert result.ret == 0, result.stdout.str()
    assert result.report["run"]["complete"] is True
    shield = json.loads(endpoint.read_text())
    assert shield["message"].startswith("reader · MUST ")
    assert shield["color"] == "green"
    assert "isError" not in shield
    assert shield["message"] in ET.fromstring(svg.read_text()).get("aria-label", "")
    verdicts = {c["area"]: c["verdict"] for c in result.report["contracts"]}
    assert {area for area, verdict in verdicts.items() if verdict == "passed"} == {
        "BUCK",
        "TACT",
        "NDOC",
    }
    assert verdicts.pop("RANK") == "skipped", "a future contract is listed, and skipped by name"
    assert set(verdicts.values()) == {"passed", "not_claimed"}
    transports = {case["transport"] for c in result.report["contracts"] for case in c["cases"]}
    assert transports == {"in process", "JSON lines", "none"}


def test_junit_has_contract_level_and_verdict(conformance, pytester):
    conformance("--nvfp4-contract", "BUCK-2,FIMP-11", "--junitxml=junit.xml")
    cases = ET.parse(pytester.path / "junit.xml").iter("testcase")
    found = set()
    for case in cases:
        properties = {p.get("name"): p.get("value") for p in case.iter("property")}
        found.add(tuple(properties[f"nvfp4_{name}"] for name in ("contract", "level", "verdict")))
    assert found == {("BUCK-2", "must", "passed"), ("FIMP-11", "must", "skipped")}


def test_workers_draw_the_data_of_the_seed_that_the_run_names(conformance):
    def shown(*arguments):
        result = conformance("--nvfp4-contract=FIMP-7", *arguments, impl="faulty.lenient:Lenient")
        cases = [case for one in result.report["contracts"] for case in one["cases"]]
        seen = {
            (case["case"], case["transport"]): case.get("reproduction", "").partition("document,")[
                2
            ]
            for case in cases
        }
        return result.report["run"]["seed"], seen

    seed, by_workers = shown("-n2")
    _, again = shown("-n0", f"--nvfp4-seed={seed}")
    assert any(by_workers.values())
    assert by_workers == again
