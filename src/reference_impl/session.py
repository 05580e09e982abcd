"""A session: it loads plans, warms up, saves, and serves plans.

    session = Session(resolve(os.environ))
    session.warm_up(2048, [(5120, 6144), (14336, 5120)])   # load, then tune the missing plans
    session.complete()                                     # save; later misses are lazy
    session.lookup(17, 5120, 6144)                         # a ready plan, or None
    session.plan(17, 5120, 6144)                           # a plan, tuned if there is none

The sources of a plan, in this order: tuned in this process, the imported FlashInfer file, the
native file; else it is tuned. In frozen mode a plan must be in a file, and nothing is measured or
written, before and after completion. In bypass mode nothing is kept, and every lookup tunes. While
a graph is captured the device must not be used, so a missing plan is rejected.

No file is read before the warm-up, and none is written before it completes. So a process that ends
or fails in between leaves the disk unchanged.

Source: vLLM 0.25.0 kernel_warmup.py:133-213.
"""

import os
import threading
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Literal, get_args

from .back_ends import import_metadata
from .diagnostics import log_phase, log_rejection, log_warnings, map_digest
from .environment import ImportMetadata
from .errors import Rejected
from .native_document import Document
from .options import Options
from .plan_cache import PlanCache, frozen_miss
from .plans import PlanKey
from .profiling import Profiler, TimerFactory
from .warm_up import Found, MaximumPass, WarmUp, read_sources

_Phase = Literal["serving", "warming", "passed", "completing"]


@dataclass(frozen=True, slots=True)
class Completion:
    """The plans in the saved file, 0 where it was not written, and why a save failed."""

    saved: int
    failure: str | None = None


class Session(PlanCache):
    """A plan cache with the files of its options, and the warm-up that fills it.

    `expected_import`: the environment that an imported file must have. The other parameters are
    those of `PlanCache`.
    """

    def __init__(
        self,
        options: Options,
        *,
        name: str = "session",
        expected_import: ImportMetadata | None = None,
        profiler: Profiler | None = None,
        back_end: TimerFactory | None = None,
    ) -> None:
        super().__init__(options, name=name, profiler=profiler, back_end=back_end)
        self._expected_import = expected_import or import_metadata(options.back_end)
        self._sources: list[Found] | None = None
        self._lock = threading.Lock()  # for the phase, and the state that changes with it
        self._phase: _Phase = "serving"
        self._completed = False
        self._warm_ups = 0  # begun so far; an abandoned one must not end the next
        log_warnings(options.warnings)
        log_phase(
            "open",
            session=name,
            mode=self.mode,
            path=options.native_path,
            import_path=options.import_path,
            fingerprint=self.fingerprint,
        )

    # Warm-up

    def warm_up(
        self,
        max_tokens: int,
        shapes: Iterable[tuple[int, int]],
        *,
        back_end: TimerFactory | None = None,
    ) -> WarmUp:
        """Begin a warm-up and make its maximum-token pass; an error abandons the warm-up.

        `shapes`: the (N, K) of every weight. In frozen mode the first missing plan rejects
        `frozen-miss`. Rejects `lifecycle` while another warm-up is open.
        """
        covered = MaximumPass.of(max_tokens, shapes)
        loaded = self.begin_warm_up()
        mine = self._warm_ups
        try:
            missing, tuned = self._make_pass(covered, back_end)
        except BaseException:
            with self._lock:
                if self._warm_ups == mine:
                    self._set_phase("serving")
            raise
        return WarmUp(loaded, tuned, missing)

    def begin_warm_up(self) -> int:
        """Open a warm-up, load the files unless they are loaded; returns the plans loaded now."""
        self._require_open()
        self._enter("warming", {"serving"}, "a warm-up is already open; complete or abandon it.")
        try:
            return self._load()
        except BaseException:
            self._enter("serving", set(get_args(_Phase)), "")
            raise

    def maximum_pass(
        self,
        max_tokens: int,
        shapes: Iterable[tuple[int, int]],
        *,
        back_end: TimerFactory | None = None,
    ) -> WarmUp:
        """Make every profile of every shape ready, within an open warm-up."""
        missing, tuned = self._make_pass(MaximumPass.of(max_tokens, shapes), back_end)
        return WarmUp(0, tuned, missing)

    def complete(self) -> Completion:
        """End the warm-up and save. A failed save is reported, and the plans are still served.

        Rejects `lifecycle` unless a warm-up is open and has made its maximum-token pass.
        """
        self._require_open()
        self._enter(
            "completing",
            {"passed"},
            "no warm-up is open that has made its maximum-token pass; "
            "warm up first, and complete once.",
        )
        try:
            completion = self._saved() if self.mode == "read-write" else Completion(0)
        except BaseException:
            self._enter("passed", {"completing"}, "")  # an interrupted save can be repeated
            raise
        self._completed = True
        self._enter("serving", {"completing"}, "")
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
        """End the warm-up, if one is open, without writing. The tuned plans are still served."""
        self._require_open()
        self._enter(
            "serving",
            {"serving", "warming", "passed"},
            "the warm-up is being completed and can no longer be abandoned; wait for its end.",
        )

    def rejections(self) -> list[Rejected]:
        """The rejections of files by the warm-up, in the order in which they were read."""
        return [found.rejected for found in self._sources or () if found.rejected is not None]

    # Steps

    def _enter(
        self, phase: _Phase, expected: set[_Phase], otherwise: str, warm_up: int | None = None
    ) -> None:
        """Change the phase, or reject `lifecycle` with the sentence `otherwise`.

        It rejects where the phase is not `expected`, and where the open warm-up is no longer that
        with the number `warm_up`.
        """
        with self._lock:
            if self._phase not in expected or warm_up not in (None, self._warm_ups):
                raise Rejected("lifecycle", self._name, otherwise)
            self._set_phase(phase)

    def _set_phase(self, phase: _Phase) -> None:
        """Change the phase; called with the lock held."""
        self._warm_ups += phase == "warming" and self._phase == "serving"
        self._phase = phase
        self._past_warm_up = self._completed and phase == "serving"

    def _load(self) -> int:
        """Install the plans of the files, which are read only once in a session.

        A later warm-up only installs them again, where a running tuning prevented it.
        """
        if self.options.bypass or not self.options.enabled:
            return 0
        first = self._sources is None
        if self._sources is None:
            self._sources = read_sources(self.options, self._expected_import)
            for found in self._sources:
                if found.rejected is not None:
                    self.count_rejection(found.source, found.rejected)
        loaded = sum(self.install(found.plans, found.source) for found in self._sources)
        if first:
            counts = {found.source: len(found.plans) for found in self._sources}
            log_phase("load", session=self._name, loaded=loaded, plans=counts)
        return loaded

    def _make_pass(self, covered: MaximumPass, back_end: TimerFactory | None) -> tuple[int, int]:
        """Make the pass; returns the number of missing plans, and of those tuned by this pass."""
        self._require_open()
        self._enter(
            "warming", {"warming", "passed"}, "no warm-up is open; begin one before the pass."
        )
        mine = self._warm_ups
        self._maximum = max(covered.maximum, self._maximum or 0)
        ready = self._map.ready
        missing = {key: m for key, m in covered.needed.items() if key not in ready}
        if self.options.frozen:
            self._require_frozen_map(missing)
        tuned = 0
        for key, m in missing.items():
            tuned += self.plan(m, key.n, key.k, back_end=back_end).tuned
        self._require_open()
        self._enter(
            "passed",
            {"warming"},
            "the warm-up was abandoned during its pass; begin another one.",
            mine,
        )
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
        """Reject where a plan is missing, or where the import file was rejected.

        Without the import, plans from the native file would be served instead.
        """
        refused = [(found.source, found.rejected) for found in self._sources or ()]
        if missing:
            key, m = next(iter(missing.items()))
            why = "".join(
                f" (the {source} file: {rejected.code}, {rejected.message.rstrip('.')})"
                for source, rejected in refused
                if rejected
            )
            raise frozen_miss(key, m, why)
        for source, rejected in refused:
            if rejected and source == "import":
                raise rejected

    def _saved(self) -> Completion:
        """Publish the tuned and imported plans; plans loaded from the file only fill gaps."""
        path, import_path = self.options.native_path, self.options.import_path
        assert path is not None
        if import_path is not None and _one_file(path, import_path):
            return Completion(
                0,
                f"{path!r} is another name of the imported file, and an imported file is never "
                "written; set another path for the native file.",
            )
        from . import publication  # a frozen session does not import it

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


def _one_file(path: str, other: str) -> bool:
    """Whether two paths name the same file, with links followed."""
    try:
        return os.path.realpath(path) == os.path.realpath(other)
    except ValueError:  # not a valid file name; saving reports it
        return False
