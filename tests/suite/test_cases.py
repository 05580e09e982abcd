"""The suite expands its own parameters, by the rules for ids that pytest has by default."""

import types

import pytest

from pytest_nvfp4.specification.contracts import packaged
from pytest_nvfp4.suite import cases, contract, over, requires


def expanded(monkeypatch, tmp_path, *functions):
    module = types.ModuleType("test_made_up")
    for function in functions:
        function.__module__ = module.__name__
        setattr(module, function.__name__, function)
    monkeypatch.setattr(cases, "module_of", lambda file: module)
    path = tmp_path / "test_made_up.py"
    return list(cases.cases_of(path, packaged(), ["in process", "JSON lines"]))


def test_names_have_the_ids_of_parameters_and_the_transport(monkeypatch, tmp_path):
    @contract("BUCK-1")
    @over("JSON lines")
    @pytest.mark.parametrize("last", [None, True, 2, 2.5, "µ\n", b"\xff\0", (1, 2), "x" * 101])
    @pytest.mark.parametrize(("first", "second"), [("a", 1), ("", {})])
    def test_it(nvfp4, first, second, last):
        """Never run."""

    found = expanded(monkeypatch, tmp_path, test_it)
    lasts = ("None", "True", "2", "2.5", r"\xb5\n", r"\xff\x00", "last6", "last7")
    ids = [f"{pair}-{last}" for pair in ("a-1", "-second1") for last in lasts]
    assert [case.name for case in found] == [f"it[{one}]" for one in ids]
    assert [case.item for case in found] == [f"test_it[{one}-json-lines]" for one in ids]
    assert found[0].nodeid == "conformance/test_made_up.py::test_it[a-1-None-json-lines]"
    assert found[0].parameters == {"first": "a", "second": 1, "last": None}


def test_an_empty_id_leaves_no_brackets_in_the_name(monkeypatch, tmp_path):
    @contract("BUCK-1")
    @pytest.mark.parametrize("value", [""])
    def test_it(nvfp4, value):
        """Never run."""

    found = expanded(monkeypatch, tmp_path, test_it)
    assert [(case.name, case.item) for case in found] == [
        ("it", "test_it[-in-process]"),
        ("it", "test_it[-json-lines]"),
    ]


def test_a_test_without_the_tools_has_no_transport(monkeypatch, tmp_path):
    @contract("RANK-1")
    def test_it():
        """Never run."""

    (case,) = expanded(monkeypatch, tmp_path, test_it)
    assert (case.transport, case.item, case.wants_tools) == ("none", "test_it", False)


def test_needs_are_those_of_the_test_and_of_its_parameters(monkeypatch, tmp_path):
    @contract("BUCK-1")
    @requires("options")
    @over("in process")
    @pytest.mark.parametrize("kind", ["a", pytest.param("b", marks=requires("keeps-native"))])
    def test_it(nvfp4, kind):
        """Never run."""

    found = expanded(monkeypatch, tmp_path, test_it)
    assert [case.needs for case in found] == [{"options"}, {"options", "keeps-native"}]


def test_two_cases_of_one_name_are_refused(monkeypatch, tmp_path):
    @contract("BUCK-1")
    @pytest.mark.parametrize("value", [1, "1"])
    def test_it(nvfp4, value):
        """Never run."""

    with pytest.raises(ValueError, match="two cases have this name; give their values ids"):
        expanded(monkeypatch, tmp_path, test_it)
