"""Plan statistics: what a cache reports, and whether a frozen map allows it."""

import operator
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path

from pytest_nvfp4.errors import UsageError
from pytest_nvfp4.hooks import PlanStats
from pytest_nvfp4.plans import PlanKey, PlanMap, difference_table, differences

_COUNTS = {"tuned": "FROZ-1", "saved": "FROZ-1", "rejected": "FROZ-1", "lazy": "FROZ-5"}
_MEMBERS = tuple(field.name for field in fields(PlanStats))
_OPTIONAL = ("rejected", "plans")
_ROWS = 20


class StatisticsError(UsageError):
    """Statistics that are malformed, or cannot be read; the text is one sentence."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """The statistics of one source: counts by name, and the plans that it selected.

    `plans` is None where the source does not report them; `notes` are further violations that only
    this source can find.
    """

    source: str
    counts: Mapping[str, int]
    plans: PlanMap | None
    notes: tuple[str, ...] = ()


def read_statistics(value: object, source: str) -> Statistics:
    """A source's statistics: a `PlanStats`, or a mapping with its members.

    Raises StatisticsError for another value.
    """
    if isinstance(value, PlanStats):
        value = {name: getattr(value, name) for name in _MEMBERS}
    if not isinstance(value, Mapping):
        raise StatisticsError(
            f"{source} answered with {_shown(value)}; return a PlanStats, a dict or None"
        )
    for name in value:
        if name not in _MEMBERS:
            raise StatisticsError(
                f"{source} answered with the member {name!r}; there are {', '.join(_MEMBERS)}"
            )
    for name in _MEMBERS:
        if name not in value and name not in _OPTIONAL:
            raise StatisticsError(f"{source} answered without {name}; give a count")
    counts = {name: _count(value.get(name, 0), name, source) for name in _COUNTS}
    plans = value.get("plans")
    return Statistics(source, counts, None if plans is None else _plans(plans, source))


def _count(value: object, name: str, source: str) -> int:
    number = _whole(value)
    if number is None or number < 0:
        raise StatisticsError(f"{source} answered with {name} {_shown(value)}; give a count")
    return number


def _whole(value: object) -> int | None:
    """An integer, also one of NumPy; None for another value."""
    try:
        return None if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return None


def _plans(value: object, source: str) -> PlanMap:
    if not isinstance(value, Iterable) or isinstance(value, str | bytes):
        raise StatisticsError(f"{source} answered with plans {_shown(value)}; give a mapping")
    plans: dict[PlanKey, int] = {}
    for row in value.items() if isinstance(value, Mapping) else value:
        numbers = [_whole(one) for one in _flat(row, keyed=isinstance(value, Mapping))]
        if len(numbers) != 4 or None in numbers:
            raise StatisticsError(
                f"{source} answered with the plan {_shown(row)}; give (M, N, K) and a tactic id"
            )
        m, n, k, tactic = (number or 0 for number in numbers)
        if PlanKey(m, n, k) in plans:
            raise StatisticsError(f"{source} answered with two plans for {(m, n, k)}; give one")
        plans[PlanKey(m, n, k)] = tactic
    return PlanMap(plans)


def _flat(row: object, *, keyed: bool) -> tuple[object, ...]:
    """The parts of a plan: of a row, or of a key and its value."""
    parts = tuple(row) if isinstance(row, list | tuple) else ()
    if not keyed:
        return parts
    key, tactic = parts
    return (*key, tactic) if isinstance(key, tuple) else ()


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def violations(
    statistics: Iterable[Statistics],
    plans: PlanMap,
    path: Path,
    *,
    ended: bool = True,
    complete: bool = False,
) -> Iterator[str]:
    """What a frozen map forbids in these statistics, each with its contract.

    The plans that were selected may be fewer than the file's, but at least one, and all of them
    where they must be `complete`. That is not checked of a test that did not pass (`ended`).
    """
    selected: dict[PlanKey, int] = {}
    reported = False
    for one in statistics:
        yield from one.notes
        for name, contract in _COUNTS.items():
            if one.counts.get(name):
                yield f"{contract}: {one.source} counted {name} = {one.counts[name]}, not 0"
        if one.plans is not None:
            reported = True
            selected |= one.plans
            yield from _other_plans(one, plans, path)
    if not ended or not reported:
        return
    if not selected:
        yield f"FROZ-1: none of the {len(plans)} plans of {path} was selected; was it loaded?"
    elif complete:
        missing = [change for change in differences(plans, selected) if change.right is None]
        if missing:
            yield _table(
                f"FROZ-1: {len(missing)} of the {len(plans)} plans of {path} were not selected",
                difference_table(missing, "file", "selected"),
            )


def _other_plans(one: Statistics, plans: PlanMap, path: Path) -> Iterator[str]:
    assert one.plans is not None
    other = [change for change in differences(plans, one.plans) if change.right is not None]
    if other:
        yield _table(
            f"FROZ-1: {one.source} selected {len(other)} of its {len(one.plans)} plans otherwise "
            f"than {path} says",
            difference_table(other, "file", "selected"),
        )


def _table(sentence: str, lines: list[str]) -> str:
    more = len(lines) - 1 - _ROWS
    shown = lines[: _ROWS + 1] + ([f"… and {more} more"] if more > 0 else [])
    return "\n  ".join([f"{sentence}:", *shown])
