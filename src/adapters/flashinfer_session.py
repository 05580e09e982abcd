"""A session: one process with FlashInfer's tuner, driven as a server would drive it.

A warm-up is `with autotune(True, cache=path)` around one product of each shape at the maximum
number of tokens. A request before it has ended is tuned for its own bucket; after that, FlashInfer
serves what it has and falls back to tactic -1 elsewhere.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any

from .flashinfer_files import Files, documented
from .flashinfer_install import FlashInfer
from .flashinfer_products import OPERATION, Key, inputs, keys_in, names_in, tuning_config
from .hearing import Ear
from .rejection import Rejected
from .scripted_device import Device, Script, make_runner
from .together import Together

FILE = "VT_FP4_AUTOTUNE_CACHE_PATH"
DELAY = "VT_FP4_AUTOTUNE_DELAY_US"
IMPORT = "VT_FP4_FLASHINFER_CACHE_PATH"


class Abandoned(Exception):  # noqa: N818 - raised inside a warm-up by who gives it up
    """The warm-up is not going to be completed."""


class Session:
    """One tuner. Every method is an operation; plain data goes in and comes out."""

    def __init__(
        self, flashinfer: FlashInfer, ear: Ear, device: Device, environment: dict[str, str]
    ) -> None:
        if environment.get(IMPORT):
            raise ValueError(f"FlashInfer has no second file, so that {IMPORT} means nothing to it")
        self._flashinfer = flashinfer
        self._ear = ear
        self._device = device
        self._runner = make_runner(flashinfer, device)
        self._config = tuning_config(flashinfer)
        self._files = Files(flashinfer, ear, self._runner, self._config)
        self._tuner = flashinfer.AutoTuner.get()
        if delay := environment.get(DELAY):
            self._tuner.stream_delay_micro_secs = int(delay)
        self._path = environment.get(FILE)
        self._warm_ups: list[AbstractContextManager[None]] = []
        self._completed = False
        self._seen: set[Key] = set()  # products that FlashInfer may have plans for
        self._loaded = self._rejected = self._saved = self._lazy = 0

    # Files

    def read(self, path: str) -> dict[str, Any]:
        """Load a file into this session's tuner."""
        keys = set(keys_in(names_in(path)))
        self._seen |= keys
        try:
            loaded = self._files.load(self._tuner, path)
        except Rejected:
            self._rejected += 1
            raise
        rows = self._files.rows(self._tuner, keys)
        self._loaded += len(rows)
        return {"plans": rows, "ignored": loaded - len(rows)}

    # Warm-up

    def warm_up(
        self, max_tokens: int, weights: Sequence[Sequence[int]], timings: Script | None
    ) -> dict[str, Any]:
        """Enter `autotune`, which loads, and ask for every shape at the maximum."""
        rejected: list[dict[str, str]] = []
        self._ear.forget()
        keys = set(keys_in(names_in(self._path))) if self._path else set()
        self._seen |= keys
        warm_up = self._flashinfer.autotune(True, cache=self._path)
        with documented():
            warm_up.__enter__()
        self._warm_ups.append(warm_up)
        if found := self._ear.mismatch:
            self._rejected += 1
            member, message = found
            rejected = [{"code": "foreign-environment", "member": member, "message": message}]
        loaded = len(self._files.rows(self._tuner, keys)) if self._ear.count("Loaded") else 0
        self._loaded += loaded
        before = self._tuned
        with self._device.playing(timings):
            for n, k in weights:
                for m in self._flashinfer.profiles(max_tokens):
                    self._seen.add((self._flashinfer.bucket(m), n, k))
                self._choose(max_tokens, n, k)
        return {"loaded": loaded, "tuned": self._tuned - before, "rejected": rejected}

    def complete(self) -> dict[str, Any]:
        """Leave `autotune`, which saves what was tuned; what it raises is why it did not."""
        warm_up = self._innermost()
        self._ear.forget()
        failure = None
        try:
            warm_up.__exit__(None, None, None)
        except Exception as error:
            failure = f"{type(error).__name__}: {error}"
        else:
            if found := self._ear.mismatch:
                failure = found[1]
        self._completed = not self._warm_ups
        self._saved = self._ear.count("Saved") or 0
        return {"saved": self._saved, "failure": failure}

    def abandon(self) -> None:
        """Leave `autotune` by an exception, as a warm-up that fails does."""
        warm_up, why = self._innermost(), Abandoned("the warm-up is given up.")
        with suppress(Abandoned):
            warm_up.__exit__(Abandoned, why, None)

    def _innermost(self) -> AbstractContextManager[None]:
        if not self._warm_ups:
            raise Rejected("lifecycle", "", "no `with autotune(...)` is open that could be left.")
        return self._warm_ups.pop()

    # Requests

    def plan(self, m: int, n: int, k: int, timings: Script | None) -> dict[str, Any]:
        """Serve one product."""
        with self._device.playing(timings):
            return self._plan(m, n, k)

    def plan_many(
        self, requests: Sequence[Key], load: str | None, timings: Script | None
    ) -> dict[str, Any]:
        """Serve products at the same moment."""
        ready = [i for i, key in enumerate(requests) if self._files.lookup(self._tuner, key)]
        refused: list[Rejected] = []

        def load_it() -> None:
            try:
                self.read(str(load))
            except Rejected as rejected:
                refused.append(rejected)

        together = Together(
            lambda i: self._plan(*requests[i]), len(requests), ready, load_it if load else None
        )
        before = self._device.tunings
        self._device.on_tuning = together.on_tuning
        try:
            with self._device.playing(timings):
                plans = together.run()
        finally:
            self._device.on_tuning = lambda: None
        return {
            "plans": plans,
            "tunings": self._device.tunings - before,
            "load": _as_json(refused[0]) if refused else None,
        }

    def _plan(self, m: int, n: int, k: int) -> dict[str, Any]:
        key = (self._flashinfer.bucket(m), n, k)
        self._seen.add(key)
        known = self._files.lookup(self._tuner, key)
        before, misses = self._device.my_tunings, self._ear.misses
        if self._completed:
            tactic = self._choose(m, n, k)
        else:
            with self._flashinfer.autotune(True, tuning_buckets=key[:1], round_up=True):
                tactic = self._choose(m, n, k)
        tuned = self._device.my_tunings > before
        lazy = self._completed and self._ear.misses > misses
        self._lazy += lazy
        if known is not None:
            source = "live" if known[1] else "native"
        else:
            source = "tuned" if tuned else "live"
        if self._files.lookup(self._tuner, key) is None:
            source, tuned = "fallback", False
        return {"tactic": tactic, "source": source, "tuned": tuned, "lazy": lazy}

    def _choose(self, m: int, n: int, k: int) -> Any:
        _, tactic = self._tuner.choose_one(
            OPERATION, [self._runner], self._config, inputs(self._flashinfer, m, n, k)
        )
        return tactic

    # What there is

    def plans(self) -> list[dict[str, Any]]:
        """The plans that the tuner serves now."""
        return self._files.rows(self._tuner, self._seen)

    def stats(self) -> dict[str, Any]:
        """Counts: of the tuner's own statistics and of its log."""
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
        """What the last tuning asked of the device."""
        return self._device.steps

    @property
    def _tuned(self) -> int:
        tuned: int = self._tuner.stats.tuned_op_successful_configs.get(OPERATION, 0)
        return tuned


def _as_json(rejected: Rejected) -> dict[str, str]:
    return {"code": rejected.code, "member": rejected.member, "message": str(rejected)}
