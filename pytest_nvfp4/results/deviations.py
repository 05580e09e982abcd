"""Known deviations: accepted failures, each with its reason.

A deviations file is TOML, one `[[deviation]]` per entry: `contract`, `reason`, and optionally
`case` (a glob over case ids, "*" unless given), `link` (http or https) and `expires` (a date, the
last day on which the entry counts). The file is strict in both directions: a mistake in it is an
error, and so is an entry that no longer describes a failure.
"""

import datetime
import fnmatch
import re
import tomllib
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pytest_nvfp4.errors import UsageError
from pytest_nvfp4.results.files import publish
from pytest_nvfp4.results.verdicts import NO_TRANSPORT, CaseResult, Verdict
from pytest_nvfp4.specification.contracts import Specification, unknown
from pytest_nvfp4.text import clip, visible

_MEMBERS = ("contract", "case", "reason", "link", "expires")

_HEAD = """\
# Accepted failures of the cache conformance suite. Each entry needs a reason, and the
# suite reports an entry that no longer describes a failure.
"""

_LONGEST_REASON = 300
"""Columns of a message that stands in for a reason."""


@dataclass(frozen=True, slots=True)
class Deviation:
    """One accepted failure; `number` is its position in the file, from 1."""

    contract: str
    reason: str
    case: str = "*"
    link: str | None = None
    expires: datetime.date | None = None
    number: int = field(default=0, compare=False)

    def covers(self, contract: str, case: str) -> bool:
        """Whether this entry is about the case; globs are case-sensitive."""
        return contract == self.contract and fnmatch.fnmatchcase(case, self.case)


@dataclass(frozen=True, slots=True)
class Deviations:
    """The entries of one file; `file` is its name, for messages."""

    entries: tuple[Deviation, ...] = ()
    file: str = "deviations"

    def match(self, contract: str, case: str) -> Deviation | None:
        """The first entry that covers the case, or None."""
        return next((entry for entry in self.entries if entry.covers(contract, case)), None)

    def apply(
        self, cases: Iterable[CaseResult], judged: Collection[str] | None = None
    ) -> tuple[CaseResult, ...]:
        """The cases with covered failures turned into known deviations, and stale entries added.

        Only a failure can be a known deviation: an error says that nothing is known. `judged`
        holds the ids of the contracts of which every case was run, None for all of them; an entry
        for such a contract is stale if it covers no case, or if cases that it covers ran and all
        of them passed. A stale entry is an extra case with the verdict error.
        """
        cases = tuple(cases)
        applied = [self._applied(case) for case in cases]
        for entry in self.entries:
            problem = _stale(entry, cases) if judged is None or entry.contract in judged else None
            if problem:
                message = f"{_place(self.file, entry)}: {problem}"
                applied.append(_about(entry, message))
        return tuple(applied)

    def _applied(self, case: CaseResult) -> CaseResult:
        entry = self.match(case.contract, case.case)
        if case.verdict is not Verdict.FAILED or entry is None:
            return case
        message = f"{entry.reason} ({case.message})" if case.message else entry.reason
        return replace(case, verdict=Verdict.KNOWN_DEVIATION, message=message)


def read(path: Path, *, specification: Specification, today: datetime.date) -> Deviations:
    """The deviations in a file; UsageError for the first mistake in it.

    `today` decides which entries have expired.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"The deviations file {path} cannot be read: {error}.") from error
    return parse(text, file=str(path), specification=specification, today=today)


def parse(
    text: str, *, file: str, specification: Specification, today: datetime.date
) -> Deviations:
    """The deviations in TOML text; UsageError, with `file`, for the first mistake in it."""
    try:
        root = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"The deviations file {file} is not valid TOML: {error}.") from error
    extra = sorted(set(root) - {"deviation"})
    if extra:
        raise UsageError(
            f"The deviations file {file} has the unknown member {extra[0]!r}; "
            "it holds only [[deviation]] entries."
        )
    raw = root.get("deviation", [])
    if not (isinstance(raw, list) and all(isinstance(entry, dict) for entry in raw)):
        raise UsageError(f"In the deviations file {file}, write each entry as [[deviation]].")
    entries: list[Deviation] = []
    for number, members in enumerate(raw, start=1):
        try:
            entry = _entry(members, number, specification, today)
            _refuse_duplicate(entry, entries)
        except ValueError as error:
            raise UsageError(f"{file}, deviation {number}: {error}.") from error
        entries.append(entry)
    return Deviations(tuple(entries), file)


def write(
    path: Path,
    results: Iterable[CaseResult],
    previous: Deviations,
    judged: Collection[str] | None = None,
) -> Deviations:
    """Write the file that accepts exactly the current failures, and return what it says.

    Entries of `previous` that cover a current failure stay as they were written, reason, link and
    date; one new entry, whose reason asks to be replaced, is added for each failure that none
    covers. Entries that cover no failure are dropped, except those on which this run says nothing:
    their contract is not in `judged`, or all their cases were skipped or ended in an error.
    Comments in the file are lost.
    """
    # A stale entry's own error, which `apply` added, is no evidence for the entry.
    results = tuple(
        result
        for result in results
        if (result.transport, result.verdict) != (NO_TRANSPORT, Verdict.ERROR)
    )
    failures = [r for r in results if r.verdict in (Verdict.FAILED, Verdict.KNOWN_DEVIATION)]
    kept = [entry for entry in previous.entries if _keep(entry, results, judged)]
    added: dict[tuple[str, str], Deviation] = {}
    for failure in failures:
        if not any(entry.covers(failure.contract, failure.case) for entry in kept):
            message = clip(visible(failure.message), _LONGEST_REASON) or "it fails"
            reason = f"Not explained yet: {message}"
            case = re.sub(r"([*?\[])", r"[\1]", failure.case)
            added.setdefault((failure.contract, case), Deviation(failure.contract, reason, case))
    entries = sorted([*kept, *added.values()], key=_order)
    written = Deviations(
        tuple(replace(entry, number=number) for number, entry in enumerate(entries, start=1)),
        str(path),
    )
    publish(path, dumps(written).encode("utf-8"))
    return written


def dumps(deviations: Deviations) -> str:
    """The deviations as TOML, ending in one line feed."""
    import tomli_w

    entries = (tomli_w.dumps(_members(entry)) for entry in deviations.entries)
    return "\n".join([_HEAD, *(f"[[deviation]]\n{text}" for text in entries)])


def _members(entry: Deviation) -> dict[str, Any]:
    """An entry as TOML data; lone surrogates, which TOML cannot hold, become visible escapes."""
    given = {name: getattr(entry, name) for name in _MEMBERS}
    return {
        name: value.encode("utf-8", "backslashreplace").decode() if name != "expires" else value
        for name, value in given.items()
        if value is not None and (name, value) != ("case", "*")
    }


def _entry(
    members: dict[str, Any], number: int, specification: Specification, today: datetime.date
) -> Deviation:
    """One entry; the ValueError's text is a clause without a full stop."""
    extra = sorted(set(members) - set(_MEMBERS))
    if extra:
        raise ValueError(f"{extra[0]!r} is not one of {', '.join(_MEMBERS)}")
    for name in ("contract", "reason"):
        if name not in members:
            raise ValueError(f"{name!r} is missing")
    for name in ("contract", "case", "reason", "link"):
        value = members.get(name, "*")
        if not isinstance(value, str) or not value.strip():
            raise ValueError(f"{name!r} must be a string that is not empty")
    entry = Deviation(**members, number=number)
    if entry.contract not in {contract.id for contract in specification.contracts}:
        raise ValueError(unknown(specification, entry.contract).removesuffix("."))
    if entry.link is not None and not re.match(r"https?://\S+\Z", entry.link):
        raise ValueError(f"the link {entry.link!r} is not an http or https address")
    # A TOML date-time is a date to Python, but has no meaning here.
    if entry.expires is not None and type(entry.expires) is not datetime.date:
        raise ValueError("'expires' must be a date without quotes or time, such as 2031-12-31")
    if entry.expires is not None and entry.expires < today:
        raise ValueError(
            f"it expired on {entry.expires.isoformat()}; repair the failure or renew the date"
        )
    return entry


def _refuse_duplicate(entry: Deviation, earlier: Iterable[Deviation]) -> None:
    for other in earlier:
        if (other.contract, other.case) == (entry.contract, entry.case):
            raise ValueError(
                f"it repeats deviation {other.number} ({entry.contract}, case {entry.case!r}); "
                "keep one of them"
            )


def _stale(entry: Deviation, cases: Iterable[CaseResult]) -> str | None:
    covered = [case.verdict for case in cases if entry.covers(case.contract, case.case)]
    if not covered:
        return "it covers no case of this run; correct or remove the entry."
    ran = [verdict for verdict in covered if verdict is not Verdict.SKIPPED]
    if ran and all(verdict is Verdict.PASSED for verdict in ran):
        return "everything it covers passes now; remove the entry."
    return None


def _keep(entry: Deviation, results: Iterable[CaseResult], judged: Collection[str] | None) -> bool:
    verdicts = {r.verdict for r in results if entry.covers(r.contract, r.case)}
    if verdicts & {Verdict.FAILED, Verdict.KNOWN_DEVIATION}:
        return True
    if judged is not None and entry.contract not in judged:
        return True
    return bool(verdicts) and Verdict.PASSED not in verdicts


def _about(entry: Deviation, message: str) -> CaseResult:
    case = f"deviation {entry.number}"
    return CaseResult(entry.contract, case, NO_TRANSPORT, Verdict.ERROR, message)


def _place(file: str, entry: Deviation) -> str:
    return f"{file}, deviation {entry.number} ({entry.contract}, case {entry.case!r})"


def _order(entry: Deviation) -> tuple[str, int, str]:
    area, _, number = entry.contract.rpartition("-")
    return (area, int(number) if number.isdigit() else 0, entry.case)
