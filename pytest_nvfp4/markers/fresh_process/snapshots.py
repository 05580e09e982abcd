"""Beside syrupy: its snapshots, where tests use them in processes of their own.

As a run ends, syrupy takes for unused what no test has used, and deletes that when it updates. But
no process has seen all tests: not a fresh one, and not its parent.
"""

import pytest

SNAPSHOTS = "nvfp4_fresh_snapshots"
"""The attribute of a report whose test has used the fixture `snapshot` in a fresh process."""


def keep_snapshots(config: pytest.Config) -> None:
    """As a run ends, let syrupy write what has changed, but call nothing unused."""
    for name, value in (
        ("disable_unused_snapshots", True),
        # Before syrupy 7, which has no such option:
        ("warn_unused_snapshots", True),
        ("update_snapshots", False),
    ):
        if hasattr(config.option, name):
            setattr(config.option, name, value)
