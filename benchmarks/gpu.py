"""All tests and measurements that need a GPU, in one run: gpu.py FOLDER [STAGE ...]

`make gpu` calls this. The output of a stage is written to FOLDER/STAGE.txt, and the table of all
stages, with a description of the machine, to FOLDER/README.md. The GPU lock is held from the first
stage to the last, so no other holder of the lock measures at the same time. Stages, all by default:

    build        the kernel library, without a cache
    tests        the reference's tests on a card
    conformance  the suite against the reference on the card; a report and a badge
    sanitizer    compute-sanitizer over every tactic: memcheck, racecheck
    markers      the plugin's tests on a card, which need it to be idle
    gemm         the 64 shapes of the oracle, compared with cuBLAS
    start        the time of a start on a frozen map
    demo         the agreement of fresh processes: alone, two at a time, with one frozen map
    second       FlashInfer's tuner on the same tactics, where FlashInfer is installed

Tests, conformance and sanitizer measure no time, so they run in parallel.
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
LIMIT, TIMED_OUT = 600, 124  # seconds for one command, and the status of one that exceeds them
CUPY = {"NVFP4_REFERENCE_BACK_END": "cupy"}


@dataclass(frozen=True)
class Stage:
    """Commands that run one after another; `results` matches the lines that the table shows.

    Successive stages that are not `timed` run in parallel. A stage that `needs` a package that is
    not installed is skipped, and the table names the package.
    """

    name: str
    commands: Sequence[Sequence[str]]
    results: str
    variables: Mapping[str, str] = field(default_factory=dict)
    timed: bool = True
    needs: tuple[str, ...] = ()

    @property
    def lacks(self) -> list[str]:
        """The needed packages that are not installed."""
        return [name for name in self.needs if find_spec(name) is None]


@dataclass(frozen=True)
class Outcome:
    """The status, the duration and the result lines of a stage."""

    stage: Stage
    status: int
    seconds: float
    results: Sequence[str]


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
    if find_spec("flashinfer"):  # it writes the document of FIMP-11
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
    """Running stages."""

    def __init__(self, folder: Path, variables: Mapping[str, str]) -> None:
        self._folder = folder
        self._variables = variables
        self._running: set[subprocess.Popen[bytes]] = set()
        self._ended = False

    def in_parallel(self, group: Sequence[Stage]) -> list[Outcome]:
        """Run stages in parallel and print a line when each ends. An interrupt ends all of them."""
        with ThreadPoolExecutor(len(group)) as pool:
            waiting = [pool.submit(self.run, stage) for stage in group]
            try:
                return [one.result() for one in waiting]
            except BaseException:
                self._ended = True
                for process in list(self._running):
                    _terminate(process)
                raise

    def run(self, stage: Stage) -> Outcome:
        """Run a stage and print its line."""
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
        results = [one for one in lines if re.fullmatch(stage.results, one)]
        outcome = Outcome(stage, status, time.monotonic() - began, results)
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
        if self._ended:  # `in_parallel` may have ended the others before this one was added
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


def groups(chosen: Sequence[Stage]) -> Iterator[list[Stage]]:
    """The stages in order, in groups that run in parallel."""
    for timed, group in groupby(chosen, key=lambda stage: stage.timed):
        found = list(group)
        yield from ([one] for one in found) if timed else [found]


def line(outcome: Outcome) -> str:
    """One line of the table: stage, status, duration and result."""
    word = "ok" if outcome.status == 0 else f"status {outcome.status}"
    if outcome.stage.lacks:
        word = "skipped"
    last = outcome.results[-1] if len(outcome.results) == 1 else f"{len(outcome.results)} results"
    result = last if outcome.results else ""
    return f"{outcome.stage.name:<12} {word:<9} {outcome.seconds:6.1f} s  {result}".rstrip()


def machine() -> Iterator[str]:
    """The description of this machine, one fact per line."""
    import cupy

    asked = "name,driver_version,memory.total,power.limit,clocks.max.sm"
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        output = subprocess.run(
            ["nvidia-smi", f"--query-gpu={asked}", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
        for one in output:
            name, driver, memory, power, clock = (word.strip() for word in one.split(","))
            yield f"GPU: {name}, {memory}, {power} limit, {clock} at most; driver {driver}"
    runtime = cupy.cuda.runtime.runtimeGetVersion()
    found = toolchain.find(os.environ)
    compiler = re.search(r"V([\d.]+)", found.compiler_version())
    yield (
        f"nvcc {compiler[1] if compiler else 'of an unknown version'}, CUTLASS {found.cutlass}; "
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
    return "an unknown processor"


def report(outcomes: Sequence[Outcome], seconds: float) -> str:
    """The text of FOLDER/README.md: the machine, the table, and the results of each stage."""
    lines = ["# One run of `make gpu`", "", *(f"- {fact}" for fact in machine()), ""]
    lines += ["```", *(line(one) for one in outcomes)]
    lines += [f"{'all':<12} {'':<9} {seconds:6.1f} s", "```", ""]
    for one in outcomes:
        if len(one.results) > 1:
            lines += [f"## {one.stage.name}", "", "```", *one.results, "```", ""]
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """Run the stages; 1 where any failed."""
    if not arguments:
        print("give a folder for the results: gpu.py FOLDER [STAGE ...]", file=sys.stderr)
        return 2
    folder = Path(arguments[0]).absolute()
    every = {stage.name: stage for stage in stages(folder)}
    unknown = [name for name in arguments[1:] if name not in every]
    if unknown:
        print(f"there is no stage {unknown[0]}; choose from {', '.join(every)}", file=sys.stderr)
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
        outcomes = [one for group in groups(chosen) for one in runs.in_parallel(group)]
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
