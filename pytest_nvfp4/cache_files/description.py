"""What a plan-cache file holds, as lines of text: its coverage, and how it differs from another."""

import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path

from pytest_nvfp4 import oracle
from pytest_nvfp4.cache_files.reader import CacheFile
from pytest_nvfp4.model.buckets import hybrid_bucket, profile_list
from pytest_nvfp4.plans import PlanMap, difference_table, differences, tactic_name
from pytest_nvfp4.text import counted

_ROWS = 20
_ALL = 10**9
_LONGEST = 400


def describe(file: CacheFile, *, everything: bool = False) -> Iterator[str]:
    """Lines on a file: verdict, environment, coverage, and how it differs from the oracle.

    Of long lists and long lines only the beginning, unless `everything`.
    """
    for line in _described(file, _ALL if everything else _ROWS):
        yield line if everything or len(line) <= _LONGEST else f"{line[:_LONGEST]} …"


def _described(file: CacheFile, rows: int) -> Iterator[str]:
    judgement = file.judgement
    dialect = f"{file.dialect} document" if file.dialect else "no document"
    if judgement.accepted:
        parts = [counted(len(judgement.plans), "plan")]
        if judgement.ignored:
            parts.append(counted(judgement.ignored, "foreign entry", "foreign entries"))
        yield f"{file.path}: {dialect}, accepted: {', '.join(parts)}"
    else:
        yield f"{file.path}: {dialect}, rejected: {counted(len(judgement.findings), 'finding')}"
        yield from _capped((f"  {finding}" for finding in judgement.findings), rows)
    if file.metadata:
        yield ""
        width = max(map(len, file.metadata))
        for name, value in file.metadata.items():
            yield f"  {name:<{width}}  {value}"
    if judgement.plans:
        yield ""
        yield from _capped(_coverage(judgement.plans), 3 * rows)
        yield ""
        yield from _capped(_missing(judgement.plans), rows)
        yield from _capped(_against_oracle(judgement.plans), rows)


def _capped(lines: Iterable[str], most: int) -> Iterator[str]:
    """The first lines, and how many more there are."""
    rest = iter(lines)
    yield from itertools.islice(rest, most)
    more = sum(1 for _ in rest)
    if more:
        yield f"… and {counted(more, 'more line')}; --all shows {'it' if more == 1 else 'them'}"


def _coverage(plans: PlanMap) -> Iterator[str]:
    """Tables of tactic ids, M buckets by shapes, and then the names of the tactics that occur."""
    shapes = sorted({(key.n, key.k) for key in plans})
    buckets = sorted({key.m for key in plans})
    for start in range(0, len(shapes), 5):
        block = shapes[start : start + 5]
        yield f"{'M | NxK':>9}" + "".join(f"{f'{n}x{k}':>14}" for n, k in block)
        for m in buckets:
            cells = (plans.get((m, n, k)) for n, k in block)  # type: ignore[call-overload]
            yield f"{m:>9}" + "".join(f"{'·' if cell is None else cell:>14}" for cell in cells)
        yield ""
    used = sorted(set(plans.values()))
    names = [f"{tactic:>3} {tactic_name(tactic)}" for tactic in used]
    half = (len(names) + 1) // 2
    for left, right in zip(names[:half], [*names[half:], ""][:half], strict=True):
        yield f"  {left:<38}{right}".rstrip()


def _missing(plans: PlanMap) -> Iterator[str]:
    """One line per shape that lacks profiles which other shapes of the file have tuned."""
    largest = max(key.m for key in plans)
    profiles = sorted({hybrid_bucket(m) for m in profile_list(largest)})
    shapes = sorted({(key.n, key.k) for key in plans})
    complete = True
    for n, k in shapes:
        absent = [m for m in profiles if (m, n, k) not in plans]
        if absent:
            complete = False
            listed = ", ".join(map(str, absent[:8])) + (", …" if len(absent) > 8 else "")
            number = counted(len(absent), "profile")
            yield f"missing: N {n}, K {k} has no plan for M {listed} ({number})"
    if complete:
        tuned = f"{counted(len(shapes), 'shape')} × {counted(len(profiles), 'profile')}"
        yield f"complete: {tuned} up to M {largest}"


def _against_oracle(plans: PlanMap) -> Iterator[str]:
    """How the plans differ from the binding oracle where they share keys with it."""
    binding = oracle.load().plans
    shared = plans.keys() & binding.keys()
    if not shared:
        yield "oracle: no plan in common with the binding oracle"
        return
    changes = [c for c in differences(binding, plans) if c.key in shared]
    if not changes:
        yield f"oracle: the same tactic for all {counted(len(shared), 'plan')} in common"
        return
    yield f"oracle: another tactic for {len(changes)} of {counted(len(shared), 'plan')} in common"
    yield from difference_table(changes, "oracle", "this file")


def compare(left: CacheFile, right: CacheFile, *, everything: bool = False) -> Iterator[str]:
    """Lines on how two accepted files differ, environments first; none where they do not differ."""
    return _capped(_compared(left, right), _ALL if everything else 3 * _ROWS)


def _compared(left: CacheFile, right: CacheFile) -> Iterator[str]:
    for name in sorted(left.metadata.keys() | right.metadata.keys()):
        ours, theirs = left.metadata.get(name, "—"), right.metadata.get(name, "—")
        if ours != theirs:
            yield f"{name}: {ours} | {theirs}"
    changes = differences(left.judgement.plans, right.judgement.plans)
    if changes:
        total = len(left.judgement.plans.keys() | right.judgement.plans.keys())
        yield f"plans: {len(changes)} of {total} differ"
        yield from difference_table(changes, Path(left.path).name, Path(right.path).name)
