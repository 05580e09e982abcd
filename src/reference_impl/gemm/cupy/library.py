"""The shared library of one architecture: built in parallel, and installed whole.

It is built in a folder of its own beside its place and then renamed. Whoever is interrupted leaves
no library, and whoever is killed leaves a folder that the next build removes. Two processes that
want one library build it once: the second waits for the first.
"""

import contextlib
import fcntl
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from ...errors import BuildError
from .compiling import compile_all, job_count, link
from .recipe import Recipe, sources, units
from .toolchain import BUILD_CACHE

Progress = Callable[[str], None]

_logger = logging.getLogger(__package__)


def built(wanted: Recipe, environment: Mapping[str, str], progress: Progress | None = None) -> Path:
    """The library's path, after building it if nobody has; `BuildError` if that fails."""
    tell = progress or _logger.info
    try:
        if wanted.path.is_file():
            return wanted.path
        wanted.folder.mkdir(parents=True, exist_ok=True)
        with _lock(wanted, tell):
            if not wanted.path.is_file():  # somebody else may have built it meanwhile
                _remove_remains(wanted)
                _build(wanted, environment, tell)
    except OSError as error:
        raise BuildError(
            f"the kernels cannot be built in {wanted.folder} ({error}); "
            f"set {BUILD_CACHE} to a folder that can be written."
        ) from error
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
