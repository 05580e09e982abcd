"""Reports in these tests are about the sample specification."""

import pytest

from .samples import SPEC


@pytest.fixture(autouse=True)
def sample_specification(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_nvfp4.results.report.packaged", lambda: SPEC)
