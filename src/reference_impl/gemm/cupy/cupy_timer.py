"""Time a product on the card, by events on the stream that it runs on.

Source: FlashInfer 0.6.13 autotuner.py:799-818, 1407-1493.
"""

from collections.abc import Callable
from typing import Any

from .device import Device
from .kernels import Kernels


class CupyTimer:
    """The five calls of `protocol.Timer`; each queues on the stream that is current.

    A call that fails raises once and leaves no error behind, so the next tactic starts clean.
    """

    def __init__(self, device: Device, kernels: Kernels, run: Callable[[int], None]) -> None:
        self._device = device
        self._kernels = kernels
        self._run = run

    def run(self, tactic: int) -> None:
        """Queue the product once."""
        self._run(tactic)

    def synchronize(self) -> None:
        """Wait for the stream."""
        with self._device.active(), self._device.translated("running a tactic"):
            self._device.stream.synchronize()

    def delay(self, microseconds: int) -> None:
        """Queue the kernel that sleeps; it takes a few percent longer than asked."""
        with self._device.active():
            status = self._kernels.delay(microseconds, self._device.stream.ptr)
            self._device.check(status, "delaying")

    def event(self) -> Any:
        """Queue an event."""
        with self._device.active(), self._device.translated("recording an event"):
            event = self._device.cupy.cuda.Event()
            event.record(self._device.stream)
            return event

    def elapsed_microseconds(self, start: Any, end: Any) -> float:
        """The time between two events that have happened."""
        with self._device.active(), self._device.translated("reading the events"):
            return 1000 * float(self._device.cupy.cuda.get_elapsed_time(start, end))
