"""What FlashInfer's autotuner chose during a test, recorded at its two public methods.

FlashInfer counts neither misses nor hits, and its singleton outlives every test. So while a test
runs, `AutoTuner.choose_one` and `AutoTuner.search_cache` are wrapped; the wrappers record arguments
and results, and do not change the choice. A choice takes some microseconds longer.

Source: FlashInfer 0.6.13 autotuner.py:962-1025 (search_cache: a miss is False in the first place),
1095-1390 (choose_one: tactic -1 is the fallback; while tuning, each missing profile is searched
once before it is measured), 924-959 (the effective buckets); gemm/gemm_base.py:6288-6308 (the
inputs: first the packed activation, M x K/2, then the packed weight, K/2 x N).
"""

import sys
from dataclasses import dataclass, field
from typing import Any

from pytest_nvfp4.markers.frozen_map.statistics import Statistics
from pytest_nvfp4.model.facts import OPERATION, RUNNER
from pytest_nvfp4.plans import PlanKey, PlanMap

MODULE = "flashinfer.autotuner"
_FALLBACK = -1


@dataclass(slots=True)
class Lookups:
    """The lookups of the FP4 product, and the tactics that were chosen for them."""

    tuned: int = 0
    plans: dict[PlanKey, int] = field(default_factory=dict)
    notes: dict[str, None] = field(default_factory=dict)
    _restore: tuple[Any, Any, Any] | None = None

    @property
    def attached(self) -> bool:
        return self._restore is not None

    @property
    def too_late(self) -> bool:
        """Whether FlashInfer was imported after the last call of `attach`."""
        return not self.attached and _autotuner() is not None

    def attach(self) -> None:
        """Wrap the methods, if FlashInfer has been imported and they are not wrapped yet."""
        tuner = _autotuner()
        if tuner is None or self.attached:
            return
        choose, search = tuner.choose_one, tuner.search_cache

        def choose_one(
            self_: Any, custom_op: str, runners: Any, tuning_config: Any, inputs: Any, **more: Any
        ) -> Any:
            chosen = choose(self_, custom_op, runners, tuning_config, inputs, **more)
            if custom_op == OPERATION:
                self._record(self_, tuning_config, inputs, *chosen)
            return chosen

        def search_cache(self_: Any, custom_op: str, *arguments: Any, **more: Any) -> Any:
            found = search(self_, custom_op, *arguments, **more)
            if custom_op == OPERATION and not found[0] and self_.is_tuning_mode:
                self.tuned += 1
            return found

        self._restore = (tuner, choose, search)
        tuner.choose_one, tuner.search_cache = choose_one, search_cache

    def detach(self) -> None:
        """Put FlashInfer's own methods back."""
        if self._restore is not None:
            tuner, tuner_choose, tuner_search = self._restore
            tuner.choose_one, tuner.search_cache = tuner_choose, tuner_search
            self._restore = None

    def statistics(self) -> list[Statistics]:
        """The statistics of all lookups; none where there was no lookup."""
        if not (self.tuned or self.plans or self.notes):
            return []
        plans = PlanMap(self.plans) if self.plans else None
        return [Statistics("flashinfer", {"tuned": self.tuned}, plans, tuple(self.notes))]

    def _record(self, *choice: Any) -> None:
        try:
            self._chose(*choice)
        except Exception as error:  # it must not be raised inside FlashInfer
            note = f"FROZ-1: flashinfer was called in an unknown way ({error!r}); use 0.6.13"
            self.notes[note] = None

    def _chose(self, tuner: Any, config: Any, inputs: Any, runner: Any, tactic: Any) -> None:
        m, half = inputs[0].shape
        bucket = tuner.get_effective_map_to_tuning_buckets(config)(int(m))
        key = PlanKey(int(bucket), int(inputs[1].shape[1]), 2 * int(half))
        shape = f"M {m} (bucket {key.m}), N {key.n}, K {key.k}"
        name = type(runner).__name__
        if tactic == _FALLBACK:
            self.notes[f"FROZ-5: flashinfer found no plan for {shape} and fell back"] = None
        elif name != RUNNER or not isinstance(tactic, int):
            self.notes[f"FROZ-1: flashinfer ran {name} for {shape}, not a plan of {RUNNER}"] = None
        elif self.plans.setdefault(key, tactic) != tactic:
            both = f"{self.plans[key]} and {tactic}"
            self.notes[f"FROZ-1: flashinfer ran both tactic {both} for {shape}"] = None


def _autotuner() -> Any:
    """FlashInfer's AutoTuner class where a test has imported it, else None; it is not imported."""
    return getattr(sys.modules.get(MODULE), "AutoTuner", None)
