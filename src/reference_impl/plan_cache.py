"""The plans of one process in memory: a ready one at once, a missing one by what the mode allows.

In read-write and process-local mode a missing plan is tuned, once for all who ask. In frozen mode
it is refused, and nothing is measured. With the plan cache bypassed nothing is kept: every lookup
tunes. While a graph is captured nothing may touch the device, so a miss is refused in every mode.

A ready plan costs its caller one table lookup for the bucket and one dictionary read.

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
    """A plan for one request; `tuned` by this call, or `lazy`: tuned by it after completion."""

    tactic: int
    source: Literal["live", "import", "native", "tuned"]
    tuned: bool = False
    lazy: bool = False


class PlanCache:
    """The plans of one process and one environment; safe to use from several threads.

    `back_end` measures where a call names none; without either, the one that the options name.
    Caches that measure on one device share a `profiler`. `name` is for rejections.
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
        self._maximum: int | None = None  # the largest M that a warm-up has declared
        self._past_warm_up = False  # from now on a miss is lazy
        self._account = _account(self._counters, self._map, options.native_path, self.mode)
        announce(self._account)

    @property
    def mode(self) -> Mode:
        """What becomes of plans."""
        if self.options.bypass:
            return "bypass"
        if self.options.frozen:
            return "frozen"
        return "process-local" if self.options.native_path is None else "read-write"

    @property
    def fingerprint(self) -> str:
        """16 hex digits of all compatibility fields, and of nothing else."""
        return self.options.metadata.fingerprint

    def statistics(self) -> Statistics:
        """Path, mode and counts, as of now."""
        self._require_open()
        return self._account.statistics()

    def plans(self) -> Plans:
        """The selected tactic of every ready plan, sorted by shape."""
        self._require_open()
        return self._account.plans()

    def trace(self) -> tuple[Step, ...]:
        """Every call that the last tuning made of its timer, in order."""
        self._require_open()
        return self._trace

    def times(self) -> dict[int, Microseconds]:
        """The mean of each tactic that had a valid time in the last tuning."""
        self._require_open()
        return self._times

    def close(self) -> None:
        """Write nothing, and reject `lifecycle` from now on, whatever is called."""
        self._require_open()
        self._ready = _Closed(self._name)

    def lookup(self, m: int, n: int, k: int, identity: Identity | None = None) -> Plan | None:
        """The ready plan that serves M x N x K, or None. It takes no lock and waits for nobody.

        A caller that may serve several devices or types names its `identity`: a plan is for the
        session's own identity alone, and any other misses.
        """
        if identity is not None and identity != self.identity:
            return None
        # A plain tuple equals a PlanKey and is made in a fraction of the time.
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
        """The plan that serves M x N x K: a ready one, or one that is tuned now.

        `on_wait` is called before this waits for somebody else's tuning.

        A miss rejects `capture-miss` while a graph is captured and `frozen-miss` in frozen mode,
        both before any call to the device, and `no-valid-tactic` where every tactic failed.
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
                "and none may be tuned while a graph is captured; "
                "warm up this shape before capturing",
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
        """What measures where a call names nothing else; made when it is first asked for."""
        if self._back_end is None:
            self._back_end = default_back_end(self.options.back_end)
        return self._back_end

    def install(self, plans: Plans, source: Source, *, ours: bool = True) -> int:
        """Add the plans of a document that was read; how many were new. See `PlanMap.install`."""
        self._require_open()
        if self.options.bypass:
            return 0
        new = self._map.install(plans, source, ours=ours)
        self._counters.add("loaded", new)
        return new

    def count_rejection(self, what: str, rejected: Rejected) -> None:
        """Count and log a document that was refused."""
        self._counters.add("rejected")
        log_rejection(what, rejected)

    def _require_open(self) -> None:
        if isinstance(self._ready, _Closed):
            raise self._ready.rejected()

    def _tuned(
        self, key: PlanKey, m: int, back_end: TimerFactory | None, *, lazy: bool = False
    ) -> int:
        """Measure all tactics for `key` and return the winner; called by the owner of `key`."""
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
        """The M to measure at: the bucket, but never more rows than somebody has declared."""
        if self._maximum is None or key.m <= self._maximum:
            return key.m
        return max(self._maximum, m)

    def _count_lazy(self, lazy: bool, key: PlanKey, m: int) -> None:
        if lazy and self._counters.missed(key):
            log_lazy_miss(key, m)


def _account(counters: Counters, plans: PlanMap, path: str | None, mode: Mode) -> Account:
    """An account that does not keep the cache itself alive."""
    return Account(
        statistics=lambda: counters.statistics(path, mode),
        plans=lambda: {key: plan.tactic for key, plan in plans.snapshot().items()},
    )


class _Closed:
    """Stands where the ready plans were, so that serving them costs no check for closing."""

    def __init__(self, name: str) -> None:
        self._name = name

    def get(self, key: PlanKey) -> Plan | None:
        raise self.rejected()

    def rejected(self) -> Rejected:
        return Rejected(
            "lifecycle", self._name, f"the session {self._name!r} is closed; open another."
        )


def frozen_miss(key: PlanKey, m: int, why: str = "") -> Rejected:
    """A plan that is not in the files of a frozen cache; `why` not, where that is known."""
    rest = f"and the cache is frozen{why}; add the plan to the file, or tune in read-write mode"
    return _miss("frozen-miss", key, m, rest)


def _miss(code: Code, key: PlanKey, m: int, rest: str) -> Rejected:
    return Rejected(
        code,
        f"{m},{key.n},{key.k}",
        f"there is no plan for M = {m} (bucket {key.m}), N = {key.n}, K = {key.k}, {rest}.",
    )
