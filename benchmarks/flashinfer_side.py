"""FlashInfer 0.6.13's tuner on a CPU, for the same FP4 products as the reference.

The tuner, its configuration classes and its public calls are FlashInfer's. This module adds the
runner, which computes nothing, and during a tuning a clock that replaces the device's: a run of the
tactic that must win takes 1 ms, any other 2 ms.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path
from unittest.mock import patch

# FlashInfer reads these when it is imported; the folder holds its log and compiled kernels.
_BUILD = Path(__file__).resolve().parent.parent / "build"
os.environ.setdefault("FLASHINFER_WORKSPACE_BASE", str(_BUILD / "flashinfer-workspace"))
os.environ.setdefault("FLASHINFER_LOGGING_LEVEL", "error")
os.environ.setdefault("TQDM_DISABLE", "1")

import flashinfer  # noqa: E402
import torch  # noqa: E402
from flashinfer import autotuner  # noqa: E402
from nvfp4_reference.buckets import bucket, profiles  # noqa: E402

VERSION = flashinfer.__version__

_OPERATION = "fp4_gemm"
_MAXIMUM = 2048

# The ten inputs of the operation, and which of their dimensions follow M, as in the keys of
# `nvfp4_reference.flashinfer_import`.
_CONFIG = autotuner.TuningConfig(
    dynamic_tensor_specs=(autotuner.DynamicTensorSpec((0,), (0,), profiles, bucket),),
    constraint_specs=(
        autotuner.ConstraintSpec(2, 0, lambda shapes: shapes[0][0]),
        autotuner.ConstraintSpec(6, 0, lambda shapes: shapes[0][0]),
        autotuner.ConstraintSpec(9, 0, lambda shapes: shapes[9][0]),
    ),
)


class _Clock:
    """Replaces the stream, its events and its delay; time passes only in runs."""

    def __init__(self) -> None:
        self.now = 0

    def synchronize(self) -> None:
        pass

    def event(self, **_: object) -> "_Event":
        return _Event(self)


class _Event:
    def __init__(self, clock: _Clock) -> None:
        self._clock = clock
        self.at = 0

    def record(self) -> None:
        self.at = self._clock.now

    def elapsed_time(self, end: "_Event") -> int:
        return end.at - self.at


class CutlassFp4GemmRunner(autotuner.TunableRunner):
    """A runner of 32 tactics, with the name that is part of the keys."""

    def __init__(self, clock: _Clock, winners: Mapping[tuple[int, int, int], int]) -> None:
        self._clock = clock
        self._winners_cache = winners  # with this suffix, FlashInfer excludes it from its hash

    def get_valid_tactics(self, inputs: list[object], profile: object) -> list[int]:
        return list(range(32))

    def forward(
        self, inputs: list[torch.Tensor], tactic: int = -1, do_preparation: bool = False
    ) -> None:
        m, half = inputs[0].shape
        n = inputs[1].shape[1]
        self._clock.now += 1 if self._winners_cache[bucket(m), n, 2 * half] == tactic else 2


class Tuner:
    """A FlashInfer tuner with a runner for which the tactics in `winners` win."""

    def __init__(self, winners: Mapping[tuple[int, int, int], int]) -> None:
        self._tuner = autotuner.AutoTuner()
        self._clock = _Clock()
        self._runners = [CutlassFp4GemmRunner(self._clock, winners)]
        self.load = self._tuner.load_configs
        self.save = self._tuner.save_configs

    def tune(self, shapes: Sequence[tuple[int, int]]) -> None:
        """Tune every profile up to M = 2048 of every (N, K), as `autotune(True)` does."""
        clock = self._clock
        with ExitStack() as replaced:
            for where, name, by in (
                (torch.cuda, "current_stream", lambda: clock),
                (torch.cuda, "stream", nullcontext),
                (torch.cuda, "Event", clock.event),
                (torch.cuda, "CUDAGraph", object),
                (autotuner, "delay_kernel", lambda microseconds: None),
                (autotuner.AutoTuner, "get", lambda: self._tuner),
            ):
                replaced.enter_context(patch.object(where, name, by))
            replaced.enter_context(autotuner.autotune(True))
            for n, k in shapes:
                self.choose(_MAXIMUM, n, k)

    def choose(self, m: int, n: int, k: int) -> int:
        """The tactic that `choose_one` returns for one product; -1 where it has none."""
        _, tactic = self._tuner.choose_one(_OPERATION, self._runners, _CONFIG, _inputs(m, n, k))
        return tactic

    def asking(self, requests: Sequence[tuple[int, int, int]]) -> Callable[[], None]:
        """A loop of `choose_one` over `requests`, whose inputs are created beforehand."""
        prepared = [_inputs(*request) for request in requests]
        choose_one, runners = self._tuner.choose_one, self._runners

        def ask() -> None:
            for inputs in prepared:
                choose_one(_OPERATION, runners, _CONFIG, inputs)

        return ask


def _inputs(m: int, n: int, k: int) -> list[object]:
    """The inputs of the operation; the tensors have no memory, since no value is read."""

    def tensor(*shape: int) -> torch.Tensor:
        return torch.empty(shape, dtype=torch.uint8, device="meta")

    activation, weight = tensor(m, k // 2), tensor(k // 2, n)
    scales = tensor(m, k // 16), tensor(k // 16, n)
    return [
        activation,
        weight,
        *scales,
        tensor(),
        torch.bfloat16,
        tensor(m, n),
        16,
        True,
        tensor(1),
    ]
