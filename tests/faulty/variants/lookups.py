"""Wrong about what serves a request: LOOK, CAPT."""

from nvfp4_reference import plan_cache, publication, session, warm_up
from nvfp4_reference.errors import Rejected
from nvfp4_reference.native_document import Document
from nvfp4_reference.plan_map import PlanMap
from nvfp4_reference.scripted_timer import Script

from faulty.variant import Faulty

install = PlanMap.install
checked_key, read_sources = plan_cache.checked_key, warm_up.read_sources
update = publication.update


class NativeBeforeImport(Faulty):
    """Prefers the native file to the import that was asked for."""

    breaks = ("LOOK-1",)
    controls = ("LOOK-3",)
    served = True
    changes = ((session, "read_sources", lambda *args: read_sources(*args)[::-1]),)


class RemeasuresHits(Faulty):
    """Measures again to see whether a ready plan is still the best, in a capture too."""

    breaks = ("LOOK-2", "CAPT-1")
    controls = ("FLIT-5",)
    served = True

    def plan(self, session, m, n, k, *, capturing=False, timings=None):
        found = super().plan(session, m, n, k, capturing=capturing, timings=timings)
        if not found["tuned"]:
            clock = Script.from_json(timings)
            self._session(session)._tuned(checked_key(m, n, k), m, clock)
        return found


class FileReplacesLive(Faulty):
    """Lets a file that is loaded later replace what this process has tuned and used."""

    breaks = ("LOOK-3",)
    controls = ("LOOK-2",)
    served = True
    changes = (
        (
            PlanMap,
            "install",
            lambda self, plans, source, *, ours=True: (
                [self.ready.pop(key, 0) for key in plans]
                and install(self, plans, source, ours=ours)
            ),
        ),
    )


class TunesTwice(Faulty):
    """Tunes a missing plan a second time, to be sure."""

    breaks = ("LOOK-4",)
    controls = ("LOOK-5",)

    def plan(self, session, m, n, k, *, capturing=False, timings=None):
        found = super().plan(session, m, n, k, capturing=capturing, timings=timings)
        if found["tuned"]:
            target = self._session(session)
            target._map.ready.pop(checked_key(m, n, k), None)
            found = super().plan(session, m, n, k, capturing=capturing, timings=timings)
        return found


class ExplicitLoadReplacesLive(Faulty):
    """Lets a file that the caller reads by name replace what this process has tuned."""

    breaks = ("LOOK-3",)
    controls = ("LOOK-2",)

    def read_native(self, path, expected, session=None):
        found = super().read_native(path, expected, session)
        if session is not None:
            for plan in found["plans"]:
                self._session(session)._map.ready.pop((plan["m"], plan["n"], plan["k"]), None)
            return super().read_native(path, expected, session)
        return found


class ForgetsTheWinner(Faulty):
    """Serves the tuned plan to the request that tuned it, and does not keep it."""

    breaks = ("LOOK-4",)
    controls = ("PROF-2",)

    def plan(self, session, m, n, k, *, capturing=False, timings=None):
        found = super().plan(session, m, n, k, capturing=capturing, timings=timings)
        if found["tuned"]:
            self._session(session)._map.ready.pop(checked_key(m, n, k), None)
        return found


class ServesAnyBucket(Faulty):
    """Serves a missing bucket by any plan of the same weight."""

    breaks = ("LOOK-4", "LOOK-5")
    controls = ("LOOK-2",)

    def plan(self, session, m, n, k, *, capturing=False, timings=None):
        for ready in self._session(session).plans():
            if ready[1:] == (n, k):
                m = ready.m
        return super().plan(session, m, n, k, capturing=capturing, timings=timings)


class KeysWithoutK(Faulty):
    """Leaves K out of the key of a plan."""

    breaks = ("LOOK-5",)
    controls = ("LOOK-4",)

    def plan(self, session, m, n, k, *, capturing=False, timings=None):
        for ready in self._session(session).plans():
            if ready[:2] == checked_key(m, n, k)[:2]:
                k = ready.k
        return super().plan(session, m, n, k, capturing=capturing, timings=timings)


class ServesBeyondTheMaximum(Faulty):
    """Serves a request beyond the warmed-up maximum by the largest plan, and counts nothing."""

    breaks = ("LOOK-4", "LOOK-6", "WARM-8")
    controls = ("LOOK-3",)

    def plan(self, session, m, n, k, *, capturing=False, timings=None):
        maximum = self._session(session)._maximum
        m = m if maximum is None else min(m, maximum)
        return super().plan(session, m, n, k, capturing=capturing, timings=timings)


class CountsEveryMiss(Faulty):
    """Counts a request beyond the maximum again whenever it comes."""

    breaks = ("LOOK-6", "WARM-8")
    controls = ("LOOK-4",)

    def plan(self, session, m, n, k, *, capturing=False, timings=None):
        found = super().plan(session, m, n, k, capturing=capturing, timings=timings)
        target = self._session(session)
        if target._past_warm_up and not found["lazy"] and m > target._maximum:
            target._counters.missed(checked_key(m, n, k))
        return found


def _save_powers(path, document, **named):
    plans = {key: t for key, t in document.plans.items() if key.m & (key.m - 1) == 0}
    return update(path, Document(document.metadata, plans), **named)


class SavesPowersOnly(Faulty):
    """Saves the plans whose bucket is a power of two, and serves the others from memory alone."""

    breaks = ("LOOK-7",)
    controls = ("LOOK-1",)
    changes = ((publication, "update", _save_powers),)


class RefusesInCapture(Faulty):
    """Refuses every lookup during a capture, the ready ones too."""

    breaks = ("CAPT-1",)
    controls = ("LOOK-4",)

    def plan(self, session, m, n, k, *, capturing=False, timings=None):
        if capturing:
            raise Rejected("capture-miss", f"{m},{n},{k}", "nothing is served during a capture.")
        return super().plan(session, m, n, k, timings=timings)


class CapturesByTuning(Faulty):
    """Tunes a missing plan in the middle of a capture."""

    breaks = ("CAPT-2",)
    controls = ("CAPT-1",)
    served = True

    def plan(self, session, m, n, k, *, capturing=False, timings=None):
        return super().plan(session, m, n, k, timings=timings)


class DefaultsInCapture(Faulty):
    """Serves tactic 0 where a plan is missing during a capture, and keeps it."""

    breaks = ("CAPT-2",)
    controls = ("CAPT-1",)

    def plan(self, session, m, n, k, *, capturing=False, timings=None):
        if capturing:
            self._session(session)._map.install({checked_key(m, n, k): 0}, "native")
        return super().plan(session, m, n, k, capturing=capturing, timings=timings)
