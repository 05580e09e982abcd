"""Run the compiler for several units in parallel, within the memory of the machine.

Each compiler has a process group of its own. So an interrupt in the terminal reaches only this
process, which then ends the groups, with the children of the compilers.
"""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...errors import BuildError
from .recipe import Unit
from .toolchain import BUILD_JOBS

_MEMORY = Path("/proc/meminfo")
_LIMITS = (
    (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")),
    (
        Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
        Path("/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ),
)


def job_count(units: int, unit_bytes: int, environment: Mapping[str, str]) -> int:
    """The number of compilers to run at once; `BuildError` where memory is too small for one."""
    named = environment.get(BUILD_JOBS)
    if named:
        if not (named.isascii() and named.isdigit() and int(named) > 0):
            raise BuildError(f"{BUILD_JOBS} is {named!r}; set it to a positive number.")
        return min(units, int(named))
    return jobs_within(units, unit_bytes, usable_cores(), available_memory())


def jobs_within(units: int, unit_bytes: int, cores: int, memory: int | None) -> int:
    """The most jobs that cores and memory allow; one where the free memory is unknown."""
    if memory is None:
        return 1
    if memory < unit_bytes:
        raise BuildError(
            f"a compiler needs {unit_bytes / 1e9:.1f} GB of memory, and {memory / 1e9:.1f} GB are "
            f"free; free memory, or set {BUILD_JOBS} to build anyway."
        )
    return max(1, min(units, cores, memory // unit_bytes))


def usable_cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


def available_memory() -> int | None:
    """The free memory of this machine and container in bytes; None if it is unknown."""
    found = []
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in _MEMORY.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                found.append(1024 * int(line.split()[1]))
    for limit, used in _LIMITS:
        with contextlib.suppress(OSError, ValueError):  # no such file, or no limit: "max"
            found.append(int(limit.read_text()) - int(used.read_text()))
    return max(0, min(found)) if found else None


def compile_all(
    command: Sequence[str],
    units: Sequence[Unit],
    folder: Path,
    jobs: int,
    report: Callable[[str], None],
) -> list[Path]:
    """Compile every unit in `folder` to an object, `jobs` at once.

    The first error ends the other compilers. `report` gets a sentence for each unit.
    """
    waiting = list(units)
    running: dict[int, _Running] = {}
    done = 0
    with _ended_together(running):
        while waiting or running:
            while waiting and len(running) < jobs:
                one = _start(command, waiting.pop(0), folder)
                running[one.process.pid] = one
            one = _first_to_end(running)
            del running[one.process.pid]
            if one.process.returncode:
                raise _failed(one.unit.name, one.process.returncode, one.log.read_text())
            done += 1
            seconds = time.monotonic() - one.began
            report(f"built {done} of {len(units)} units: {one.unit.name} took {seconds:.0f} s.")
    return [folder / f"{unit.name}.o" for unit in units]


def link(command: Sequence[str], objects: Sequence[Path], library: Path, folder: Path) -> None:
    """Link the objects into the shared library."""
    done = subprocess.run(
        [*command, "-o", str(library), *map(str, objects)],
        cwd=folder,
        env=_environment(folder),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise _failed("the library", done.returncode, done.stdout + done.stderr)


@dataclass(frozen=True, slots=True)
class _Running:
    unit: Unit
    process: "subprocess.Popen[bytes]"
    log: Path
    began: float


def _start(command: Sequence[str], unit: Unit, folder: Path) -> _Running:
    log = folder / f"{unit.name}.log"
    arguments = [*command, *unit.defines, "-c", unit.source, "-o", f"{unit.name}.o"]
    with log.open("wb") as output:
        try:
            process = subprocess.Popen(
                arguments,
                cwd=folder,
                env=_environment(folder),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise BuildError(f"the compiler {command[0]} cannot be started ({error}).") from error
    return _Running(unit, process, log, time.monotonic())


def _environment(folder: Path) -> dict[str, str]:
    """This process's variables, with temporary files in the build folder, which is removed."""
    return {**os.environ, "TMPDIR": str(folder)}


def _first_to_end(running: Mapping[int, _Running]) -> _Running:
    """Wait until one of them ends, without waiting for other children of this process."""
    while True:
        for one in running.values():
            if one.process.poll() is not None:
                return one
        time.sleep(0.05)


@contextlib.contextmanager
def _ended_together(running: Mapping[int, _Running]) -> Iterator[None]:
    """End every running compiler and its children when the block ends."""
    try:
        yield
    finally:
        for one in running.values():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(one.process.pid, signal.SIGKILL)
        for one in running.values():
            one.process.wait()


def _failed(name: str, status: int, output: str) -> BuildError:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    first = next((line for line in lines if "error" in line.lower()), "")
    if status < 0 or "Killed" in output:
        first = first or f"it was ended by signal {-status}; there may be too little memory"
    error = BuildError(
        f"the compiler could not build {name} ({first or f'status {status}'}); "
        "see the notes of this error for its output."
    )
    error.add_note(output[-4000:])
    return error
