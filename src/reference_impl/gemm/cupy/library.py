"""The shared library of one architecture: planned, built in parallel, and installed whole.

A library's name holds a digest of all that it is made of: our sources, the headers, the flags and
the compiler. So another card, CUDA or CUTLASS has another library, and a built one is never wrong.

It is built in a folder of its own beside its place and then renamed. Whoever is interrupted leaves
no library, and whoever is killed leaves a folder that the next build removes. Two processes that
want one library build it once: the second waits for the first.
"""

import contextlib
import fcntl
import hashlib
import importlib.resources
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from .architectures import TILES, VARIANTS, Architecture
from .compiling import Unit, compile_all, job_count, link
from .errors import BuildError
from .toolchain import BUILD_CACHE, Toolchain, cache_folder

Progress = Callable[[str], None]

_FLAGS = (
    "-std=c++17",
    "-O3",
    "-DNDEBUG",  # without it, assertions make the assembler serialize the tensor cores
    "--expt-relaxed-constexpr",
    "-Xcompiler=-fPIC,-fvisibility=hidden",
)
_KERNELS = importlib.resources.files(__package__).joinpath("kernels")
_logger = logging.getLogger(__package__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """All that decides a library, and where it is kept."""

    architecture: Architecture
    toolchain: Toolchain
    flags: tuple[str, ...]
    digest: str
    folder: Path

    @property
    def path(self) -> Path:
        """The library's place, whether or not it is built."""
        return self.folder / f"libnvfp4-{self.architecture.name}-{self.digest[:32]}.so"


def recipe(
    architecture: Architecture, toolchain: Toolchain, environment: Mapping[str, str]
) -> Recipe:
    """Work out which library is wanted. Reads the headers and asks nvcc its version."""
    folder = cache_folder(environment)
    flags = flags_of(architecture)
    digest = hashlib.sha256()
    parts = [
        toolchain.compiler_version(),
        toolchain.headers_digest(folder),
        repr(flags),
        *(repr(unit) for unit in units(architecture)),
        *(f"{name}\n{text}" for name, text in sorted(sources().items())),
    ]
    for part in parts:
        digest.update(f"{len(part)}\n{part}".encode())
    return Recipe(
        architecture=architecture,
        toolchain=toolchain,
        flags=flags,
        digest=digest.hexdigest(),
        folder=folder,
    )


def flags_of(architecture: Architecture) -> tuple[str, ...]:
    """The compiler's flags; the suffix `a` lets it use what this architecture alone has."""
    number = architecture.number
    return (
        *_FLAGS,
        f"-gencode=arch=compute_{number}a,code=sm_{number}a",
        f"-DNVFP4_ARCHITECTURE={number}",
    )


def sources() -> dict[str, str]:
    """Our kernel sources by file name."""
    return {
        file.name: file.read_text(encoding="utf-8")
        for file in _KERNELS.iterdir()
        if file.name.endswith((".cu", ".cuh", ".h"))
    }


def units(architecture: Architecture) -> list[Unit]:
    """What the compiler is run for, the longest first: each valid tile, and the rest."""
    found = []
    for index, tile in enumerate(TILES):
        if tile in architecture.invalid_tiles:
            continue
        ids = tuple(f"-DNVFP4_ID_{one}={VARIANTS * index + one}" for one in range(VARIANTS))
        sides = tuple(f"-DNVFP4_TILE_{side}={size}" for side, size in zip("MNK", tile, strict=True))
        step = architecture.variants_per_unit
        for first in range(0, VARIANTS, step):
            mask = sum(1 << one for one in range(first, first + step))
            name = f"{'x'.join(map(str, tile))}-{first}"
            defines = (*sides, *ids, f"-DNVFP4_VARIANTS={mask}")
            found.append(Unit(name=name, source="tactics.cu", defines=defines))
    # Larger tiles take longer, and whatever is begun last is waited for.
    return [*reversed(found), Unit(name="operations", source="operations.cu", defines=())]


def built(wanted: Recipe, environment: Mapping[str, str], progress: Progress | None = None) -> Path:
    """The library's path, after building it if nobody has; `BuildError` if that fails."""
    if wanted.path.is_file():
        return wanted.path
    tell = progress or _logger.info
    _create(wanted.folder)
    with _lock(wanted, tell):
        if not wanted.path.is_file():  # somebody else may have built it meanwhile
            _remove_remains(wanted)
            _build(wanted, environment, tell)
    return wanted.path


def _build(wanted: Recipe, environment: Mapping[str, str], tell: Progress) -> None:
    work = units(wanted.architecture)
    jobs = job_count(len(work), wanted.architecture.unit_bytes, environment)
    folder = Path(tempfile.mkdtemp(prefix=_prefix(wanted), dir=wanted.folder))
    try:
        for name, text in sources().items():
            (folder / name).write_text(text, encoding="utf-8")
        nvcc = str(wanted.toolchain.nvcc)
        command = [nvcc, *wanted.flags, "-isystem", str(wanted.toolchain.include)]
        tell(
            f"building {len(work)} units of {wanted.architecture.name} kernels with "
            f"{jobs} compilers at once."
        )
        objects = compile_all(command, work, folder, jobs, tell)
        library = folder / "library.so"
        link([nvcc, "-shared", "-cudart", "static"], objects, library, folder)
        _sync(library)
        os.replace(library, wanted.path)
        _sync(wanted.folder)
        tell(f"built {wanted.path}.")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _create(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BuildError(
            f"the folder {folder} for built kernels cannot be made ({error.strerror}); "
            f"set {BUILD_CACHE} to one that can."
        ) from error


@contextlib.contextmanager
def _lock(wanted: Recipe, tell: Progress) -> Iterator[None]:
    """One builder of this library at a time; the lock ends with its holder, however it ends."""
    with open(wanted.path.with_suffix(".lock"), "a", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            tell("waiting for another process that builds the same kernels.")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _remove_remains(wanted: Recipe) -> None:
    """Folders of builders that were killed; called under the lock, so none of them lives."""
    for folder in wanted.folder.glob(f"{_prefix(wanted)}*"):
        shutil.rmtree(folder, ignore_errors=True)


def _prefix(wanted: Recipe) -> str:
    return f".building-{wanted.architecture.name}-{wanted.digest[:32]}-"


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
