"""A session: from resolved options through loading, warm-up and saving to serving plans.

    session = Session(resolve(os.environ))
    session.warm_up(2048, [(5120, 6144), (14336, 5120)])   # load, then tune what is missing
    session.complete()                                     # save; from here on a miss is lazy
    session.lookup(17, 5120, 6144)                         # a ready plan, or None
    session.plan(17, 5120, 6144)                           # a plan, tuned if it must be

A plan is taken from where it is found first: what this process tuned, the imported FlashInfer
file, the native file; else it is tuned. In frozen mode it must be in a file, and nothing is
measured or written, before and after completion. With the plan cache bypassed nothing is kept:
every lookup tunes. While a graph is captured nothing may touch the device, so a miss is refused.

Nothing is read before the warm-up and nothing written before it completes, so a process that
dies, is cancelled or fails on the way leaves the disk as it was.

Source: vLLM 0.25.0 kernel_warmup.py:133-213.
"""

import threading
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from . import publication
from .back_ends import BackEnd, default_back_end
from .buckets import bucket
from .diagnostics import (
    Counters,
    Mode,
    Statistics,
    log_lazy_miss,
    log_phase,
    log_rejection,
    log_warnings,
    map_digest,
)
from .environment import ImportMetadata
from .errors import Code, Rejected
from .native_document import Document
from .options import Options
from .plan_map import Plan, PlanMap, Source
from .plans import Identity, PlanKey, Plans
from .profiling import Profiler, Step
from .sources import Found, read_sources
from .warm_up import MaximumPass, WarmUp, checked_key

_BUCKETS = tuple(bucket(m) for m in range(4097))
_LARGEST_SMALL_M = len(_BUCKETS) - 1

_Phase = Literal["serving", "warming", "passed", "completing"]


@dataclass(frozen=True, slots=True)
class Served:
    """A plan for one request; `tuned` by this call, or `lazy`: tuned by it after completion."""

    tactic: int
    source: Literal["live", "import", "native", "tuned"]
    tuned: bool = False
    lazy: bool = False


@dataclass(frozen=True, slots=True)
class Completion:
    """How many plans the file holds now, 0 where it was not written; and why a save failed."""

    saved: int
    failure: str | None = None


class Session:
    """The plans of one process and one environment; safe to use from several threads.

    `back_end` measures where a call names none; without either, the installed one is looked for.
    Sessions that measure on one device share a `profiler`. `name` is for rejections.
    """

    def __init__(
        self,
        options: Options,
        *,
        name: str = "session",
        expected_import: ImportMetadata | None = None,
        profiler: Profiler | None = None,
        back_end: BackEnd | None = None,
    ) -> None:
        self.options = options
        self.identity = options.metadata.identity
        self._name = name
        self._expected_import = expected_import or ImportMetadata.of_this_machine()
        self._profiler = profiler or Profiler()
        self._back_end = back_end
        self._map = PlanMap(name)
        self._ready: Any = self._map.ready  # or `_Closed`
        self._counters = Counters()
        self._trace: tuple[Step, ...] = ()
        self._lock = threading.Lock()  # of the phase and what belongs to it, below
        self._phase: _Phase = "serving"
        self._completed = False
        self._sources: list[Found] | None = None
        self._maximum: int | None = None
        log_warnings(options.warnings)
        log_phase(
            "open",
            session=name,
            mode=self.mode,
            path=options.native_path,
            import_path=options.import_path,
            fingerprint=self.fingerprint,
        )

    # Facts

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
        return self._counters.statistics(self.options.native_path, self.mode)

    def plans(self) -> Plans:
        """The selected tactic of every ready plan, sorted by shape."""
        self._require_open()
        return {key: plan.tactic for key, plan in self._map.snapshot().items()}

    def trace(self) -> tuple[Step, ...]:
        """Every call that the last tuning made of its timer, in order."""
        self._require_open()
        return self._trace

    # Lookup

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
        self, m: int, n: int, k: int, *, capturing: bool = False, back_end: BackEnd | None = None
    ) -> Served:
        """The plan that serves M x N x K: a ready one, or one that is tuned now.

        A miss rejects `capture-miss` while a graph is captured and `frozen-miss` in frozen mode,
        both before any call to the device, and `no-valid-tactic` where every tactic failed.
        """
        key = checked_key(m, n, k)
        ready: Plan | None = self._ready.get(key)
        if ready is not None:
            return Served(ready.tactic, ready.source)
        lazy = self._completed and self._phase == "serving" and not self.options.bypass
        if capturing:
            self._count_lazy(lazy, key, m)
            raise _miss(
                "capture-miss",
                key,
                m,
                "and none may be tuned while a graph is captured; warm up "
                "this shape before capturing",
            )
        if self.options.frozen:
            self._count_lazy(lazy, key, m)
            raise _miss(
                "frozen-miss",
                key,
                m,
                "and the cache is frozen; add the plan to the file, or tune in read-write mode",
            )
        if self.options.bypass:
            tactic, tuned = self._tuned(key, m, back_end), True
        else:
            found, tuned = self._map.tune_once(
                key, lambda: self._tuned(key, m, back_end, lazy=lazy)
            )
            tactic = found.tactic
            if not tuned:
                return Served(tactic, found.source)
        self._counters.add("tuned")
        return Served(tactic, "tuned", tuned, lazy)

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

    # Warm-up

    def warm_up(
        self,
        max_tokens: int,
        shapes: Iterable[tuple[int, int]],
        *,
        back_end: BackEnd | None = None,
    ) -> WarmUp:
        """Begin a warm-up and make its maximum-token pass; what fails abandons it.

        The shapes are the (N, K) of every weight. In frozen mode the first missing plan rejects
        `frozen-miss`. Rejects `lifecycle` while another warm-up is open.
        """
        covered = MaximumPass.of(max_tokens, shapes)
        loaded = self.begin_warm_up()
        try:
            missing, tuned = self._make_pass(covered, back_end)
        except BaseException:
            self.abandon()
            raise
        return WarmUp(loaded, tuned, missing)

    def begin_warm_up(self) -> int:
        """Open a warm-up and load the files, if this session has not yet; plans loaded now."""
        self._enter("warming", {"serving"}, "a warm-up is open already; complete or abandon it")
        try:
            return self._load()
        except BaseException:
            self.abandon()
            raise

    def maximum_pass(
        self,
        max_tokens: int,
        shapes: Iterable[tuple[int, int]],
        *,
        back_end: BackEnd | None = None,
    ) -> WarmUp:
        """Make every profile of every shape ready within a warm-up that was begun."""
        missing, tuned = self._make_pass(MaximumPass.of(max_tokens, shapes), back_end)
        return WarmUp(0, tuned, missing)

    def complete(self) -> Completion:
        """End the warm-up and save. A save that fails is reported, and the plans still serve.

        Rejects `lifecycle` without an open warm-up that has made its maximum-token pass.
        """
        self._enter(
            "completing",
            {"passed"},
            "there is no warm-up to complete that has made its "
            "maximum-token pass; warm up first, and complete once",
        )
        try:
            completion = self._saved() if self.mode == "read-write" else Completion(0)
        except BaseException:
            self._phase = "passed"
            raise
        with self._lock:
            self._completed = True
            self._phase = "serving"
        self._counters.saved(completion.saved)
        log_phase(
            "complete",
            session=self._name,
            failure=completion.failure,
            map=map_digest({key: plan.tactic for key, plan in self._map.snapshot().items()}),
            **asdict(self._counters.statistics(self.options.native_path, self.mode)),
        )
        return completion

    def abandon(self) -> None:
        """End the warm-up, if one is open, and write nothing. What was tuned still serves."""
        self._enter(
            "serving",
            {"serving", "warming", "passed"},
            "the warm-up is being completed; it is too late to abandon it",
        )

    def close(self) -> None:
        """End the session and write nothing; every later call rejects `lifecycle`."""
        self._require_open()
        self._ready = _Closed(self._name)

    # The parts

    def _enter(self, phase: _Phase, expected: set[_Phase], otherwise: str) -> None:
        self._require_open()
        with self._lock:
            if self._phase not in expected:
                raise Rejected("lifecycle", self._name, f"{otherwise}.")
            self._phase = phase

    def _require_open(self) -> None:
        if isinstance(self._ready, _Closed):
            raise self._ready.rejected()

    def _load(self) -> int:
        """Install the plans of the files. They are read once: what happens to them later is later.

        Only their installation is repeated by the next warm-up where a tuning stood in its way.
        """
        if self.options.bypass or not self.options.enabled:
            return 0
        first = self._sources is None
        if self._sources is None:
            self._sources = read_sources(self.options, self._expected_import)
        loaded = 0
        for found in self._sources:
            if found.rejected is None:
                loaded += self.install(found.plans, found.source)
            elif first:
                self.count_rejection(found.source, found.rejected)
        if first:
            counts = {found.source: len(found.plans) for found in self._sources}
            log_phase("load", session=self._name, loaded=loaded, plans=counts)
        return loaded

    def _make_pass(self, covered: MaximumPass, back_end: BackEnd | None) -> tuple[int, int]:
        """The number of plans that were missing, and of those that this pass tuned."""
        self._enter("warming", {"warming"}, "no warm-up is open; begin one before its pass")
        self._maximum = covered.maximum
        ready = self._map.ready
        missing = {key: m for key, m in covered.needed.items() if key not in ready}
        if self.options.frozen:
            self._require_frozen_map(missing)
        tuned = 0
        for key, m in missing.items():
            self._require_open()
            tuned += self.plan(m, key.n, key.k, back_end=back_end).tuned
        self._enter("passed", {"warming"}, "the warm-up was abandoned during its pass")
        log_phase(
            "warm-up",
            session=self._name,
            maximum=covered.maximum,
            needed=len(covered.needed),
            missing=len(missing),
            tuned=tuned,
        )
        return len(missing), tuned

    def _require_frozen_map(self, missing: dict[PlanKey, int]) -> None:
        """Everything must have come from the files, and an import that was asked for counts."""
        rejections = [found.rejected for found in self._sources or () if found.rejected]
        for key, m in missing.items():
            why = "".join(f" ({rejected.code}: {rejected.message})" for rejected in rejections)
            raise _miss(
                "frozen-miss",
                key,
                m,
                "and the cache is frozen; add the plan to the "
                f"file, or tune in read-write mode{why}",
            )
        for found in self._sources or ():
            if found.rejected and found.source == "import":
                raise found.rejected

    def _tuned(self, key: PlanKey, m: int, back_end: BackEnd | None, *, lazy: bool = False) -> int:
        """Measure all tactics for `key` and return the winner; called by the owner of `key`."""
        self._count_lazy(lazy, key, m)
        measuring = back_end or self._back_end or default_back_end()
        timer = measuring.timer(self._measured_m(key, m), key.n, key.k)
        trace: list[Step] = []
        try:
            selection = self._profiler.select(
                timer, (m, key.n, key.k), self.options.delay_microseconds, trace
            )
        finally:
            self._trace = tuple(trace)
        return selection.tactic

    def _measured_m(self, key: PlanKey, m: int) -> int:
        """The M to measure at: the bucket, but never more rows than somebody has declared."""
        if self._maximum is None or key.m <= self._maximum:
            return key.m
        return max(self._maximum, m)

    def _count_lazy(self, lazy: bool, key: PlanKey, m: int) -> None:
        if lazy and self._counters.missed(key):
            log_lazy_miss(key, m)

    def _saved(self) -> Completion:
        """Publish what was tuned and imported here; what was read from the file only fills gaps."""
        path = self.options.native_path
        assert path is not None
        ours = {key: plan for key, plan in self._map.snapshot().items() if plan.ours}
        current = {key: plan.tactic for key, plan in ours.items() if plan.source != "native"}
        loaded = {key: plan.tactic for key, plan in ours.items() if plan.source == "native"}
        try:
            written = publication.update(
                path,
                Document(self.options.metadata, current),
                loaded=loaded,
                replace_damaged=self.options.default_native_path,
            )
        except Rejected as rejected:
            log_rejection("save", rejected)
            return Completion(0, str(rejected))
        return Completion(len(written.plans))


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


def _miss(code: Code, key: PlanKey, m: int, rest: str) -> Rejected:
    return Rejected(
        code,
        f"{m},{key.n},{key.k}",
        f"there is no plan for M = {m} (bucket {key.m}), N = {key.n}, K = {key.k}, {rest}.",
    )
