"""Wrong about requests that come at once: FLIT."""

import threading
from unittest import mock

from nvfp4_reference import concurrency, plan_cache
from nvfp4_reference.errors import Rejected
from nvfp4_reference.plan_cache import PlanCache
from nvfp4_reference.plan_map import Plan, PlanMap, _Flight

from faulty.variant import Faulty

plan, install, tune_once = PlanCache.plan, PlanMap.install, PlanMap.tune_once
checked_key = plan_cache.checked_key


def tune_for_oneself(plan_map, key, measure, on_wait=None):
    """Registers a flight, as the reference does, and never waits for one."""
    with plan_map._lock:
        if key in plan_map.ready:
            return plan_map.ready[key], False
        mine = plan_map._flights[key] = _Flight()
    try:
        return plan_map.ready.setdefault(key, Plan(measure(), "live")), True
    finally:
        if plan_map._flights.get(key) is mine:
            del plan_map._flights[key]


class NobodyWaits(Faulty):
    """Lets every thread that misses tune for itself, the plain way."""

    breaks = ("FLIT-1", "FLIT-3")
    controls = ("FLIT-4", "LOOK-4")
    served = True
    changes = ((PlanMap, "tune_once", tune_for_oneself),)


class EveryThreadTunes(Faulty):
    """Lets every thread that misses tune for itself, and keeps the plans when all are done."""

    breaks = ("FLIT-1",)
    controls = ("LOOK-4",)
    served = True

    def plan_many(self, session, requests, load=None, timings=None):
        late = []

        def tune(plan_map, key, measure, on_wait=None):
            late.append((plan_map, key, Plan(measure(), "live")))
            return late[-1][2], True

        with mock.patch.object(PlanMap, "tune_once", tune):
            answer = super().plan_many(session, requests, load, timings)
        for plan_map, key, found in late:
            plan_map.ready.setdefault(key, found)
        return answer


class HitsWaitForTunings(Faulty):
    """Lets a request for a ready plan wait until no tuning is under way."""

    breaks = ("FLIT-2",)
    controls = ("FLIT-1",)
    changes = ((concurrency, "PATIENCE_SECONDS", 0.2),)

    def plan_many(self, session, requests, load=None, timings=None):
        ready = set(self._session(session).plans())
        over = threading.Event()
        if all(checked_key(*request) in ready for request in requests):
            over.set()

        def waiting(cache, m, n, k, **named):
            hit = checked_key(m, n, k) in ready
            try:
                if hit:
                    over.wait(10)
                return plan(cache, m, n, k, **named)
            finally:
                over.set()

        with mock.patch.object(PlanCache, "plan", waiting):
            return super().plan_many(session, requests, load, timings)


class KeepsFailedTuning(Faulty):
    """Keeps tactic 0 as the plan where every tactic failed."""

    breaks = ("FLIT-3", "PROF-4")
    controls = ("PROF-2",)
    served = True
    changes = (
        (
            PlanMap,
            "tune_once",
            lambda self, key, tune, _=None: tune_once(self, key, lambda: _or_zero(tune)),
        ),
    )


def _or_zero(tune):
    try:
        return tune()
    except Rejected:
        return 0


class RemembersTheFailure(Faulty):
    """Never tries a shape again whose tuning has failed once."""

    breaks = ("FLIT-3",)
    controls = ("PROF-4",)

    def __init__(self):
        super().__init__()
        self.failed = {}

    def plan(self, session, m, n, k, *, capturing=False, timings=None):
        if (session, m, n, k) in self.failed:
            raise self.failed[session, m, n, k]
        return super().plan(session, m, n, k, capturing=capturing, timings=timings)

    def plan_many(self, session, requests, load=None, timings=None):
        answer = super().plan_many(session, requests, load, timings)
        for request, one in zip(requests, answer["plans"], strict=True):
            if "rejected" in one:
                self.failed[session, *request] = Rejected(**one["rejected"])
        return answer


def _install_anyway(self, plans, source, *, ours=True):
    flights, self._flights = self._flights, {}
    try:
        return install(self, plans, source, ours=ours)
    finally:
        self._flights = flights


class DefaultsForWaiters(Faulty):
    """Serves tactic 0 to whoever waited for a tuning that failed."""

    breaks = ("FLIT-3",)
    controls = ("FLIT-1",)

    def plan_many(self, session, requests, load=None, timings=None):
        answer = super().plan_many(session, requests, load, timings)
        failed = [index for index, one in enumerate(answer["plans"]) if "rejected" in one]
        for index in failed[1:]:
            answer["plans"][index] = {"tactic": 0, "source": "live", "tuned": False, "lazy": False}
        return answer


class LoadsOverATuning(Faulty):
    """Installs a plan while another thread is tuning it."""

    breaks = ("FLIT-4",)
    controls = ("FLIT-1",)
    changes = ((PlanMap, "install", _install_anyway),)


class SnapshotInOrderOfTuning(Faulty):
    """Lists the ready plans in the order in which they came."""

    breaks = ("FLIT-5",)
    controls = ("FLIT-1",)

    def plans(self, session):
        ready = self._session(session)._map.ready
        self._session(session).plans()
        return [{"m": k.m, "n": k.n, "k": k.k, "tactic": p.tactic} for k, p in ready.items()]
