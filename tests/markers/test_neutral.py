"""`gpu_lock` and `fresh_process` know nothing of NVFP4, so that they could be lifted out."""

import re
from pathlib import Path

import pytest

from pytest_nvfp4 import markers

ROOT = Path(markers.__file__).parent
# What would be lifted out with them.
NEIGHBOURS = ("pytest_nvfp4.markers.requests", "pytest_nvfp4.upstream", "pytest_nvfp4.errors")
WORDS = re.compile(r"nvfp4|fp4|plan.?(map|cache)|tactic|frozen.?map|flashinfer", re.IGNORECASE)
IMPORT = re.compile(r"\bpytest_nvfp4(\.\w+)+")


@pytest.mark.parametrize("name", ["gpu_lock", "fresh_process"])
def test_marker_does_not_name_what_is_tested(name):
    files = sorted((ROOT / name).rglob("*"))
    texts = {path: path.read_text() for path in files if path.suffix == ".py"}
    assert texts
    for path, text in texts.items():
        for match in IMPORT.finditer(text):
            inside = (f"pytest_nvfp4.markers.{name}", *NEIGHBOURS)
            assert match[0].startswith(inside), f"{path} names {match[0]}"
        word = WORDS.search(IMPORT.sub("", text))
        assert word is None, f"{path} says {word[0]!r}"
