"""The profile that a run earns: the widest set of areas that an implementation claims whole.

A contract that needs a GPU, in an area that does not, counts for itself and not for its area.

Each profile contains the one before it. Earning one says what is claimed, not that it works: the
counts beside the name say that.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pytest_nvfp4.results.verdicts import ContractResult, Counts, Verdict, count
from pytest_nvfp4.specification.contracts import FUTURE, MUST, SHOULD, Contract

PROFILES = {
    "reader": ("BUCK", "TACT"),
    "writer": ("PATH", "MERG", "PUBL"),
    "cache": ("LOOK", "FLIT", "PROF", "WARM", "FROZ", "CAPT", "DIAG", "FRSH"),
    "device": ("GEMM", "CAPT-3"),
}
"""What each profile adds to the one before it: areas, and contracts that count for themselves.

GEMM alone can pass on a CPU; CAPT-3, which captures a CUDA graph, cannot.
"""

_NAMED_AREAS = 4  # more would make a badge too long to read

READS = ("NDOC", "FIMP")
"""Every profile also needs one of these, and counts each that is claimed."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A profile with its counts by level; None for the profile where only areas are claimed whole.

    `areas` are the ids of what is claimed whole: areas, and contracts that count for themselves.
    """

    profile: str | None
    areas: tuple[str, ...]
    must: Counts
    should: Counts

    def words(self, version: str) -> str:
        """The claim in one line, such as "writer · MUST 48/48 · SHOULD 8/8 · v1.0"."""
        few = " + ".join(self.areas)
        number = len({part.partition("-")[0] for part in self.areas})
        several = f"{number} areas" if number > _NAMED_AREAS else few
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
    # A contract that is only listed for the future cannot be claimed.
    results = tuple(result for result in results if result.contract.level != FUTURE)
    areas = tuple(dict.fromkeys(_part(result.contract) for result in results))
    partly = {_part(r.contract) for r in results if r.verdict is Verdict.NOT_CLAIMED}
    whole = tuple(area for area in areas if area not in partly)
    profile, needed = None, set[str]()
    for name, added in PROFILES.items():
        if not (needed | set(added)) <= set(whole) or not set(READS) & set(whole):
            break
        profile, needed = name, needed | set(added)
    if profile:
        whole = tuple(area for area in whole if area in needed or area in READS)
    return Claim(profile, whole, _count(results, whole, MUST), _count(results, whole, SHOULD))


def _count(results: Sequence[ContractResult], areas: Sequence[str], level: str) -> Counts:
    return count(
        r.verdict for r in results if _part(r.contract) in areas and r.contract.level == level
    )


def _part(contract: Contract) -> str:
    """What the contract counts for."""
    alone = any(contract.id in added for added in PROFILES.values())
    return contract.id if alone else contract.area
