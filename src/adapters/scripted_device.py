"""A scripted device for FlashInfer: times come from a script, and every call is recorded.

Only the calls that touch a device are replaced: torch.cuda's `current_stream`, `stream`, `Event`
and `CUDAGraph`, and the delay kernel of FlashInfer's tuner. Releases after 0.6.13 need two more
replacements: they compile the delay kernel before the first run, and they ask whether a graph is
being captured, which torch without CUDA cannot answer.
"""

import contextlib
import math
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .flashinfer_install import FlashInfer

TACTICS = 32
FIRST_RELEASE = "0.6.13"
"""The release that needs only the first five replacements."""

Timings = Mapping[str, float | str]
"""Microseconds, "raise", "nan", "inf" or "-inf", by tactic id or "default"."""


class TacticError(Exception):
    """The script has "raise" for this tactic."""


class ScriptedDevice:
    """The device of one process. `steps` records the calls since the last tuning began.

    `on_tuning` is called before the first run of a tuning.
    """

    def __init__(self) -> None:
        self.timings: Timings | None = None
        self.steps: list[dict[str, Any]] = []
        self.tunings = 0
        self._thread_tunings: Counter[int] = Counter()  # by thread identifier
        self.on_tuning: Callable[[], None] = lambda: None
        self._durations: list[float] = []  # milliseconds of every run

    def install(self, flashinfer: FlashInfer) -> None:
        """Replace CUDA's device by this one for the rest of the process."""
        cuda = flashinfer.torch.cuda
        cuda.current_stream = lambda device=None: self
        cuda.stream = contextlib.nullcontext
        cuda.Event = lambda **_: _Event(self)
        cuda.CUDAGraph = object
        flashinfer.tuner_module.delay_kernel = self.delay
        if flashinfer.version != FIRST_RELEASE:
            cuda.is_current_stream_capturing = lambda: False
            flashinfer.tuner_module.get_trtllm_utils_module = lambda: None

    # Calls of a tuning

    def begin(self) -> None:
        """Record that a tuning of another profile begins."""
        self.steps = []
        self.tunings += 1
        self._thread_tunings[threading.get_ident()] += 1
        self.on_tuning()

    @property
    def thread_tunings(self) -> int:
        """The number of tunings that the calling thread has run."""
        return self._thread_tunings[threading.get_ident()]

    def run(self, tactic: int) -> None:
        """Record a run and add its time.

        `TacticError` where the script has "raise"; `RuntimeError` without a script.
        """
        self.steps.append({"step": "run", "tactic": tactic})
        if tactic in range(TACTICS):
            self._durations.append(self._duration(tactic))

    def synchronize(self) -> None:
        """Record a synchronization."""
        self.steps.append({"step": "synchronize"})

    def delay(self, microseconds: int) -> None:
        """Record a delay, which takes no time."""
        self.steps.append({"step": "delay", "microseconds": microseconds})

    def event(self) -> int:
        """Record an event and return its mark: the number of runs so far."""
        self.steps.append({"step": "event"})
        return len(self._durations)

    def between(self, start: int, end: int) -> float:
        """The milliseconds of the runs between two events."""
        return math.fsum(self._durations[start:end])

    def _duration(self, tactic: int) -> float:
        if self.timings is None:
            raise RuntimeError("there is no device to measure on; give timings.")
        value = self.timings.get(str(tactic), self.timings.get("default", 1.0))
        if value == "raise":
            raise TacticError(f"tactic {tactic} raises, as the script says.")
        return float(value) / 1000

    @contextlib.contextmanager
    def scripted(self, timings: Timings | None) -> Iterator[None]:
        """Take times from `timings` within the block."""
        self.timings = timings
        try:
            yield
        finally:
            self.timings = None


class _Event:
    def __init__(self, device: ScriptedDevice) -> None:
        self._device = device
        self._at = 0

    def record(self) -> None:
        self._at = self._device.event()

    def elapsed_time(self, end: "_Event") -> float:
        return self._device.between(self._at, end._at)


def make_runner(flashinfer: FlashInfer, device: ScriptedDevice) -> Any:
    """A runner under the name that cache keys contain. It computes nothing.

    Like the real runner it has 32 tactics, and FlashInfer prepares it by running tactic -1.
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
