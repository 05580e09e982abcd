"""The plans of one process in memory.

A ready plan is served at once, by one table lookup for the bucket and one dictionary read. What
happens to a missing plan depends on the mode. In read-write and process-local mode it is tuned,
once for all concurrent requests. In frozen mode it is rejected and nothing is measured. In bypass
mode nothing is kept and every lookup tunes. While a graph is captured the device must not be used,
so a missing plan is rejected in every mode.

Source: FlashInfer 0.6.13 autotuner.py:978-1013.
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from .back_ends import default_back_end
from .buckets import bucket, bucket_table
from .diagnostics import (
    Account,
    Counters,
    Mode,
    Statistics,
    announce,
    log_lazy_miss,
    log_rejection,
)
from .errors import Code, Rejected
from .options import Options
from .plan_map import Plan, PlanMap, Source
from .plans import Identity, PlanKey, Plans, checked_key
from .profiling import Microseconds, Profiler, Step, TimerFactory

_LARGEST_SMALL_M = 4096
_BUCKETS = bucket_table(_LARGEST_SMALL_M)


class Served(NamedTuple):
    """The plan for one request.

    `tuned`: this call tuned it. `lazy`: it did so after the completion of the warm-up.
    """

    tactic: int
    source: Literal["live", "import", "native", "tuned"]
    tuned: bool = False
    lazy: bool = False


class PlanCache:
    """The plans of one process and one environment. Safe to use from several threads.

    `back_end` measures where a call does not pass one; by default it is the one of the options.
    Caches that measure on the same device share a `profiler`. `name` is the member of lifecycle
    rejections.
    """

    def __init__(
        self,
        options: Options,
        *,
        name: str = "session",
        profiler: Profiler | None = None,
        back_end: TimerFactory | None = None,
    ) -> None:
        self.options = options
        self.identity = options.metadata.identity
        self._name = name
        self._profiler = profiler or Profiler()
        self._back_end = back_end
        self._map = PlanMap(name)
        self._ready: Any = self._map.ready  # or `_Closed`
        self._counters = Counters()
        self._trace: tuple[Step, ...] = ()
        self._times: dict[int, Microseconds] = {}
        self._maximum: int | None = None  # the largest M of any warm-up
        self._past_warm_up = False  # whether a miss is lazy
        self._account = _account(self._counters, self._map, options.native_path, self.mode)
        announce(self._account)

    @property
    def mode(self) -> Mode:
        """How plans are kept: `read-write`, `frozen`, `process-local` or `bypass`."""
        if self.options.bypass:
            return "bypass"
        if self.options.frozen:
            return "frozen"
        return "process-local" if self.options.native_path is None else "read-write"

    @property
    def fingerprint(self) -> str:
        """16 hex digits over all compatibility fields and nothing else."""
        return self.options.metadata.fingerprint

    def statistics(self) -> Statistics:
        """The current path, mode and counts."""
        self._require_open()
        return self._account.statistics()

    def plans(self) -> Plans:
        """The selected tactic of every ready plan, sorted by shape."""
        self._require_open()
        return self._account.plans()

    def trace(self) -> tuple[Step, ...]:
        """The calls that the last tuning made to its timer, in order."""
        self._require_open()
        return self._trace

    def times(self) -> dict[int, Microseconds]:
        """The mean microseconds of each tactic with a valid time in the last tuning."""
        self._require_open()
        return self._times

    def close(self) -> None:
        """End the session without writing. Every later call rejects `lifecycle`."""
        self._require_open()
        self._ready = _Closed(self._name)

    def lookup(self, m: int, n: int, k: int, identity: Identity | None = None) -> Plan | None:
        """The ready plan for M x N x K, or None. It takes no lock and never waits.

        A caller that serves several devices or types passes its `identity`. A plan is valid only
        for the identity of this cache, so another one finds none.
        """
        if identity is not None and identity != self.identity:
            return None
        # A plain tuple equals a PlanKey and is created in a fraction of the time.
        key = (_BUCKETS[m] if 0 <= m <= _LARGEST_SMALL_M else bucket(m), n, k)
        found: Plan | None = self._ready.get(key)
        return found

    def plan(
        self,
        m: int,
        n: int,
        k: int,
        *,
        capturing: bool = False,
        back_end: TimerFactory | None = None,
        on_wait: Callable[[], None] | None = None,
    ) -> Served:
        """The plan for M x N x K: a ready one, or one that this call tunes or waits for.

        `on_wait` is called before it waits for the tuning of another call.

        Without a ready plan it rejects `capture-miss` while a graph is captured and `frozen-miss`
        in frozen mode, both before any call to the device. It rejects `no-valid-tactic` where every
        tactic failed. `ValueError` for an impossible shape.
        """
        key = checked_key(m, n, k)
        ready: Plan | None = self._ready.get(key)
        if ready is not None:
            return Served(ready.tactic, ready.source)
        lazy = self._past_warm_up and not self.options.bypass
        if capturing:
            self._count_lazy(lazy, key, m)
            raise _miss(
                "capture-miss",
                key,
                m,
                "and none can be tuned while a graph is captured; "
                "warm up this shape before the capture",
            )
        if self.options.frozen:
            self._count_lazy(lazy, key, m)
            raise frozen_miss(key, m)
        if self.options.bypass:
            tactic, tuned = self._tuned(key, m, back_end), True
        else:
            found, tuned = self._map.tune_once(
                key, lambda: self._tuned(key, m, back_end, lazy=lazy), on_wait
            )
            tactic = found.tactic
            if not tuned:
                return Served(tactic, found.source)
        self._counters.add("tuned")
        return Served(tactic, "tuned", tuned, lazy)

    def back_end(self) -> TimerFactory:
        """The back end that measures where a call passes none; created at its first use."""
        if self._back_end is None:
            self._back_end = default_back_end(self.options.back_end)
        return self._back_end

    def install(self, plans: Plans, source: Source, *, ours: bool = True) -> int:
        """Add the plans of a document; returns the number of new ones. See `PlanMap.install`."""
        self._require_open()
        if self.options.bypass:
            return 0
        new = self._map.install(plans, source, ours=ours)
        self._counters.add("loaded", new)
        return new

    def count_rejection(self, what: str, rejected: Rejected) -> None:
        """Count and log a rejected document."""
        self._counters.add("rejected")
        log_rejection(what, rejected)

    def _require_open(self) -> None:
        if isinstance(self._ready, _Closed):
            raise self._ready.rejected()

    def _tuned(
        self, key: PlanKey, m: int, back_end: TimerFactory | None, *, lazy: bool = False
    ) -> int:
        """Measure all tactics for `key` and return the fastest; called by the owner of `key`."""
        self._count_lazy(lazy, key, m)
        measuring = back_end or self.back_end()
        timer = measuring.timer(self._measured_m(key, m), key.n, key.k)
        trace: list[Step] = []
        self._times = {}
        try:
            selection = self._profiler.select(
                timer, (m, key.n, key.k), self.options.delay_microseconds, trace
            )
        finally:
            self._trace = tuple(trace)
        self._times = selection.microseconds
        return selection.tactic

    def _measured_m(self, key: PlanKey, m: int) -> int:
        """The M to measure: the bucket, but not more rows than a warm-up or this call uses."""
        if self._maximum is None or key.m <= self._maximum:
            return key.m
        return max(self._maximum, m)

    def _count_lazy(self, lazy: bool, key: PlanKey, m: int) -> None:
        if lazy and self._counters.missed(key):
            log_lazy_miss(key, m)


def _account(counters: Counters, plans: PlanMap, path: str | None, mode: Mode) -> Account:
    """An account that does not keep the cache alive."""
    return Account(
        statistics=lambda: counters.statistics(path, mode),
        plans=lambda: {key: plan.tactic for key, plan in plans.snapshot().items()},
    )


class _Closed:
    """Replaces the ready plans of a closed cache, so that a lookup needs no check for closing."""

    def __init__(self, name: str) -> None:
        self._name = name

    def get(self, key: PlanKey) -> Plan | None:
        raise self.rejected()

    def rejected(self) -> Rejected:
        return Rejected(
            "lifecycle", self._name, f"the session {self._name!r} is closed; open another one."
        )


def frozen_miss(key: PlanKey, m: int, why: str = "") -> Rejected:
    """The rejection of a request without a plan in a frozen cache; `why` explains the cause."""
    rest = f"and the cache is frozen{why}; add the plan to the file, or tune in read-write mode"
    return _miss("frozen-miss", key, m, rest)


def _miss(code: Code, key: PlanKey, m: int, rest: str) -> Rejected:
    return Rejected(
        code,
        f"{m},{key.n},{key.k}",
        f"there is no plan for M = {m} (bucket {key.m}), N = {key.n}, K = {key.k}, {rest}.",
    )
