"""What running the suite needs beyond a base install: the extra ``suite``."""

import importlib.util

from pytest_nvfp4.errors import UsageError

SUITE = ("hypothesis", "ml_dtypes", "msgspec", "numpy", "xdist")
"""The modules that the extra ``suite`` of pyproject.toml brings."""


def require_suite(what: str) -> None:
    """UsageError, one sentence about `what`, unless the extra ``suite`` is installed."""
    missing = [name for name in SUITE if not _installed(name)]
    if missing:
        raise UsageError(
            f"{what} needs {' and '.join(missing)}, which a base install leaves out; run: "
            "pip install 'pytest-nvfp4[suite]'"
        )


def _installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ValueError:  # a module that is in sys.modules without a specification
        return False
