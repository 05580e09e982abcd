"""Compare the choices of FlashInfer's tuner and of the reference's profiler on one card.

    python benchmarks/flashinfer_second_opinion.py [--delay ours] [--rounds 5] [M ...]

For each product of the oracle, or only for the given M, FlashInfer 0.6.13's `AutoTuner` and the
reference's `Profiler` measure the same 32 tactics on the same operands. Then both choices and the
reference's four fastest tactics are measured again in alternation. The regret of a choice is its
time over that of the fastest of these, minus 1.

Needs torch, CuPy, FlashInfer 0.6.13 and a card; the exit status is 2 where one of them is missing.
FlashInfer builds its delay kernel with nvcc and ninja at its first use. `--delay ours` uses the one
of the reference's kernel library instead, which waits by the same instruction for the same time.
"""

import argparse
import contextlib
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from nvfp4_adapters import flashinfer_install, flashinfer_operation
from nvfp4_adapters.errors import MissingImplementationError
from nvfp4_reference.buckets import profiles
from nvfp4_reference.profiling import Profiler

VERSION = "0.6.13"
WEIGHTS = ((5120, 6144), (5120, 17408), (14336, 5120), (34816, 5120))
DELAY = 5000
FASTEST = 4
ROUNDS = 5

Shape = tuple[int, int, int]


@dataclass(frozen=True)
class Choices:
    """Both choices for one product, and the mean microseconds of each tactic measured again."""

    shape: Shape
    theirs: int
    ours: int
    means: dict[int, float]

    def regret(self, tactic: int) -> float:
        """The extra time of a tactic over the fastest one: 0.01 is 1 %."""
        return self.means[tactic] / min(self.means.values()) - 1


def make_runner(flashinfer: Any, launch: Callable[[int], None]) -> Any:
    """A FlashInfer runner whose 32 tactics are launched by `launch`.

    `launch` uses its own operands; FlashInfer passes only shapes.
    """

    class CutlassFp4GemmRunner(flashinfer.TunableRunner):
        def get_valid_tactics(self, inputs: list[Any], profile: Any) -> list[int]:
            return list(range(32))

        def forward(self, inputs: list[Any], tactic: int = -1, **_: Any) -> None:
            launch(tactic)

    return CutlassFp4GemmRunner()


def flashinfer_choice(flashinfer: Any, timer: Any, shape: Shape) -> int:
    """The tactic that FlashInfer's tuner chooses for this product; each call measures again."""
    tuner = flashinfer.AutoTuner.get()
    tuner.clear_cache()
    inputs = flashinfer_operation.inputs(flashinfer, *shape)
    runners = [make_runner(flashinfer, timer.run)]
    with flashinfer.autotune(True):  # no dimension is dynamic, so this shape is the only profile
        _, tactic = tuner.choose_one(
            flashinfer_operation.OPERATION, runners, flashinfer.TuningConfig(), inputs
        )
    if tactic not in range(32):
        raise RuntimeError(f"FlashInfer's tuner chose tactic {tactic} for {shape}: none had a time")
    return int(tactic)


def compare(flashinfer: Any, timer: Any, shape: Shape, rounds: int) -> Choices:
    """Get both choices, in random order, and measure the candidates again in alternation."""
    profiler = Profiler()
    if theirs_first := random.random() < 0.5:
        theirs = flashinfer_choice(flashinfer, timer, shape)
    found = profiler.select(timer, shape, DELAY, [])
    if not theirs_first:
        theirs = flashinfer_choice(flashinfer, timer, shape)
    fastest = sorted(found.microseconds, key=found.microseconds.__getitem__)[:FASTEST]
    candidates = sorted({theirs, found.tactic, *fastest})
    times: dict[int, list[float]] = {tactic: [] for tactic in candidates}
    for _ in range(rounds):
        for tactic in random.sample(candidates, len(candidates)):
            again = profiler.select(timer, shape, DELAY, [], tactics=[tactic])
            times[tactic].append(float(again.microseconds[tactic]))
    means = {tactic: statistics.fmean(taken) for tactic, taken in times.items()}
    return Choices(shape, theirs, found.tactic, means)


def table(found: Sequence[Choices]) -> list[str]:
    """A line for each weight, one for all, and each side's worst choice; at most 80 columns."""
    lines = [
        f"{'':12} {'':>9} {'same':>5} {'FlashInfer regret':>20} {'reference regret':>20}",
        f"{'N':>5} {'K':>6} {'profiles':>9} {'tactic':>7} {'median':>8} {'worst':>8}  "
        f"{'median':>9} {'worst':>8}",
    ]
    for n, k in dict.fromkeys(one.shape[1:] for one in found):
        lines.append(_line(f"{n:5} {k:6}", [one for one in found if one.shape[1:] == (n, k)]))
    lines += [_line("all", found), ""]
    for side, of in (("FlashInfer", _theirs), ("reference", _ours)):
        worst = max(found, key=lambda one, of=of: one.regret(of(one)))
        best = min(worst.means, key=worst.means.__getitem__)
        m, n, k = worst.shape
        lines.append(
            f"{side}'s worst: M={m} N={n} K={k}, tactic {of(worst)} "
            f"({worst.means[of(worst)]:.1f} µs; {best} took {worst.means[best]:.1f})"
        )
    return lines


def _line(name: str, found: Sequence[Choices]) -> str:
    theirs, ours = ([one.regret(of(one)) for one in found] for of in (_theirs, _ours))
    same = sum(one.theirs == one.ours for one in found)
    return (
        f"{name:12} {len(found):9} {same:7} {statistics.median(theirs):8.2%} {max(theirs):8.2%}  "
        f"{statistics.median(ours):9.2%} {max(ours):8.2%}"
    )


def _theirs(one: Choices) -> int:
    return one.theirs


def _ours(one: Choices) -> int:
    return one.ours


@contextlib.contextmanager
def one_stream(torch: Any) -> Iterator[None]:
    """Make one stream of torch, not the default one, current for torch, CuPy and tvm-ffi.

    FlashInfer's delay kernel uses the stream of tvm-ffi, which does not follow torch's stream.
    """
    import cupy
    import tvm_ffi

    stream = torch.cuda.Stream()
    of_torch = tvm_ffi.use_torch_stream(torch.cuda.stream(stream))
    with of_torch, cupy.cuda.ExternalStream(stream.cuda_stream):
        yield


def delay_milliseconds(flashinfer: Any) -> float:
    """The milliseconds that FlashInfer's delay occupies the stream on which the tactics run."""
    cuda = flashinfer.torch.cuda
    flashinfer.tuner_module.delay_kernel(1)  # build it now, if it is not built
    start, end = (cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    flashinfer.tuner_module.delay_kernel(DELAY)
    end.record()
    cuda.current_stream().synchronize()
    return float(start.elapsed_time(end))


def main(arguments: list[str]) -> int:
    """Print the tables; returns 2 where nothing could be measured."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("m", nargs="*", type=int, metavar="M", help="rows (default: 16 profiles)")
    parser.add_argument("--delay", choices=("flashinfer", "ours"), default="flashinfer")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args(arguments)
    try:
        flashinfer = flashinfer_install.load()
    except MissingImplementationError as missing:
        return _not_measured(str(missing))
    if flashinfer.version != VERSION:
        return _not_measured(f"FlashInfer {flashinfer.version} is installed, not {VERSION}")
    from nvfp4_reference.gemm.cupy import CupyBackend

    flashinfer.logger.setLevel("WARNING")  # it logs the start and end of each tuning
    card = CupyBackend(progress=lambda sentence: print(sentence, flush=True))
    if reason := card.reason():
        return _not_measured(reason)
    ms = options.m or profiles(2048)
    began = time.perf_counter()
    found = []
    with one_stream(flashinfer.torch), contextlib.ExitStack() as replaced:
        if options.delay == "ours":
            sleep = card.timer(1, 32, 64).delay
            tuner = flashinfer.tuner_module
            replaced.enter_context(patch.object(tuner, "delay_kernel", sleep))
        delay = delay_milliseconds(flashinfer)
        if 1000 * delay < DELAY:
            return _not_measured(
                f"FlashInfer's delay of {DELAY} µs held up the card {delay:.3f} ms"
            )
        for n, k in WEIGHTS:
            for m in ms:
                found.append(compare(flashinfer, card.timer(m, n, k), (m, n, k), options.rounds))
    print(f"FlashInfer {VERSION}'s tuner and the reference's, 32 tactics each, on")
    print(f"{flashinfer.torch.cuda.get_device_name()}; {options.rounds} rounds of the candidates;")
    print(f"delay kernel in FlashInfer's tuner: {options.delay} ({delay:.2f} ms).")
    print("\n".join(table(found)))
    print(f"{time.perf_counter() - began:.0f} s")
    return 0


def _not_measured(why: str) -> int:
    print(f"not measured: {why}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
