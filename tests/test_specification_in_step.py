"""Ids, tests and documentation name each other, in both directions."""

import ast
import re
from pathlib import Path

from pytest_nvfp4.specification import contracts

ROOT = Path(__file__).parent.parent
SPECIFICATION = contracts.packaged()
FILES = {
    "PATH": "test_options.py",
    "BUCK": "test_buckets.py",
    "TACT": "test_tactics.py",
    "NDOC": "test_native_document.py",
    "FIMP": "test_flashinfer_import.py",
    "MERG": "test_merge.py",
    "PUBL": "test_publication.py",
    "LOOK": "test_lookup.py",
    "FLIT": "test_single_flight.py",
    "PROF": "test_profiling.py",
    "WARM": "test_warm_up.py",
    "FROZ": "test_frozen.py",
    "CAPT": "test_capture.py",
    "DIAG": "test_diagnostics.py",
    "FRSH": "test_fresh_processes.py",
    "GEMM": "test_gemm.py",
    "RANK": "test_ranks.py",
}


def proven(path):
    """(contract id, test function) of every test in a file; a test without an id is an error."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            ids = [
                d.args[0].value
                for d in node.decorator_list
                if isinstance(d, ast.Call) and ast.unparse(d.func) == "contract"
            ]
            assert len(ids) == 1, f"{path.name}::{node.name} proves {ids}"
            yield ids[0], node


def all_proven():
    return [
        (i, n, p) for p in sorted((ROOT / "conformance").glob("test_*.py")) for i, n in proven(p)
    ]


def test_every_contract_has_a_test_and_every_test_a_contract():
    known = {contract.id for contract in SPECIFICATION.contracts}
    assert {contract_id for contract_id, _, _ in all_proven()} == known


def test_area_is_the_file():
    assert {area.id for area in SPECIFICATION.areas} == set(FILES)
    for contract_id, node, path in all_proven():
        assert path.name == FILES[contract_id.partition("-")[0]], node.name


VERDICTS = {"accepts", "rejects", "agrees", "agrees_on_each", "skip", "fail", "assert_not_called"}
"""What decides about a case, besides a statement that asserts."""


def decides(node, deciding):
    """Whether a function asserts, or calls one that does."""
    called = {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}
    called |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    asserts = any(isinstance(n, ast.Assert) for n in ast.walk(node))
    return asserts or bool(called & (VERDICTS | deciding))


def test_every_test_asserts_something():
    for path in sorted((ROOT / "conformance").glob("test_*.py")):
        functions = [n for n in ast.parse(path.read_text()).body if isinstance(n, ast.FunctionDef)]
        helpers = [n for n in functions if not n.name.startswith("test_")]
        deciding = set()
        while more := {n.name for n in helpers if decides(n, deciding)} - deciding:
            deciding |= more
        for node in functions:
            if node.name.startswith("test_"):
                assert decides(node, deciding), f"{path.name}: {node.name} cannot fail"


def test_page_of_contracts_is_generated_from_the_specification():
    page = (ROOT / "conformance" / "CONTRACTS.md").read_text()
    assert page == contracts.markdown(SPECIFICATION)
    assert set(re.findall(r"^\| ([A-Z]{4}-\d+) ", page, re.MULTILINE)) == {
        contract.id for contract in SPECIFICATION.contracts
    }


def test_readme_names_every_area():
    readme = (ROOT / "README.md").read_text()
    assert set(FILES) <= set(re.findall(r"\b[A-Z]{4}\b", readme))
