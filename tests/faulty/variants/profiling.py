"""Wrong about measuring and about the operator: PROF, GEMM."""

import base64
import math
import random
from fractions import Fraction

from nvfp4_reference import options, profiling
from nvfp4_reference.errors import Rejected
from nvfp4_reference.gemm import product
from nvfp4_reference.profiling import Profiler, Selection

from faulty.variant import Faulty

accumulate, mean, select = product.accumulate, profiling._mean, Profiler.select


class FewerWarmUps(Faulty):
    """Runs a tactic twice before it measures, and says three times in the metadata."""

    breaks = ("PROF-1", "PROF-5")
    controls = ("PROF-2",)
    changes = ((profiling, "WARM_UPS", 2),)


class _Unsynchronized(list):
    """A trace that loses the wait before each delay."""

    def append(self, step):
        if step.step == "delay" and self:
            self.pop()
        super().append(step)


def _mean_without_synchronize(timer, tactic, delay_microseconds, trace):
    steps = _Unsynchronized()
    found = mean(timer, tactic, delay_microseconds, steps)
    trace.extend(steps)
    return found


class NoSynchronizeBetweenTactics(Faulty):
    """Queues one tactic behind the other without waiting for the device."""

    breaks = ("PROF-1",)
    controls = ("PROF-2",)
    changes = ((profiling, "_mean", _mean_without_synchronize),)


class DelayIsFixed(Faulty):
    """Delays by 5,000 microseconds, whatever is configured."""

    breaks = ("PROF-5",)
    controls = ("PROF-1",)
    changes = (
        (
            Profiler,
            "select",
            lambda self, timer, shape, delay, trace: select(self, timer, shape, 5000, trace),
        ),
    )


class DelayLeftOutOfMetadata(Faulty):
    """Saves plans that were timed under another delay as if it had been the usual one."""

    breaks = ("PROF-5",)
    controls = ("PROF-1",)

    def open(self, environment):
        return super().open({k: v for k, v in environment.items() if k != options.DELAY})


def choosing(choose):
    """The change by which the winner is `choose(times)`, times by tactic id."""

    def chosen(self, timer, shape, delay, trace):
        times = select(self, timer, shape, delay, trace).microseconds
        return Selection(choose(times), times)

    return ((Profiler, "select", chosen),)


class HighestIdWinsTies(Faulty):
    """Takes the last of equally fast tactics."""

    breaks = ("PROF-2",)
    controls = ("PROF-3",)
    served = True
    changes = choosing(lambda times: min(times, key=lambda tactic: (times[tactic], -tactic)))


class RoundsTimes(Faulty):
    """Compares whole microseconds."""

    breaks = ("PROF-2",)
    controls = ("PROF-3",)
    changes = choosing(lambda times: min(times, key=lambda tactic: round(times[tactic])))


class NearlyBestIsGood(Faulty):
    """Takes the first tactic that is within one percent of the best."""

    breaks = ("PROF-2",)
    controls = ("PROF-4",)
    changes = choosing(
        lambda times: next(t for t in times if times[t] <= min(times.values()) * Fraction(101, 100))
    )


def _absolute(*arguments):
    found = mean(*arguments)
    return 0 if found < 0 else found


class NegativeTimeWins(Faulty):
    """Takes a negative time for a very fast tactic."""

    breaks = ("PROF-3", "PROF-4")
    controls = ("PROF-2",)
    changes = ((profiling, "_mean", _absolute),)


def _slow(*arguments):
    found = mean(*arguments)
    return found if abs(found) < math.inf else 1e12


class InfiniteIsSlow(Faulty):
    """Takes a time without an end, or that is no number, for a slow one."""

    breaks = ("PROF-4",)
    controls = ("PROF-2",)
    changes = ((profiling, "_mean", _slow),)


def _first_fault(timer, tactic, delay_microseconds, trace):
    try:
        return mean(timer, tactic, delay_microseconds, trace)
    except RuntimeError as error:
        raise MemoryError(str(error)) from error


class FirstFaultStops(Faulty):
    """Ends the tuning where one tactic fails."""

    breaks = ("PROF-3",)
    controls = ("PROF-2",)
    changes = ((profiling, "_mean", _first_fault),)


class DefaultsToTheFirstTactic(Faulty):
    """Serves tactic 0 where nothing could be measured."""

    breaks = ("PROF-4",)
    controls = ("PROF-3",)

    def plan(self, session, m, n, k, *, capturing=False, timings=None):
        try:
            return super().plan(session, m, n, k, capturing=capturing, timings=timings)
        except Rejected as rejected:
            if rejected.code != "no-valid-tactic":
                raise
            return {"tactic": 0, "source": "tuned", "tuned": True, "lazy": False}


def edited(text, edit):
    """Base64 text whose bytes `edit(bytearray)` has changed."""
    data = bytearray(base64.b64decode(text))
    edit(data)
    return base64.b64encode(data).decode()


class WritesBeyondM(Faulty):
    """Writes one element behind the last row."""

    breaks = ("PROF-6",)
    controls = ("PROF-1",)

    def gemm(self, **arguments):
        found = super().gemm(**arguments)
        return found | {"guard": edited(found["guard"], lambda data: data.__setitem__(0, 0))}


def _poison(data):
    data[-2:] = b"\xc0\x7f"


class PoisonLeft(Faulty):
    """Leaves the last output element as it was."""

    breaks = ("GEMM-1",)
    controls = ("PROF-6",)
    served = True

    def gemm(self, **arguments):
        found = super().gemm(**arguments)
        return found | {"output": edited(found["output"], _poison)}


class LosesTheLastBlock(Faulty):
    """Drops the last 16 of K in the stream-K tactics."""

    breaks = ("GEMM-1",)
    controls = ("PROF-6",)
    changes = (
        (
            product,
            "accumulate",
            lambda tactic, a, b: (
                accumulate(tactic, a[:, :-16], b[:, :-16])
                if tactic.scheduler == "stream-k"
                else accumulate(tactic, a, b)
            ),
        ),
    )


def _shake(data):
    data[random.SystemRandom().randrange(0, len(data), 2)] ^= random.SystemRandom().randrange(4)


class AddsInAnyOrder(Faulty):
    """Rounds differently from run to run, as atomic additions do."""

    breaks = ("GEMM-2",)
    controls = ("PROF-6",)

    def gemm(self, **arguments):
        found = super().gemm(**arguments)
        return found | {"output": edited(found["output"], _shake)}


class DirectScalesDiffer(Faulty):
    """Rounds a scale that it writes in its final place differently."""

    breaks = ("GEMM-3",)
    controls = ("PROF-6",)

    def gemm(self, **arguments):
        found = super().gemm(**arguments)
        if arguments["direct_sf"]:
            found["a"]["scales"] = edited(
                found["a"]["scales"], lambda d: d.__setitem__(0, d[0] ^ 1)
            )
        return found


class LinearScales(Faulty):
    """Leaves the scales row by row, and calls that the swizzled layout."""

    breaks = ("GEMM-3",)
    controls = ("PROF-6",)

    def gemm(self, **arguments):
        found = super().gemm(**arguments)
        for name in "ab":
            size = len(base64.b64decode(found[name]["swizzled"]))
            linear = base64.b64decode(found[name]["scales"]).ljust(size, b"\0")
            found[name]["swizzled"] = base64.b64encode(linear).decode()
        return found
