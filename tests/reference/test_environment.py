"""Metadata, fingerprint and directory name."""

import random
import subprocess
import sys
from dataclasses import fields, replace

import pytest
from nvfp4_reference import ImportMetadata, NativeMetadata
from nvfp4_reference.environment import build_id

from .documents import GB10, edited, verdict

NAMES = [field.name for field in fields(NativeMetadata)]

DEVICE_NAMES = ["", ".", "..", "/", "a/b", "a\0b", "x" * 400, "\u00b5" * 300, "-", "\ud800"]
DEVICE_NAMES += ["NVIDIA GB10", "NVIDIA_GB10", "NVIDIA  GB10", "nvidia gb10"]


@pytest.mark.parametrize("name", NAMES)
def test_every_field_takes_part_in_fingerprint_and_directory(name: str) -> None:
    assert edited(name).fingerprint != GB10.fingerprint
    assert edited(name).directory != GB10.directory
    assert GB10.difference(edited(name)) == name


def test_the_directory_shows_device_and_fingerprint() -> None:
    assert GB10.directory.startswith("sm121-NVIDIA_GB10_-" + GB10.fingerprint)
    assert len(GB10.fingerprint) == 16
    assert GB10.format_directory == GB10.format


def test_any_device_name_makes_a_directory_of_its_own() -> None:
    made = [replace(GB10, gpu=name, format=name) for name in DEVICE_NAMES]
    for metadata in made:
        for component in (metadata.directory, metadata.format_directory):
            assert component.isascii()
            assert 0 < len(component) <= 255
            assert component not in {".", ".."}
            assert not set("/\0") & set(component)
    assert len({metadata.directory for metadata in made}) == len(DEVICE_NAMES)


def test_the_fingerprint_does_not_depend_on_the_process(rng: random.Random) -> None:
    script = "from nvfp4_reference import *; print(NativeMetadata.of_this_machine().fingerprint)"
    found = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={"PYTHONHASHSEED": str(rng.randrange(2**32))},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for _ in range(2)
    }
    assert found == {NativeMetadata.of_this_machine().fingerprint + "\n"}


def test_this_machine_is_definite() -> None:
    native, imported = NativeMetadata.of_this_machine(), ImportMetadata.of_this_machine()
    native.require(native)
    imported.require(imported)
    assert NativeMetadata.from_json(native.as_json()) == native
    assert list(native.as_json()) == sorted(NAMES)
    assert native.build_id == build_id()
    assert native.gpu.startswith("NumPy on ")


@pytest.mark.parametrize("value", ["", "unknown", "None"])
def test_an_indeterminate_value_matches_not_even_itself(value: str) -> None:
    vague = replace(GB10, cuda_driver=value)
    expected = ("indeterminate-environment", "_metadata.cuda_driver")
    assert verdict(vague.require, vague) == expected
    assert verdict(GB10.require, vague) == expected
    replace(GB10, cuda_driver="UNKNOWN").require(replace(GB10, cuda_driver="UNKNOWN"))


def test_another_format_is_unknown_and_not_foreign() -> None:
    other = replace(GB10, format="vllm.cpp_nvfp4_autotune_v2")
    assert verdict(other.require, other) == ("unknown-format", "_metadata.format")
    assert verdict(GB10.require, other) == ("unknown-format", "_metadata.format")
