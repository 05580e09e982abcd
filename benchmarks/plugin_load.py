"""The time that loading the plugin adds to ``pytest --collect-only`` of one test."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from sidebyside import main, medians, unit

BAR = 0.020


def measure() -> int:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "test_one.py").write_text("def test_one(): pass\n")
        environment = dict(os.environ) | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}

        def collect(*plugin: str) -> None:
            command = [sys.executable, "-m", "pytest", "--collect-only", "-q", *plugin]
            subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=True)

        without, with_plugin = medians(collect, lambda: collect("-p", "nvfp4"), rounds=25, number=1)
    added = with_plugin - without
    sides = f"without {unit(without)}, with -p nvfp4 {unit(with_plugin)}"
    print(f"{sides}: {added * 1e3:.1f} ms more (bar 20 ms)")
    return int(added > BAR)


main(measure)
