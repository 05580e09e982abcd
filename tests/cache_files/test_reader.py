"""Plans from a cache file, for tests that compare what a program wrote."""

import pytest

from pytest_nvfp4 import oracle
from pytest_nvfp4.cache_files import read_plans


@pytest.fixture
def document(tmp_path):
    """The binding oracle as a file."""
    path = tmp_path / "autotune_configs.json"
    path.write_bytes(oracle.load().document)
    return path


def test_plans_of_a_file(document):
    assert read_plans(document) == read_plans(str(document)) == oracle.load().plans


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (
            b"CutlassFp4GemmRunner",
            b"Another",
            "autotune_configs.json: bad-plan at .* \\(and 63 more",
        ),
        (b"{", b"[", "autotune_configs.json: syntax: line 2"),
    ],
)
def test_file_that_is_wrong_is_one_sentence(document, old, new, sentence):
    document.write_bytes(document.read_bytes().replace(old, new))
    with pytest.raises(ValueError, match=sentence) as caught:
        read_plans(document)
    assert "\n" not in str(caught.value)


def test_file_that_is_absent_is_one_sentence(tmp_path):
    with pytest.raises(ValueError, match="cannot open .*absent.json: No such file"):
        read_plans(tmp_path / "absent.json")
