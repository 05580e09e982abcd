"""What the user types finds an implementation, or says in one sentence why it does not."""

import sys
import types

import pytest

from pytest_nvfp4.implementations.loader import TargetError, load
from pytest_nvfp4.implementations.smoke import examine
from pytest_nvfp4.implementations.transports import IN_PROCESS, JSON_LINES


class Maker:
    def describe(self):
        return {}


@pytest.fixture
def module(monkeypatch):
    """An importable module with all kinds of attributes."""
    made = types.ModuleType("made_up_adapter")
    made.Maker, made.instance, made.number = Maker, Maker(), 7
    made.make = Maker
    made.broken = lambda: 1 / 0
    made.needs = lambda argument: argument
    made.nested = types.SimpleNamespace(inner=Maker)
    monkeypatch.setitem(sys.modules, "made_up_adapter", made)


@pytest.mark.parametrize("attribute", ["Maker", "instance", "make", "nested.inner"])
def test_objects_classes_and_factories_are_adapters(module, attribute):
    target = load(f"made_up_adapter:{attribute}")
    assert isinstance(target.make_adapter(), Maker)
    assert target.transports == (IN_PROCESS, JSON_LINES)


def test_name_registered_as_served_gets_a_process_of_its_own_alone():
    target = load("flashinfer")
    assert target.transports == (JSON_LINES,)
    assert target.command[-1] == "flashinfer"


def test_registered_name():
    target = load("reference")
    assert type(target.make_adapter()).__module__ == "nvfp4_reference.adapter"


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("refrence", "did you mean 'reference'?"),
        ("", "known names: flashinfer, reference"),
        ("exec:", "needs a command"),
        ("exec:'", "cannot read the command"),
        ("exec:./no-such-adapter --flag", "no executable './no-such-adapter'"),
        ("a b:c", "not of the form"),
        ("module:", "unknown implementation"),
        (":attr", "not of the form"),
        ("os:path; import os", "not of the form"),
    ],
)
def test_unknown_implementation(text, part):
    with pytest.raises(TargetError, match=".") as caught:
        load(text)
    assert part in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("no_such_module_here:make", "cannot import 'no_such_module_here'"),
        ("made_up_adapter:absent", "has no attribute 'absent'"),
        ("made_up_adapter:broken", "ZeroDivisionError"),
        ("made_up_adapter:needs", "TypeError"),
        ("made_up_adapter:number", "none of the adapter's operations"),
    ],
)
def test_adapter_that_cannot_be_made(module, text, part):
    with pytest.raises(TargetError) as caught:
        load(text).make_adapter()
    assert part in str(caught.value)
    assert "\n" not in str(caught.value)


def test_executable_with_arguments_in_shell_quoting(tmp_path):
    program = tmp_path / "my adapter"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    target = load(f"exec:'{program}' --name 'a b' $HOME")
    assert target.command == (str(program), "--name", "a b", "$HOME"), "no shell may expand it"
    assert target.transports == (JSON_LINES,)
    with pytest.raises(TargetError, match="executable"):
        target.make_adapter()


class Liar:
    """Claims what it lacks and answers with what it should not."""

    def __init__(self, **answers):
        self.answers = answers

    def describe(self):
        good = {"protocol": 1, "name": "liar", "version": "1", "language": "Python", "homepage": ""}
        return good | {"capabilities": ["buckets"]} | self.answers.get("describe", {})

    def bucket(self, m):
        return self.answers.get("bucket", 512)


@pytest.mark.parametrize(
    ("answers", "part"),
    [
        ({}, "profiles: it is missing, though the capability buckets is claimed"),
        ({"bucket": "512"}, "bucket: the answer of bucket breaks the adapter interface"),
        ({"describe": {"protocol": 2}}, "describe: protocol is 2, but this suite speaks 1"),
        ({"describe": {"name": " "}}, "describe: name: Expected `str` matching regex"),
        (
            {"describe": {"capabilities": ["buckets", "magic"]}},
            "describe: capabilities[1]: Invalid enum value 'magic'",
        ),
        ({"describe": {"capabilities": ["tactics"]}}, "tactics is absent"),
        ({"describe": {"extra": 1}}, "describe: Object contains unknown field `extra`"),
    ],
)
def test_smoke_tells_a_broken_adapter_in_one_sentence(monkeypatch, answers, part):
    made = types.ModuleType("made_up_liar")
    made.liar = Liar(**answers)
    monkeypatch.setitem(sys.modules, "made_up_liar", made)
    problem = examine(load("made_up_liar:liar"), IN_PROCESS, 10).problem
    assert problem is not None
    assert part in problem


def test_smoke_finds_nothing_wrong_with_the_reference():
    for transport in (IN_PROCESS, JSON_LINES):
        examined = examine(load("reference"), transport, 60)
        assert examined.problem is None
        assert len(examined.checks) > 10
