"""A session with FlashInfer's tuner, which is called as an inference server calls it.

A warm-up is `with autotune(True, cache=path)` around one product of each weight shape at the
maximum number of tokens. A request before the end of the warm-up is tuned for its own bucket. After
that, FlashInfer serves the plans that it has, and tactic -1 where it has none.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any

from .concurrent_requests import ConcurrentRequests
from .errors import Rejected
from .flashinfer_files import TunerFiles, TunerLog, documented_errors
from .flashinfer_install import FlashInfer
from .flashinfer_operation import OPERATION, Shape, inputs, keys_in, shapes_in, tuning_config
from .scripted_device import ScriptedDevice, Timings, make_runner

FILE = "VT_FP4_AUTOTUNE_CACHE_PATH"
DELAY = "VT_FP4_AUTOTUNE_DELAY_US"
IMPORT = "VT_FP4_FLASHINFER_CACHE_PATH"


class _Abandoned(Exception):  # noqa: N818 - no error: it ends a warm-up that is abandoned
    """The warm-up will not be completed."""


class TunerSession:
    """One session on the tuner of this process.

    Each method is an operation of the adapter interface, with JSON values in and out.
    """

    def __init__(
        self,
        flashinfer: FlashInfer,
        log: TunerLog,
        device: ScriptedDevice,
        environment: dict[str, str],
    ) -> None:
        if environment.get(IMPORT):
            raise ValueError(f"{IMPORT} is set, and FlashInfer has no import file; unset it.")
        self._flashinfer = flashinfer
        self._log = log
        self._device = device
        self._runner = make_runner(flashinfer, device)
        self._config = tuning_config(flashinfer)
        self._files = TunerFiles(flashinfer, log, self._runner, self._config)
        self._tuner = flashinfer.AutoTuner.get()
        if delay := environment.get(DELAY):
            self._tuner.stream_delay_micro_secs = int(delay)
        self._path = environment.get(FILE)
        self._warm_ups: list[AbstractContextManager[None]] = []
        self._completed = False
        self._shapes: set[Shape] = set()  # for which FlashInfer may have plans
        self._loaded = self._rejected = self._saved = self._lazy = 0

    # Files

    def read(self, path: str) -> dict[str, Any]:
        """Load a file into the tuner."""
        shapes = set(shapes_in(keys_in(path)))
        self._shapes |= shapes
        try:
            loaded = self._files.load(self._tuner, path)
        except Rejected:
            self._rejected += 1
            raise
        rows = self._files.rows(self._tuner, shapes)
        self._loaded += len(rows)
        return {"plans": rows, "ignored": loaded - len(rows)}

    # Warm-up

    def warm_up(
        self, max_tokens: int, weights: Sequence[Sequence[int]], timings: Timings | None
    ) -> dict[str, Any]:
        """Enter `autotune`, which loads the file, and request every shape at the maximum M."""
        rejected: list[dict[str, str]] = []
        self._log.clear()
        shapes = set(shapes_in(keys_in(self._path))) if self._path else set()
        self._shapes |= shapes
        warm_up = self._flashinfer.autotune(True, cache=self._path)
        with documented_errors():
            warm_up.__enter__()
        self._warm_ups.append(warm_up)
        if found := self._log.mismatch:
            self._rejected += 1
            member, message = found
            rejected = [{"code": "foreign-environment", "member": member, "message": message}]
        loaded = len(self._files.rows(self._tuner, shapes)) if self._log.count("Loaded") else 0
        self._loaded += loaded
        before = self._tuned
        with self._device.scripted(timings):
            for n, k in weights:
                for m in self._flashinfer.profiles(max_tokens):
                    self._shapes.add((self._flashinfer.bucket(m), n, k))
                self._choose(max_tokens, n, k)
        return {"loaded": loaded, "tuned": self._tuned - before, "rejected": rejected}

    def complete(self) -> dict[str, Any]:
        """Leave `autotune`, which saves the plans; an error that it raises is the failure."""
        warm_up = self._innermost()
        self._log.clear()
        failure = None
        try:
            warm_up.__exit__(None, None, None)
        except Exception as error:
            failure = f"{type(error).__name__}: {error}"
        else:
            if found := self._log.mismatch:
                failure = found[1]
        self._completed = not self._warm_ups
        self._saved = self._log.count("Saved") or 0
        return {"saved": self._saved, "failure": failure}

    def abandon(self) -> None:
        """Leave `autotune` by an exception, as a failing warm-up does."""
        warm_up, error = self._innermost(), _Abandoned("the warm-up is abandoned.")
        with suppress(_Abandoned):
            warm_up.__exit__(_Abandoned, error, None)

    def _innermost(self) -> AbstractContextManager[None]:
        if not self._warm_ups:
            raise Rejected("lifecycle", "", "no warm-up is open; begin one first.")
        return self._warm_ups.pop()

    # Requests

    def plan(self, m: int, n: int, k: int, timings: Timings | None) -> dict[str, Any]:
        """Serve one product."""
        with self._device.scripted(timings):
            return self._plan(m, n, k)

    def plan_many(
        self, requests: Sequence[Shape], load: str | None, timings: Timings | None
    ) -> dict[str, Any]:
        """Serve products concurrently."""
        ready = [i for i, shape in enumerate(requests) if self._files.lookup(self._tuner, shape)]
        refused: list[Rejected] = []

        def load_file() -> None:
            try:
                self.read(str(load))
            except Rejected as rejected:
                refused.append(rejected)

        concurrent = ConcurrentRequests(
            lambda i: self._plan(*requests[i]), len(requests), ready, load_file if load else None
        )
        before = self._device.tunings
        self._device.on_tuning = concurrent.on_tuning
        try:
            with self._device.scripted(timings):
                plans = concurrent.run()
        finally:
            self._device.on_tuning = lambda: None
        return {
            "plans": plans,
            "tunings": self._device.tunings - before,
            "load": _as_json(refused[0]) if refused else None,
        }

    def _plan(self, m: int, n: int, k: int) -> dict[str, Any]:
        shape = (self._flashinfer.bucket(m), n, k)
        self._shapes.add(shape)
        known = self._files.lookup(self._tuner, shape)
        before, misses = self._device.thread_tunings, self._log.misses
        if self._completed:
            tactic = self._choose(m, n, k)
        else:
            with self._flashinfer.autotune(True, tuning_buckets=shape[:1], round_up=True):
                tactic = self._choose(m, n, k)
        tuned = self._device.thread_tunings > before
        lazy = self._completed and self._log.misses > misses
        self._lazy += lazy
        if known is not None:
            source = "live" if known[1] else "native"
        else:
            source = "tuned" if tuned else "live"
        if self._files.lookup(self._tuner, shape) is None:
            source, tuned = "fallback", False
        return {"tactic": tactic, "source": source, "tuned": tuned, "lazy": lazy}

    def _choose(self, m: int, n: int, k: int) -> Any:
        _, tactic = self._tuner.choose_one(
            OPERATION, [self._runner], self._config, inputs(self._flashinfer, m, n, k)
        )
        return tactic

    # Diagnostics

    def plans(self) -> list[dict[str, Any]]:
        """The plans that the tuner serves."""
        return self._files.rows(self._tuner, self._shapes)

    def stats(self) -> dict[str, Any]:
        """Counts, from the tuner's statistics and its log."""
        return {
            "loaded": self._loaded,
            "rejected": self._rejected,
            "tuned": self._tuned,
            "saved": self._saved,
            "lazy": self._lazy,
            "path": self._path,
            "mode": None,
        }

    def trace(self) -> list[dict[str, Any]]:
        """The calls that the last tuning made to the device."""
        return self._device.steps

    @property
    def _tuned(self) -> int:
        tuned: int = self._tuner.stats.tuned_op_successful_configs.get(OPERATION, 0)
        return tuned


def _as_json(rejected: Rejected) -> dict[str, str]:
    return {"code": rejected.code, "member": rejected.member, "message": str(rejected)}
