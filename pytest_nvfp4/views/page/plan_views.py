"""Plan maps as heat maps, M buckets by shapes, and the difference of each two of them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_nvfp4.plans import TACTICS, TILES, PlanKey, PlanMap, differences, tactic_name
from pytest_nvfp4.text import counted
from pytest_nvfp4.views.page.markup import cut

_SHAPES = 24
"""Shapes that a table has columns for; where there are more, those that differ come first."""

Shape = tuple[int, int]


@dataclass(frozen=True, slots=True)
class NamedMap:
    """A plan map, its label, and the environment it was tuned in, by field."""

    name: str
    plans: PlanMap
    metadata: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class View:
    """A table of one map, by its index, or of the difference from it to another, `right`."""

    left: int
    right: int | None
    summary: str
    caption: str
    buckets: Sequence[int]
    shapes: Sequence[Shape]
    left_out: int
    plans: Sequence[PlanMap]

    def tactics(self, m: int, n: int, k: int) -> list[int | None]:
        """The tactic of a plan in each of the maps; None where a map lacks it."""
        return [plans.get(PlanKey(m, n, k)) for plans in self.plans]


def context(maps: Sequence[NamedMap]) -> dict[str, Any]:
    """What the template of the plan maps is given; the view of the last two maps is open."""
    pairs = [(left, right) for right in range(len(maps)) for left in range(right)]
    used = {tactic // 4 for named in maps for tactic in named.plans.values()}
    return {
        "maps": maps,
        "views": [_single(index, named) for index, named in enumerate(maps)]
        + [_difference(left, right, maps) for left, right in pairs],
        "chosen": pairs[-1] if pairs else (0, None),
        "tiles": [(index, tile) for index, tile in enumerate(TILES) if index in used],
        "environments": _environments(maps),
    }


def _single(index: int, named: NamedMap) -> View:
    shapes, plans = _shapes(named.plans), named.plans
    return View(
        left=index,
        right=None,
        summary=counted(len(plans), "plan"),
        caption=f"Tactics of {cut(named.name, 80)}",
        buckets=sorted({key.m for key in plans}),
        shapes=shapes[:_SHAPES],
        left_out=max(len(shapes) - _SHAPES, 0),
        plans=[plans],
    )


def _difference(left: int, right: int, maps: Sequence[NamedMap]) -> View:
    old, new = maps[left].plans, maps[right].plans
    changes = differences(old, new)
    changed = {(change.key.n, change.key.k) for change in changes}
    keys = old.keys() | new.keys()
    shapes = sorted(_shapes(keys), key=lambda shape: shape not in changed)
    total = counted(len(keys), "plan")
    return View(
        left=left,
        right=right,
        summary=f"{len(changes)} of {total} differ" if changes else f"all {total} agree",
        caption=f"From {cut(maps[left].name, 80)} to {cut(maps[right].name, 80)}",
        buckets=sorted({key.m for key in keys}),
        shapes=sorted(shapes[:_SHAPES]),
        left_out=max(len(shapes) - _SHAPES, 0),
        plans=[old, new],
    )


def _environments(maps: Sequence[NamedMap]) -> list[tuple[str, list[object], bool]]:
    """Each field of the maps' environments, its values, and whether these differ."""
    rows: list[tuple[str, list[object], bool]] = []
    for field in dict.fromkeys(name for named in maps for name in named.metadata):
        values = [named.metadata.get(field) for named in maps]
        differs = len({str(value) for value in values if value is not None}) > 1
        rows.append((field, values, differs))
    return rows


def _shapes(keys: Iterable[PlanKey]) -> list[Shape]:
    return sorted({(key.n, key.k) for key in keys})


def variant(tactic: int) -> str:
    """Whether operands are swapped, and the scheduler, in a few characters; empty if unknown."""
    if not 0 <= tactic < len(TACTICS):
        return ""
    found = TACTICS[tactic]
    return f"{'⇄ ' if found.swap_ab else ''}{'sk' if found.scheduler == 'stream-k' else 'dp'}"


def title(tactic: int | None) -> str:
    """A tactic's id and name."""
    return "no plan" if tactic is None else f"{tactic}: {tactic_name(tactic)}"


def tile(tactic: int | None) -> str:
    """The class of a tactic's tile in the style sheet."""
    known = tactic is not None and 0 <= tactic < len(TACTICS)
    return f"tile t{tactic // 4}" if known and tactic is not None else "tile unknown"
