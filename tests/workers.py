"""Over which worker processes a test is repeated.

Most behaviour is the same with and without pytest-xdist: the normal run sees it without, and
`make test-all` both ways. What each file is about is seen both ways in every run.
"""

import pytest

_WIDE = pytest.mark.wide

WORKERS = pytest.mark.parametrize("workers", ["-n0", pytest.param("-n2", marks=_WIDE)])
BOTH_WAYS = pytest.mark.parametrize("workers", ["-n0", "-n2"])
WITH_WORKERS = pytest.mark.parametrize("workers", [pytest.param("-n0", marks=_WIDE), "-n2"])
