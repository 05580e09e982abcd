"""All that a machine with a GPU can show, in one run: gpu.py FOLDER [STAGE ...]

`make gpu` calls this. What a stage prints is kept in FOLDER/STAGE.txt, and the table of all, with
the machine's description, in FOLDER/README.md. The GPU's lock is held from the first stage to the
last, so nobody who asks for it measures meanwhile. Stages, all by default:

    build        the kernel library, from nothing
    tests        the reference's tests on a card
    conformance  the suite against the reference on the card; a report and a badge
    sanitizer    compute-sanitizer over every tactic: memcheck, racecheck
    markers      the plugin's tests on a card, which ask whether it is idle
    gemm         the 64 shapes of the oracle beside cuBLAS
    start        what a start on a frozen map costs
    demo         how much fresh processes agree: alone, two at a time, with one frozen map
    second       FlashInfer's own tuner over the same tactics, where FlashInfer is installed

Tests, conformance and sanitizer, where nothing is timed, run side by side.
"""

import contextlib
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path

from nvfp4_reference.gemm.cupy import CupyBackend, toolchain

from pytest_nvfp4.markers.gpu_lock.holding import Lock, take

HERE = Path(__file__).parent
LOCK = Path("/tmp/gpu")
LIMIT, TIMED_OUT = 600, 124  # seconds for one command, and the status of one that takes longer
CUPY = {"NVFP4_REFERENCE_BACK_END": "cupy"}


@dataclass(frozen=True)
class Stage:
    """Commands that run one after another; `tells` finds the lines that the table shows.

    Stages that follow each other and are not `timed` run side by side. One that `needs` a package
    that is not installed is skipped by name.
    """

    name: str
    commands: Sequence[Sequence[str]]
    tells: str
    variables: Mapping[str, str] = field(default_factory=dict)
    timed: bool = True
    needs: tuple[str, ...] = ()

    @property
    def lacks(self) -> list[str]:
        """The packages that it needs and that are not installed."""
        return [name for name in self.needs if find_spec(name) is None]


@dataclass(frozen=True)
class Outcome:
    """How a stage ended, and what it told."""

    stage: Stage
    status: int
    seconds: float
    told: Sequence[str]


def stages(folder: Path) -> list[Stage]:
    """All stages, in order."""
    python = [sys.executable]
    pytest = [*python, "-m", "pytest", "-p", "nvfp4", "-q", "-ra"]
    sanitizer = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    opinion = [*python, str(HERE / "flashinfer_second_opinion.py")]
    every = [*python, str(HERE / "every_tactic_on_a_card.py")]
    tools = ("memcheck", "racecheck")
    where = [f"{folder}/report.json", f"{folder}/badge.svg", f"{folder}/badge.json"]
    suite = [*python, "-m", "pytest_nvfp4.cli", "run", "reference", "-n", "8"]
    if find_spec("flashinfer"):  # which then writes the document of FIMP-11
        suite += ["--flashinfer", sys.executable]
    return [
        Stage(
            "build",
            [[*python, "-m", "nvfp4_reference.gemm.cupy"]],
            r"nvfp4: building \d+ units.*",
        ),
        Stage(
            "tests",
            [[*pytest, "-n", "4", "tests/reference/gemm"]],
            r"=* ?\d+ (passed|failed).*",
            timed=False,
        ),
        Stage(
            "conformance",
            [[*suite, "--report", where[0], "--badge", where[1], "--badge", where[2]]],
            r"Badge: .*",
            CUPY,
            timed=False,
        ),
        Stage(
            "sanitizer",
            [[sanitizer, "--tool", tool, "--error-exitcode", "9", *every] for tool in tools],
            r"\d+ products|=+ (ERROR|RACECHECK) SUMMARY.*",
            timed=False,
        ),
        Stage(
            "markers",
            [[*pytest, "tests/markers/test_on_a_gpu.py"]],
            r"=* ?\d+ (passed|failed).*",
        ),
        Stage(
            "gemm",
            [[*python, str(HERE / "gemm_on_a_card.py")]],
            r".*(geometric mean|largest ratio|regret of|tuning \d|least, TB/s|host cost).*",
        ),
        Stage("start", [[*python, str(HERE / "frozen_start_on_a_card.py")]], r"frozen start.*"),
        Stage(
            "demo",
            [[*python, "-m", "pytest_nvfp4.cli", "demo", "--processes", "3"]],
            r"\d+ (alone|at a time|with one map) .*|a process that tunes alone.*",
        ),
        Stage(
            "second",
            [[*opinion, "--delay", "ours", "--rounds", "3"]],
            r"all +\d+ .*|.*'s worst: .*",
            needs=("torch", "flashinfer"),
        ),
    ]


class Runs:
    """Stages in progress."""

    def __init__(self, folder: Path, variables: Mapping[str, str]) -> None:
        self._folder = folder
        self._variables = variables
        self._running: set[subprocess.Popen[bytes]] = set()
        self._ended = False

    def together(self, side_by_side: Sequence[Stage]) -> list[Outcome]:
        """Run stages to their ends; a line for each that ends. An interrupt ends them all."""
        with ThreadPoolExecutor(len(side_by_side)) as pool:
            waiting = [pool.submit(self.run, stage) for stage in side_by_side]
            try:
                return [one.result() for one in waiting]
            except BaseException:
                self._ended = True
                for process in list(self._running):
                    _terminate(process)
                raise

    def run(self, stage: Stage) -> Outcome:
        """Run a stage to its end, and show what it tells."""
        if stage.lacks:
            outcome = Outcome(stage, 0, 0, [f"needs {', '.join(stage.lacks)}"])
            print(line(outcome), flush=True)
            return outcome
        began = time.monotonic()
        log = self._folder / f"{stage.name}.txt"
        status = 0
        with open(log, "w", encoding="utf-8") as file:
            for command in stage.commands:
                status = self._status(command, stage, file.fileno()) or status
        text = log.read_text(encoding="utf-8", errors="replace")
        lines = [one.strip() for one in text.splitlines()]
        told = [one for one in lines if re.fullmatch(stage.tells, one)]
        outcome = Outcome(stage, status, time.monotonic() - began, told)
        end = [f"    {one}" for one in text.splitlines()[-15:]] if status else []
        print("\n".join([line(outcome), *end]), flush=True)
        return outcome

    def _status(self, command: Sequence[str], stage: Stage, output: int) -> int:
        if self._ended:
            return TIMED_OUT
        process = subprocess.Popen(
            command,
            env={**self._variables, **stage.variables},
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        self._running.add(process)
        if self._ended:  # whoever ended them all may not have seen this one
            _terminate(process)
        try:
            return process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            _terminate(process)
            process.wait()
            return TIMED_OUT
        finally:
            self._running.discard(process)


def _terminate(process: "subprocess.Popen[bytes]") -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)


def rounds(chosen: Sequence[Stage]) -> Iterator[list[Stage]]:
    """Stages in order, those side by side together."""
    for timed, group in groupby(chosen, key=lambda stage: stage.timed):
        found = list(group)
        yield from ([one] for one in found) if timed else [found]


def line(outcome: Outcome) -> str:
    """One line of the table: how it ended, how long it took, and the last thing that it told."""
    word = "ok" if outcome.status == 0 else f"status {outcome.status}"
    if outcome.stage.lacks:
        word = "skipped"
    last = outcome.told[-1] if len(outcome.told) == 1 else f"{len(outcome.told)} results"
    told = last if outcome.told else ""
    return f"{outcome.stage.name:<12} {word:<9} {outcome.seconds:6.1f} s  {told}".rstrip()


def machine() -> Iterator[str]:
    """What this machine is, a fact a line."""
    import cupy

    asked = "name,driver_version,memory.total,power.limit,clocks.max.sm"
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        told = subprocess.run(
            ["nvidia-smi", f"--query-gpu={asked}", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
        for one in told:
            name, driver, memory, power, clock = (word.strip() for word in one.split(","))
            yield f"GPU: {name}, {memory}, {power} limit, {clock} at most; driver {driver}"
    runtime = cupy.cuda.runtime.runtimeGetVersion()
    found = toolchain.find(os.environ)
    compiler = re.search(r"V([\d.]+)", found.compiler_version())
    yield (
        f"nvcc {compiler[1] if compiler else 'of no version'}, CUTLASS {found.cutlass}; "
        f"CuPy {cupy.__version__} (CUDA runtime {runtime // 1000}.{runtime % 1000 // 10}), "
        f"Python {platform.python_version()}"
    )
    yield f"{os.cpu_count()} cores, {processor()}, {platform.system()} {platform.machine()}"


def processor() -> str:
    """The processor's name."""
    with contextlib.suppress(OSError):
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
        if found := re.search(r"model name\s*:\s*(.*)", text):
            return found[1]
    return "a processor without a name"


def report(outcomes: Sequence[Outcome], seconds: float) -> str:
    """The page that is kept: machine, table, and what each stage told."""
    lines = ["# One run of `make gpu`", "", *(f"- {fact}" for fact in machine()), ""]
    lines += ["```", *(line(one) for one in outcomes)]
    lines += [f"{'all':<12} {'':<9} {seconds:6.1f} s", "```", ""]
    for one in outcomes:
        if len(one.told) > 1:
            lines += [f"## {one.stage.name}", "", "```", *one.told, "```", ""]
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """Run the stages; 1 where any failed."""
    if not arguments:
        print("give a folder for what is measured: gpu.py FOLDER [STAGE ...]", file=sys.stderr)
        return 2
    folder = Path(arguments[0]).absolute()
    every = {stage.name: stage for stage in stages(folder)}
    unknown = [name for name in arguments[1:] if name not in every]
    if unknown:
        print(f"there is no stage {unknown[0]}; take {', '.join(every)}", file=sys.stderr)
        return 2
    if reason := CupyBackend().reason():
        print(f"there is no GPU to measure: {reason}", file=sys.stderr)
        return 2
    chosen = [every[name] for name in arguments[1:] or every]
    folder.mkdir(parents=True, exist_ok=True)
    variables = dict(os.environ)
    if every["build"] in chosen:
        variables["NVFP4_REFERENCE_BUILD_CACHE"] = f"{folder}/kernels"
        shutil.rmtree(folder / "kernels", ignore_errors=True)
    began = time.monotonic()
    holding = take([Lock(LOCK)], timeout=None, number=1, environment=os.environ, notice=print)
    try:
        runs = Runs(folder, variables)
        outcomes = [one for few in rounds(chosen) for one in runs.together(few)]
    finally:
        holding.release()
    text = report(outcomes, time.monotonic() - began)
    (folder / "README.md").write_text(text, encoding="utf-8")
    print(f"\n{text}")
    return int(any(one.status for one in outcomes))


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
