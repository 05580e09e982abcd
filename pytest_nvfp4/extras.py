"""What running the suite needs beyond a base install: the extra ``suite``."""

import importlib.util
from collections.abc import Sequence

from pytest_nvfp4.errors import UsageError

SUITE = ("hypothesis", "ml_dtypes", "msgspec", "numpy", "tomli_w", "xdist")
"""The modules that the extra ``suite`` of pyproject.toml brings."""


def require_suite(what: str) -> None:
    """UsageError, one sentence about `what`, unless the extra ``suite`` is installed."""
    absent = [name for name in SUITE if not _installed(name)]
    if absent:
        raise UsageError(missing(what, absent))


def missing(what: str, modules: Sequence[str]) -> str:
    """The sentence for modules of the extra ``suite`` that are not installed."""
    names = " and ".join(filter(None, [", ".join(modules[:-1]), modules[-1]]))
    return (
        f"{what} needs {names}, which a base install leaves out; run: "
        "pip install 'pytest-nvfp4[suite]'"
    )


def _installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ValueError:  # it is blocked in sys.modules
        return False
