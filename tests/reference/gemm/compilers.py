"""A compiler that compiles nothing, and a toolchain around it, for tests of the build."""

import sys
from pathlib import Path

from nvfp4_reference.gemm.cupy import toolchain

FAKE = """#!{python} -IS
import os, pathlib, signal, sys
arguments = sys.argv[1:]
folder = pathlib.Path(__file__).parent
if "--version" in arguments:
    print((folder / "version").read_text())
    sys.exit()
output = pathlib.Path(arguments[arguments.index("-o") + 1])
with open(folder / "calls", "a") as calls:
    calls.write(" ".join(arguments) + "\\n")
how = (folder / "behaviour").read_text()
if how.startswith("fail") and how.split()[1] in output.name:
    print("tactics.cu(7): error: a planted mistake")
    print("more about it")
    sys.exit(2)
if how == "hang":
    with open(folder / "pipe", "w") as pipe:
        pipe.write(f"{{os.getpid()}}\\n")
        pipe.flush()
        output.write_bytes(b"half")
        while True:
            signal.pause()
output.write_bytes(b"made of " + " ".join(arguments).encode())
"""


def fake_toolchain(folder: Path, behaviour: str = "work") -> dict[str, str]:
    """Variables that name a compiler and headers in `folder`, and a cache there."""
    include = folder / "include"
    (include / "cutlass").mkdir(parents=True)
    (include / "cute").mkdir()
    (include / "cute" / "tensor.hpp").write_text("// tensor\n")
    version = "#define CUTLASS_MAJOR 4\n#define CUTLASS_MINOR 5\n#define CUTLASS_PATCH 1\n"
    (include / "cutlass" / "version.h").write_text(version)
    nvcc = folder / "nvcc"
    nvcc.write_text(FAKE.format(python=sys.executable))
    nvcc.chmod(0o755)
    (folder / "version").write_text("release 13.0")
    (folder / "behaviour").write_text(behaviour)
    (folder / "calls").touch()
    return {
        toolchain.NVCC: str(nvcc),
        toolchain.CUTLASS_INCLUDE: str(include),
        toolchain.BUILD_CACHE: str(folder / "cache"),
        toolchain.BUILD_JOBS: "3",
    }
