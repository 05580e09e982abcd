"""Start a child among process ids of its own, as a container does."""

import shutil
import subprocess

import pytest

_WORDS = ("unshare", "--pid", "--fork", "--kill-child", "--")


def own_process_ids() -> tuple[str, ...]:
    """The command words that do it; skips the calling test, by name, where that is not allowed.

    Every child started so gets the same process ids, counted from 1.
    """
    if shutil.which(_WORDS[0]) is None:
        pytest.skip("needs unshare (util-linux) to give two children the same process ids")
    probe = subprocess.run([*_WORDS, "true"], capture_output=True, text=True, check=False)
    if probe.returncode:
        pytest.skip(f"needs process-id namespaces, which are denied here ({probe.stderr.strip()})")
    return _WORDS
