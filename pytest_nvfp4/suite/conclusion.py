"""The conclusion of a run: one verdict for each contract, and the files that were asked for."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest_nvfp4
from pytest_nvfp4 import oracle
from pytest_nvfp4.implementations.loader import Target
from pytest_nvfp4.results import deviations, report, reproducer
from pytest_nvfp4.results.verdicts import CaseResult, ContractResult, Verdict, aggregate
from pytest_nvfp4.specification.contracts import Specification
from pytest_nvfp4.suite.options import Settings
from pytest_nvfp4.suite.selection import read_deviations
from pytest_nvfp4.text import counted
from pytest_nvfp4.views import badge, github, page
from pytest_nvfp4.views import comparison as compare


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusion:
    """What a run came to.

    `raw` are the cases as they ended, `results` the verdicts after the known deviations, `selected`
    the ids of the selected contracts. `stale` says that a deviation no longer describes a failure.
    """

    specification: Specification
    implementation: report.Implementation
    run: report.Run
    raw: tuple[CaseResult, ...]
    results: tuple[ContractResult, ...]
    selected: frozenset[str]
    known: deviations.Deviations
    stale: bool

    @property
    def nothing_judged(self) -> str | None:
        """The sentence for a run in which no contract was judged; None for any other."""
        counts = Counter(result.verdict for result in self.results)
        unclaimed, skipped = counts[Verdict.NOT_CLAIMED], counts[Verdict.SKIPPED]
        if unclaimed + skipped < len(self.results):
            return None
        if unclaimed:
            why = f"{counted(unclaimed, 'contract')} not claimed and {skipped} skipped"
            return f"nothing was judged: {why}; claim a capability in the adapter's describe"
        why = f"{counted(skipped, 'contract')} skipped"
        return f"nothing was judged: {why}; provide what the reasons of the skips name"

    def report(self) -> dict[str, object]:
        """The report of the run as data."""
        return report.build(
            self.specification,
            self.results,
            implementation=self.implementation,
            run=self.run,
            suite_version=pytest_nvfp4.__version__,
            suite_digest=report.suite_digest(),
            deviations=self.known.entries,
        )

    def write(self, settings: Settings, variables: Mapping[str, str]) -> None:
        """Write every file that was asked for; OSError for the first that cannot be written."""
        if settings.write_deviations is not None:
            judged = self.selected if self.run.whole else frozenset()
            path = settings.write_deviations
            deviations.write(path, self.raw, self._previous(settings, path), judged)
        _, summary = github.wanted(variables)
        if summary is not None:
            text = github.summary(
                self.specification,
                self.results,
                implementation=self.implementation,
                run=self.run,
                limit=github.room(summary),
            )
            github.append_summary(summary, text)
        if not (settings.report or settings.badges or settings.html):
            return
        whole = self.report()
        if settings.report:
            report.write(settings.report, whole)
        for path in settings.badges:
            badge.write(path, badge.from_report(whole))
        if settings.html:
            binding = oracle.load()  # every plan map can be compared with it
            base = page.NamedMap("oracle", binding.plans, binding.metadata)
            page.write(settings.html, compare.of([(None, whole)], self.specification), [base])

    def _previous(self, settings: Settings, path: Path) -> deviations.Deviations:
        """The deviations whose reasons a new file keeps: the given ones, or its own old ones."""
        if settings.deviations is not None or not path.is_file():
            return self.known
        return read_deviations(path, self.specification)


def concluded(
    specification: Specification,
    implementation: report.Implementation,
    run: report.Run,
    cases: Iterable[CaseResult],
    *,
    selected: frozenset[str],
    known: deviations.Deviations,
    folder: Path,
) -> Conclusion:
    """Draw the conclusion from the verdicts of cases; their reproducers lie below `folder`."""
    raw = tuple(_with_reproduction(case, folder) for case in cases)
    applied = known.apply(raw, selected if run.whole else frozenset())
    return Conclusion(
        specification=specification,
        implementation=implementation,
        run=run,
        raw=raw,
        results=aggregate(
            specification, applied, claimed=implementation.capabilities, selected=selected
        ),
        selected=selected,
        known=known,
        stale=len(applied) > len(raw),
    )


def _with_reproduction(case: CaseResult, folder: Path) -> CaseResult:
    """The case with what its reproducer holds, so that a report shows it without the files."""
    if case.reproducer is None:
        return case
    return replace(case, reproduction=reproducer.excerpt(folder / case.reproducer))


def place_of(target: Target, root: Path, variables: Mapping[str, str]) -> github.Place | None:
    """Where GitHub annotations belong: the adapter's source, if it lies in the repository."""
    source = target.source()
    root = Path(variables.get("GITHUB_WORKSPACE") or root).resolve()
    if source is None or not source[0].resolve().is_relative_to(root):
        return None
    return github.Place(source[0].resolve().relative_to(root).as_posix(), source[1])
