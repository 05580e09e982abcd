"""The toolchain of the kernels: nvcc, and the headers of CUTLASS.

    NVFP4_REFERENCE_NVCC             the compiler; default: from CUDA_HOME, PATH, /usr/local/cuda
    NVFP4_REFERENCE_CUTLASS_INCLUDE  a folder with cutlass/ and cute/; default: flashinfer-python's
    NVFP4_REFERENCE_CUOBJDUMP        the disassembler of `inspect`; default: beside nvcc, or in PATH
    NVFP4_REFERENCE_BUILD_JOBS       the number of compilers at once; default: by cores and memory
    NVFP4_REFERENCE_BUILD_CACHE      the folder of built libraries; default: the user's cache folder

An empty variable counts as unset. The headers are found without an import, and nothing is run or
created before a build needs it.
"""

import contextlib
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ...errors import BuildError, UnavailableError

NVCC = "NVFP4_REFERENCE_NVCC"
CUTLASS_INCLUDE = "NVFP4_REFERENCE_CUTLASS_INCLUDE"
CUOBJDUMP = "NVFP4_REFERENCE_CUOBJDUMP"
BUILD_JOBS = "NVFP4_REFERENCE_BUILD_JOBS"
BUILD_CACHE = "NVFP4_REFERENCE_BUILD_CACHE"

PRODUCT = "nvfp4-reference"
OLDEST_CUTLASS = (4, 5, 0)
"""The oldest supported CUTLASS; older ones do not build the narrow tiles of sm_120a."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolchain:
    """A compiler and CUTLASS headers; `cutlass` is the version of the headers, such as `4.5.0`."""

    nvcc: Path
    include: Path
    cutlass: str

    def compiler_version(self) -> str:
        """The output of `nvcc --version`; `BuildError` if it does not run."""
        try:
            done = subprocess.run(
                [self.nvcc, "--version"], capture_output=True, text=True, timeout=60, check=True
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise BuildError(
                f"the compiler {self.nvcc} does not run ({error}); reinstall it or set {NVCC}."
            ) from error
        return done.stdout

    def headers_digest(self) -> str:
        """A digest over the path and the bytes of every header."""
        digest = hashlib.sha256()
        for name, entry in sorted(_headers(self.include), key=lambda one: one[0].split("/")):
            content = Path(entry.path).read_bytes()
            digest.update(f"{name} {len(content)}\n".encode())
            digest.update(content)
        return digest.hexdigest()

    def facts(self) -> str:
        """A text that changes with an edit of the compiler or a header: inodes, sizes and times.

        A script, or a program of another name such as ccache, can call any compiler, so its version
        is included as well.
        """
        with open(self.nvcc, "rb") as file:
            wrapper = file.read(2) == b"#!" or self.nvcc.resolve().name != "nvcc"
            compiler = _identity(os.fstat(file.fileno()))
        version = self.compiler_version() if wrapper else ""
        found = sorted((name, *_identity(entry.stat())) for name, entry in _headers(self.include))
        return repr((str(self.nvcc), compiler, version, str(self.include), found))


def _identity(found: os.stat_result) -> tuple[int, ...]:
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _headers(
    folder: Path, under: str = "", above: tuple[tuple[int, ...], ...] = ()
) -> Iterator[tuple[str, "os.DirEntry[str]"]]:
    """Every file below a folder with its relative path; links are followed."""
    found = os.stat(folder)
    here = found.st_dev, found.st_ino
    if here in above:  # a link to a folder above it
        return
    with os.scandir(folder) as entries:
        for entry in entries:
            name = f"{under}{entry.name}"
            if entry.is_dir():
                yield from _headers(Path(entry.path), f"{name}/", (*above, here))
            elif entry.is_file():
                yield name, entry


def find(environment: Mapping[str, str]) -> Toolchain:
    """Find the compiler and the headers; `UnavailableError` names the missing one."""
    nvcc = find_nvcc(environment)
    include = find_headers(environment)
    return Toolchain(nvcc=nvcc, include=include, cutlass=cutlass_version(include))


def find_nvcc(environment: Mapping[str, str]) -> Path:
    """The compiler that the variable names, or the first one in the usual places."""
    named = environment.get(NVCC)
    if named:
        if _executable(Path(named)):
            return Path(named).absolute()  # the build runs in another folder
        raise UnavailableError(f"{NVCC} is {named!r}, which is not a program; name nvcc.")
    homes = [environment[name] for name in ("CUDA_HOME", "CUDA_PATH") if environment.get(name)]
    on_path = shutil.which("nvcc", path=environment.get("PATH", ""))
    places = [
        *(Path(home, "bin", "nvcc") for home in homes),
        *([Path(on_path)] if on_path else []),
        Path("/usr/local/cuda/bin/nvcc"),
    ]
    for place in places:
        if _executable(place):
            return place.absolute()
    raise UnavailableError(
        f"there is no nvcc, which builds the kernels; install the CUDA toolkit or set {NVCC}."
    )


def find_cuobjdump(environment: Mapping[str, str]) -> Path:
    """NVIDIA's disassembler: the one that the variable names, next to nvcc, or in PATH."""
    named = environment.get(CUOBJDUMP)
    if named:
        if _executable(Path(named)):
            return Path(named)
        raise UnavailableError(f"{CUOBJDUMP} is {named!r}, which is not a program; name cuobjdump.")
    with contextlib.suppress(UnavailableError):
        beside = find_nvcc(environment).with_name("cuobjdump")
        if _executable(beside):
            return beside
    on_path = shutil.which("cuobjdump", path=environment.get("PATH", ""))
    if on_path is None:
        raise UnavailableError(
            "there is no cuobjdump, which disassembles kernels; install the CUDA toolkit, or "
            f"nvidia-cuda-cuobjdump and nvidia-cuda-nvdisasm from PyPI, and set {CUOBJDUMP}."
        )
    return Path(on_path)


def find_headers(environment: Mapping[str, str]) -> Path:
    """The include folder of CUTLASS that the variable names, or flashinfer-python's."""
    named = environment.get(CUTLASS_INCLUDE)
    if named:
        if _is_file(_version_header(Path(named))):
            return Path(named).absolute()
        raise UnavailableError(
            f"{CUTLASS_INCLUDE} is {named!r}, which has no cutlass/version.h; "
            "set it to the include folder of CUTLASS."
        )
    package = importlib.util.find_spec("flashinfer")
    for location in (package and package.submodule_search_locations) or ():
        include = Path(location, "data", "cutlass", "include")
        if _is_file(_version_header(include)):
            return include
    raise UnavailableError(
        "there are no CUTLASS headers; install flashinfer-python, which contains them, "
        f"or set {CUTLASS_INCLUDE}."
    )


def cutlass_version(include: Path) -> str:
    """The version of the headers; `UnavailableError` for one that is too old."""
    text = _version_header(include).read_text(errors="replace")
    numbers = tuple(
        int(found.group(1))
        for name in ("MAJOR", "MINOR", "PATCH")
        if (found := re.search(rf"#define\s+CUTLASS_{name}\s+(\d+)", text))
    )
    version = ".".join(map(str, numbers))
    if len(numbers) < 3 or numbers < OLDEST_CUTLASS:
        raise UnavailableError(
            f"the headers in {include} are CUTLASS {version or 'of an unknown version'}, and "
            f"the kernels need {'.'.join(map(str, OLDEST_CUTLASS))} or newer; install that."
        )
    return version


def cache_folder(environment: Mapping[str, str]) -> Path:
    """The folder of built libraries, which is not created here."""
    named = environment.get(BUILD_CACHE)
    if named:
        return Path(named).absolute()
    root = environment.get("XDG_CACHE_HOME", "")
    if not root.startswith("/"):
        home = environment.get("HOME", "")
        if not home.startswith("/"):
            raise UnavailableError(
                "there is no folder for the built kernels, since neither XDG_CACHE_HOME nor HOME "
                f"is an absolute path; set {BUILD_CACHE}."
            )
        root = f"{home}/.cache"
    return Path(root, PRODUCT, "kernels")


def _executable(path: Path) -> bool:
    return _is_file(path) and os.access(path, os.X_OK)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a parent folder cannot be searched, or the name is too long
        return False


def _version_header(include: Path) -> Path:
    return include / "cutlass" / "version.h"
