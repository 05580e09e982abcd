"""The shared library of one architecture, built in parallel and installed in one step.

It is built in a temporary folder next to its place and then renamed. An interrupted build leaves no
library; a killed build leaves a folder, which the next build removes. Where two processes need the
same library, the second one waits until the first has built it.
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
    """The path of the library, which is built where it does not exist.

    `BuildError` where that fails. `progress` gets a sentence for each step; the default is the log.
    """
    report = progress or _logger.info
    try:
        if wanted.path.is_file():
            return wanted.path
        wanted.folder.mkdir(parents=True, exist_ok=True)
        with _lock(wanted, report):
            if not wanted.path.is_file():  # another process may have built it
                _remove_killed_builds(wanted)
                _build(wanted, environment, report)
    except OSError as error:
        raise BuildError(
            f"the kernels cannot be built in {wanted.folder} ({error}); "
            f"set {BUILD_CACHE} to a writable folder."
        ) from error
    return wanted.path


def _build(wanted: Recipe, environment: Mapping[str, str], report: Progress) -> None:
    work = units(wanted.architecture)
    jobs = job_count(len(work), wanted.architecture.unit_bytes, environment)
    folder = Path(tempfile.mkdtemp(prefix=_prefix(wanted), dir=wanted.folder))
    try:
        for name, text in sources().items():
            (folder / name).write_text(text, encoding="utf-8")
        nvcc = str(wanted.toolchain.nvcc)
        command = [nvcc, *wanted.flags, "-isystem", str(wanted.toolchain.include)]
        report(
            f"building {len(work)} units of {wanted.architecture.name} kernels with "
            f"{jobs} compilers at once."
        )
        objects = compile_all(command, work, folder, jobs, report)
        library = folder / "library.so"
        link([nvcc, "-shared", "-cudart", "static"], objects, library, folder)
        _sync(library)
        os.replace(library, wanted.path)
        _sync(wanted.folder)
        report(f"built {wanted.path}.")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _lock(wanted: Recipe, report: Progress) -> Iterator[None]:
    """Hold the lock of this library's builders; the kernel releases it when its holder ends."""
    with open(wanted.path.with_suffix(".lock"), "a", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report("waiting for another process that builds the same kernels.")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _remove_killed_builds(wanted: Recipe) -> None:
    """Remove the folders of killed builds; called under the lock, so no build is running."""
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
