"""Wrong on a device: CAPT-3, and what PROF asks of a real clock."""

import os

from nvfp4_reference.gemm import case
from nvfp4_reference.gemm.numpy_backend import NumpyTimer

from faulty.pretended_device import PretendedDevice
from faulty.variant import Faulty
from faulty.variants.profiling import edited

run, event = NumpyTimer.run, NumpyTimer.event
elapsed = NumpyTimer.elapsed_microseconds


class OnADevice(Faulty, PretendedDevice):
    """A faulty implementation that claims a device."""


class ReplaysAnEarlierProduct(OnADevice):
    """Has captured the addresses of operands that an earlier call used.

    A replay of another tactic is no fault that can be seen where both give the same bytes.
    """

    breaks = ("CAPT-3",)
    controls = ("GEMM-2",)
    served = True

    def replay(self, **arguments):
        eager = super().replay(**arguments)
        stale = super().replay(**arguments | {"seed": arguments["seed"] + 1})
        return eager | {"output": stale["output"]}


def _forgotten(back_end, tactic, prepared, poison, *, replayed):
    back_end.run_tactic(tactic, prepared)
    if replayed:
        poison(prepared)


class ForgetsToLaunch(OnADevice):
    """Runs while it captures, and records nothing."""

    breaks = ("CAPT-3",)
    controls = ("GEMM-1",)
    changes = ((case, "_launch", _forgotten),)


class ReplaysBeyondM(OnADevice):
    """Writes one element behind the last row, but only from a graph."""

    breaks = ("CAPT-3",)
    controls = ("PROF-6",)

    def replay(self, **arguments):
        found = super().replay(**arguments)
        return found | {"guard": edited(found["guard"], lambda data: data.__setitem__(0, 0))}


class ReplayChangesOperands(OnADevice):
    """Quantizes into the captured operands once more, for a scale that has changed meanwhile."""

    breaks = ("CAPT-3",)
    controls = ("PROF-6",)

    def replay(self, **arguments):
        found = super().replay(**arguments)
        scales = edited(found["b"]["scales"], lambda data: data.__setitem__(0, data[0] ^ 1))
        return found | {"b": found["b"] | {"scales": scales}}


class TimesContradictThePlan(OnADevice):
    """Serves the tactic that was fastest before the times were measured again."""

    breaks = ("PROF-2",)
    controls = ("PROF-3", "CAPT-1")

    def times(self, session):
        found = super().times(session)
        best = min(found, key=found.get)
        return found | {best: 2 * max(found.values())}


class TimesInNanoseconds(OnADevice):
    """Gives the mean in another unit than the contract's."""

    breaks = ("PROF-1",)
    controls = ("PROF-2", "CAPT-1")

    def times(self, session):
        return {tactic: 1000 * mean for tactic, mean in super().times(session).items()}


class DelayIsOnlyRecorded(OnADevice):
    """Records a delay and queues none."""

    breaks = ("PROF-5",)
    controls = ("PROF-2",)
    changes = ((NumpyTimer, "delay", lambda self, microseconds: None),)


def _run_first(self, tactic):
    """Run only what comes first after an event, for two milliseconds."""
    if not getattr(self, "ran", False):
        run(self, tactic)
        self.delay(2000)
        self.ran = True


def _event(self):
    self.ran = False
    return event(self)


class MeasuresOneRun(OnADevice):
    """Records ten runs, does one, and takes its time for the mean of the ten."""

    breaks = ("PROF-1",)
    controls = ("PROF-2",)
    changes = (
        (NumpyTimer, "run", _run_first),
        (NumpyTimer, "event", _event),
        (
            NumpyTimer,
            "elapsed_microseconds",
            lambda self, start, end: 10 * elapsed(self, start, end),
        ),
    )


class SumsAsTheProcessPleases(OnADevice):
    """Rounds differently from process to process, as a kernel that is chosen at start does."""

    breaks = ("FRSH-1", "FRSH-2")
    controls = ("FRSH-3",)
    served = True

    def gemm(self, **arguments):
        found = super().gemm(**arguments)
        number = os.getpid() % 127
        return found | {"output": edited(found["output"], lambda d: d.__setitem__(0, number))}


class DirectScalesComputeOtherBytes(OnADevice):
    """Reads scales that were written directly from another place than the others."""

    breaks = ("FRSH-2",)
    controls = ("FRSH-1",)
    served = True

    def gemm(self, **arguments):
        found = super().gemm(**arguments)
        if arguments["direct_sf"]:
            return found
        return found | {"output": edited(found["output"], lambda d: d.__setitem__(0, d[0] ^ 1))}
