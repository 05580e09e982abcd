"""syrupy, beside which this package keeps snapshots of its own and starts processes.

`pytest_nvfp4.snapshot.extension` implements the extension that syrupy documents; only there and
here is syrupy imported or configured.
"""

import pytest

from pytest_nvfp4.upstream.runs import set_option

__all__ = ["keep_unused"]


def keep_unused(config: pytest.Config) -> None:
    """As a run ends, let syrupy write what has changed, but call nothing unused, nor delete it.

    Before syrupy's own `pytest_sessionfinish`. Reason: as a run ends, syrupy takes for unused what
    no test of this process has used, and deletes that when it updates. Where tests ran in other
    processes, no process has seen all of them.
    """
    set_option(config, "disable_unused_snapshots", True)
    # Before syrupy 7.0, which has no such option:
    set_option(config, "warn_unused_snapshots", True)
    set_option(config, "update_snapshots", False)
