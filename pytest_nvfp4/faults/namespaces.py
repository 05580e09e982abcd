"""Start a child in a process-id namespace of its own, as a container does."""

import shutil
import subprocess

import pytest

_WORDS = ("unshare", "--pid", "--fork", "--kill-child", "--")


def own_process_ids() -> tuple[str, ...]:
    """The command words to put before the child's; skips the calling test where that is denied.

    Every such child gets the same process ids, counted from 1.
    """
    if shutil.which(_WORDS[0]) is None:
        pytest.skip("needs unshare (util-linux) to give two children the same process ids")
    probe = subprocess.run([*_WORDS, "true"], capture_output=True, text=True, check=False)
    if probe.returncode:
        pytest.skip(f"needs process-id namespaces, which are denied here ({probe.stderr.strip()})")
    return _WORDS
