"""A device that is not there: FlashInfer measures a script, and every call is noted down.

Only what touches a device is replaced: torch.cuda's current_stream, stream, Event and CUDAGraph,
and the delay kernel of FlashInfer's tuner. All else is FlashInfer's own. Releases after 0.6.13 need
two more: they compile that kernel ahead of the first run, and they ask whether a graph is being
captured, which torch without CUDA cannot answer.
"""

import contextlib
import math
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .flashinfer_install import FlashInfer

TACTICS = 32
FIRST = "0.6.13"
"""The release whose tuner asks for nothing but the first five."""

Script = Mapping[str, float | str]
"""Microseconds, "raise", "nan", "inf" or "-inf" by tactic id or "default"."""


class ScriptedError(Exception):
    """The script says that this tactic raises."""


class Device:
    """The clock of one process, and what was asked of it since the last tuning began.

    `on_tuning` is called before the first run of a tuning.
    """

    def __init__(self) -> None:
        self.script: Script | None = None
        self.steps: list[dict[str, Any]] = []
        self.tunings = 0
        self._tuners: Counter[int] = Counter()  # tunings by the thread that ran them
        self.on_tuning: Callable[[], None] = lambda: None
        self._durations: list[float] = []  # of every run, in milliseconds

    def install(self, flashinfer: FlashInfer) -> None:
        """Put this device in the place of CUDA's, for the rest of the process."""
        cuda = flashinfer.torch.cuda
        cuda.current_stream = lambda device=None: self
        cuda.stream = contextlib.nullcontext
        cuda.Event = lambda **_: _Event(self)
        cuda.CUDAGraph = object
        flashinfer.tuner_module.delay_kernel = self.delay
        if flashinfer.version != FIRST:
            cuda.is_current_stream_capturing = lambda: False
            flashinfer.tuner_module.get_trtllm_utils_module = lambda: None

    # What a tuning asks

    def begin(self) -> None:
        """A tuning begins: another profile is measured from here on."""
        self.steps = []
        self.tunings += 1
        self._tuners[threading.get_ident()] += 1
        self.on_tuning()

    @property
    def my_tunings(self) -> int:
        """How many tunings the calling thread has run."""
        return self._tuners[threading.get_ident()]

    def run(self, tactic: int) -> None:
        self.steps.append({"step": "run", "tactic": tactic})
        if tactic in range(TACTICS):
            self._durations.append(self._duration(tactic))

    def synchronize(self) -> None:
        self.steps.append({"step": "synchronize"})

    def delay(self, microseconds: int) -> None:
        self.steps.append({"step": "delay", "microseconds": microseconds})

    def event(self) -> int:
        self.steps.append({"step": "event"})
        return len(self._durations)

    def between(self, start: int, end: int) -> float:
        """The milliseconds of the runs between two events."""
        return math.fsum(self._durations[start:end])

    def _duration(self, tactic: int) -> float:
        if self.script is None:
            raise RuntimeError("there is no device here to measure on; give timings.")
        value = self.script.get(str(tactic), self.script.get("default", 1.0))
        if value == "raise":
            raise ScriptedError(f"tactic {tactic} raises, as the script says.")
        return float(value) / 1000

    @contextlib.contextmanager
    def playing(self, script: Script | None) -> Iterator[None]:
        """Measure by this script for a while."""
        self.script = script
        try:
            yield
        finally:
            self.script = None


class _Event:
    def __init__(self, device: Device) -> None:
        self._device = device
        self._at = 0

    def record(self) -> None:
        self._at = self._device.event()

    def elapsed_time(self, end: "_Event") -> float:
        return self._device.between(self._at, end._at)


def make_runner(flashinfer: FlashInfer, device: Device) -> Any:
    """A runner with the name that keys hold, which computes nothing.

    Like the real one it has 32 tactics and can be prepared, which FlashInfer asks for by running
    tactic -1.
    """

    class CutlassFp4GemmRunner(flashinfer.TunableRunner):  # type: ignore[misc, name-defined]
        def get_valid_tactics(self, inputs: list[Any], profile: Any) -> list[int]:
            device.begin()
            return list(range(TACTICS))

        def forward(
            self, inputs: list[Any], tactic: int = -1, do_preparation: bool = False, **_: Any
        ) -> None:
            device.run(tactic)

    return CutlassFp4GemmRunner()
