"""FIMP-11 reads what FlashInfer wrote; without one it is skipped by name, with a wrong one refused."""

import sys

import pytest
from faulty import writer
from workers import WITH_WORKERS

FIMP_11 = "--nvfp4-contract=FIMP-11"


@WITH_WORKERS
def test_document_is_imported_over_both_transports(pytester, conformance, verdicts, workers):
    python = writer.place(pytester.path)
    result = conformance(FIMP_11, f"--nvfp4-flashinfer={python.name}", workers)
    assert verdicts(result) == {"FIMP-11": "passed"}, result.stdout.str()
    cases = result.report["contracts"][0]["cases"]
    assert {case["transport"] for case in cases} == {"in process", "JSON lines"}
    assert result.ret == 0


def test_reader_that_drops_plans_fails(pytester, conformance, verdicts):
    python = writer.place(pytester.path)
    faulty = "faulty.variants.imports:PackedK"
    result = conformance(FIMP_11, f"--nvfp4-flashinfer={python}", "--tb=no", impl=faulty)
    assert verdicts(result) == {"FIMP-11": "failed"}


def test_without_a_flashinfer_it_is_skipped_by_name(conformance, verdicts):
    result = conformance(FIMP_11)
    assert verdicts(result) == {"FIMP-11": "skipped"}
    case = result.report["contracts"][0]["cases"][0]
    assert "--nvfp4-flashinfer PYTHON names it" in case["message"]


def test_other_contracts_start_no_flashinfer(pytester, conformance):
    result = conformance("--nvfp4-contract=BUCK-2", "--nvfp4-flashinfer=true")
    assert result.ret == 0


@pytest.mark.parametrize(
    ("python", "part"),
    [
        ("nowhere/python", "is 'nowhere/python'; name a Python that can be run"),
        ("false", "wrote no document: the executable ended"),
        (sys.executable, "FlashInfer cannot be imported here"),
        ("0.7.4", "FIMP-11 is about FlashInfer 0.6.13, but"),
        ("reference", "FIMP-11 is about FlashInfer 0.6.13, but"),
    ],
    ids=["nowhere", "no Python", "no FlashInfer", "another version", "another name"],
)
def test_python_that_is_of_no_use_is_refused(pytester, conformance, python, part):
    if python == "0.7.4":
        python = writer.place(pytester.path, version=python)
    elif python == "reference":
        python = writer.place(pytester.path, name=python)
    result = conformance(FIMP_11, f"--nvfp4-flashinfer={python}")
    output = result.stdout.str() + result.stderr.str()
    assert result.ret == 4, output
    assert part in output
    assert "Traceback" not in output
