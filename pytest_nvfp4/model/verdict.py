"""The model's judgement of a document: the plans it holds, or everything that is wrong with it."""

from dataclasses import dataclass

from pytest_nvfp4.plans import PlanMap


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault of a document: its member, and the rejection codes that name it correctly.

    More than one code is right where a fault can be seen in two ways: a tactic id of 4294967300 is
    outside its integer range and also no known tactic. The first code is the preferred one.
    """

    codes: tuple[str, ...]
    member: str
    message: str

    def __str__(self) -> str:
        place = f" at {self.member}" if self.member else ""
        return f"{self.codes[0]}{place}: {self.message}"


@dataclass(frozen=True, slots=True)
class Judgement:
    """An acceptance with plans and a number of ignored foreign entries, or findings."""

    plans: PlanMap
    ignored: int
    findings: tuple[Finding, ...]

    @property
    def accepted(self) -> bool:
        return not self.findings

    def allows(self, code: str, member: str) -> bool:
        """Whether a rejection with this code and member matches one of the findings."""
        return any(code in finding.codes and member == finding.member for finding in self.findings)

    @classmethod
    def reject(cls, *findings: Finding) -> "Judgement":
        """A rejection; it carries no plans, since a document counts as a unit."""
        return cls(PlanMap(()), 0, findings)
