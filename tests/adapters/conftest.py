"""Where FlashInfer is, if it was installed here."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(params=["0.6.13", "0.7.4"])
def installed(request):
    """(version, the folder of an environment with it); skips by name where it was not built."""
    home = ROOT / "build" / f"flashinfer-{request.param}"
    if not (home / "ready").exists():
        pytest.skip(f"needs FlashInfer {request.param}; `make flashinfer` installs it")
    return request.param, home
