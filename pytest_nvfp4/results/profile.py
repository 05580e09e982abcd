"""Which profile a run earns: the widest set of areas that an implementation claims whole.

Each profile contains the one before it. Earning one says what is claimed, not that it works: the
counts beside the name say that.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pytest_nvfp4.results.contracts import FUTURE, MUST, SHOULD
from pytest_nvfp4.results.verdicts import ContractResult, Counts, Verdict, count

PROFILES = {
    "reader": ("BUCK", "TACT"),
    "writer": ("PATH", "MERG", "PUBL"),
    "cache": ("LOOK", "FLIT", "PROF", "WARM", "FROZ", "CAPT", "DIAG", "FRSH"),
    "device": ("GEMM",),
}
"""What each profile adds to the one before it."""

ON_A_DEVICE = "CAPT-3"
"""The device profile needs this one too: an operator on a CPU, however good, is no device."""

_NAMED_AREAS = 4  # more would make a badge that nobody can read

READS = ("NDOC", "FIMP")
"""Every profile also needs one of these, and counts each that is claimed."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A profile, or None where only single areas are claimed whole, with the counts over it."""

    profile: str | None
    areas: tuple[str, ...]
    must: Counts
    should: Counts

    def words(self, version: str) -> str:
        """The claim in one line, such as "writer · MUST 48/48 · SHOULD 8/8 · v1.0"."""
        few = " + ".join(self.areas)
        several = f"{len(self.areas)} areas" if len(self.areas) > _NAMED_AREAS else few
        parts = [self.profile or several or "nothing claimed"]
        for level, counts in (("MUST", self.must), ("SHOULD", self.should)):
            if counts.total:
                parts.append(f"{level} {counts.passed}/{counts.total}")
        return " · ".join([*parts, f"v{version}"])

    def has(self, verdict: Verdict) -> bool:
        """Whether any contract of the claim has this verdict."""
        return bool(self.must.of(verdict) + self.should.of(verdict))


def earned(results: Iterable[ContractResult]) -> Claim:
    """The widest profile of which every area is present and claimed whole."""
    # What is only listed for the future nobody can claim.
    results = tuple(result for result in results if result.contract.level != FUTURE)
    areas = tuple(dict.fromkeys(result.contract.area for result in results))
    partly = {r.contract.area for r in results if r.verdict is Verdict.NOT_CLAIMED}
    whole = tuple(area for area in areas if area not in partly)
    profile, needed = None, set[str]()
    for name, added in PROFILES.items():
        if not (needed | set(added)) <= set(whole) or not set(READS) & set(whole):
            break
        if name == "device" and ON_A_DEVICE not in {r.contract.id for r in results}:
            break
        profile, needed = name, needed | set(added)
    if profile:
        whole = tuple(area for area in whole if area in needed or area in READS)
    return Claim(profile, whole, _count(results, whole, MUST), _count(results, whole, SHOULD))


def _count(results: Sequence[ContractResult], areas: Sequence[str], level: str) -> Counts:
    return count(
        r.verdict for r in results if r.contract.area in areas and r.contract.level == level
    )
