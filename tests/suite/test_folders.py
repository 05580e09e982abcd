"""Temporary folders of cases end with their case, or stay where pytest keeps those of failures."""

import pytest

from pytest_nvfp4.suite.folders import Folders


@pytest.fixture
def folders(pytester):
    """``folders(basetemp, policy)`` of a pytest that was called with these settings."""

    def make(basetemp=None, policy="all"):
        config = pytester.parseconfig("-o", f"tmp_path_retention_policy={policy}")
        config.option.basetemp = basetemp
        return Folders(config)

    return make


@pytest.mark.parametrize("failed", [False, True])
def test_nothing_is_left_without_a_base_folder(folders, failed):
    made = folders()
    folder = made.make("test_it[odd / name]")
    (folder / "file").write_text("content")
    made.release(folder, failed=failed)
    made.close()
    assert not folder.parent.exists()


@pytest.mark.parametrize(
    ("policy", "failed", "kept"),
    [("all", True, True), ("failed", True, True), ("none", True, False), ("all", False, False)],
)
def test_failed_cases_keep_their_folder_below_basetemp(folders, tmp_path, policy, failed, kept):
    base = tmp_path / "base"
    made = folders(base, policy)
    folder = made.make("test_it")
    assert folder.is_relative_to(base)
    made.release(folder, failed=failed)
    made.close()
    assert folder.exists() is folder.parent.exists() is kept
