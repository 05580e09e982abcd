"""The recipe of a kernel library: a digest of everything that it is built from, and its path.

The name of a library contains a digest of the kernel sources, the headers, the flags and the
compiler. So another card, CUDA or CUTLASS has another library, and an existing one is never stale.

Each start needs the digest, but to read all headers takes longer than a start on a frozen map may.
So a digest is stored next to the libraries, in a file whose name depends on the inodes, sizes and
times of its inputs.
"""

import contextlib
import hashlib
import importlib.resources
import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ...errors import UnavailableError
from .architectures import TILES, VARIANTS, Architecture
from .toolchain import CUTLASS_INCLUDE, NVCC, Toolchain, cache_folder

_FLAGS = (
    "-std=c++17",
    "-O3",
    "-DNDEBUG",  # with assertions, the assembler serializes the tensor cores
    "--expt-relaxed-constexpr",
    "-Xcompiler=-fPIC,-fvisibility=hidden",
)
_INHERITED = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN")
"""The variables from which nvcc reads more flags and another host compiler."""

_KERNELS = importlib.resources.files(__package__).joinpath("kernels")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One run of the compiler: a source and its macro definitions.

    Its `repr` is part of the digest, so a change of these names changes every library.
    """

    name: str
    source: str
    defines: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Everything that determines a library, and the folder that it is in."""

    architecture: Architecture
    toolchain: Toolchain
    flags: tuple[str, ...]
    digest: str
    folder: Path

    @property
    def path(self) -> Path:
        """The path of the library, built or not."""
        return self.folder / f"libnvfp4-{self.architecture.name}-{self.digest[:32]}.so"


def recipe(
    architecture: Architecture, toolchain: Toolchain, environment: Mapping[str, str]
) -> Recipe:
    """The recipe of the library that this toolchain builds. Builds nothing.

    `UnavailableError` where the compiler or the headers cannot be read.
    """
    folder = cache_folder(environment)
    flags = flags_of(architecture)
    ours = [
        repr(flags),
        *(repr(unit) for unit in units(architecture)),
        *(f"{name}\n{text}" for name, text in sorted(sources().items())),
        *(f"{name}={os.environ[name]}" for name in _INHERITED if os.environ.get(name)),
    ]
    try:
        note = folder / f"digest-{_digest([toolchain.facts(), *ours])[:32]}"
        digest = _remembered(note)
        if digest is None:
            digest = _digest([toolchain.compiler_version(), toolchain.headers_digest(), *ours])
            _remember(note, digest)
    except OSError as error:
        raise UnavailableError(
            f"the compiler or the headers cannot be read ({error}); make it readable, or name "
            f"others with {NVCC} and {CUTLASS_INCLUDE}."
        ) from error
    return Recipe(
        architecture=architecture,
        toolchain=toolchain,
        flags=flags,
        digest=digest,
        folder=folder,
    )


def _digest(parts: list[str]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(f"{len(part)}\n{part}".encode())
    return digest.hexdigest()


def _remembered(note: Path) -> str | None:
    """The digest in a stored file; None where it has none."""
    try:
        known = note.read_text(encoding="ascii")
    except (OSError, UnicodeError):
        return None
    return known if re.fullmatch("[0-9a-f]{64}", known) else None


def _remember(note: Path, digest: str) -> None:
    """Store a digest; where that fails, the next start computes it again."""
    with contextlib.suppress(OSError):
        note.parent.mkdir(parents=True, exist_ok=True)
        # Each writer has its own temporary file, since containers can share process ids.
        descriptor, draft = tempfile.mkstemp(prefix=f".{note.name}-", dir=note.parent)
        with open(descriptor, "w", encoding="ascii") as file:
            file.write(digest)
        os.replace(draft, note)


def flags_of(architecture: Architecture) -> tuple[str, ...]:
    """The compiler's flags; the suffix `a` enables the features of this architecture alone."""
    number = architecture.number
    return (
        *_FLAGS,
        f"-gencode=arch=compute_{number}a,code=sm_{number}a",
        f"-DNVFP4_ARCHITECTURE={number}",
    )


def sources() -> dict[str, str]:
    """The text of each kernel source, by file name."""
    return {
        file.name: file.read_text(encoding="utf-8")
        for file in _KERNELS.iterdir()
        if file.name.endswith((".cu", ".cuh", ".h"))
    }


def units(architecture: Architecture) -> list[Unit]:
    """The compiler runs, the longest first: those of each valid tile, and the operations."""
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
    # Larger tiles take longer, so they come first.
    return [*reversed(found), Unit(name="operations", source="operations.cu", defines=())]
