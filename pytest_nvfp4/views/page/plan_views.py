"""The end of the page: plan maps as heat maps, M buckets by shapes, and the difference of each two.

A cell's colour is its tile; the tactic's id and variant stand in the cell, so that nobody needs
the colour.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pytest_nvfp4.plans import TACTICS, TILES, PlanKey, PlanMap, differences, tactic_name
from pytest_nvfp4.views.page.html import Child, Html, cut, foreign, tag

SHAPES = 24
"""Shapes that a table has columns for; where there are more, those that differ come first."""

Shape = tuple[int, int]


@dataclass(frozen=True, slots=True)
class NamedMap:
    """A plan map, what to call it, and the environment it was tuned in."""

    name: str
    plans: PlanMap
    metadata: Mapping[str, object]


def section(maps: Sequence[NamedMap]) -> Html | None:
    """The view of each map and of the difference of each two; the first map is the base of all."""
    if not maps:
        return None
    pairs = [(left, right) for right in range(len(maps)) for left in range(right)]
    chosen = (len(maps) - 2, len(maps) - 1) if len(maps) > 1 else (0, None)
    views = [_single(index, named, chosen == (index, None)) for index, named in enumerate(maps)]
    views += [_difference(left, right, maps, chosen == (left, right)) for left, right in pairs]
    return tag(
        "section",
        tag("h2", "Plan maps"),
        _choice(maps, chosen),
        views,
        _legend(maps),
        _environments(maps),
        id="plans",
    )


def _choice(maps: Sequence[NamedMap], chosen: tuple[int, int | None]) -> Html | None:
    """Which view to show: for the script, which alone can serve it."""
    if len(maps) < 2:
        return None

    def options(selected: int | None) -> list[Html]:
        return [
            tag("option", cut(named.name, 80), value=index, selected=index == selected)
            for index, named in enumerate(maps)
        ]

    alone = tag("option", "nothing", value="", selected=chosen[1] is None)
    return tag(
        "div",
        tag("label", "map ", tag("select", options(chosen[0]), id="left")),
        tag("label", "compared with ", tag("select", alone, options(chosen[1]), id="right")),
        class_="filters",
        id="choice",
        hidden=True,
    )


def _single(index: int, named: NamedMap, is_open: bool) -> Html:
    plans = named.plans
    shapes = _shapes(plans)
    shown = shapes[:SHAPES]
    table = _table(
        f"Tactics of {cut(named.name, 80)}",
        sorted({key.m for key in plans}),
        shown,
        lambda key: _cell(plans.get(key)),
    )
    title = [tag("b", foreign(named.name, 80)), f": {len(plans)} plans"]
    return _view(title, table, left_out=len(shapes) - len(shown), is_open=is_open, left=index)


def _difference(left: int, right: int, maps: Sequence[NamedMap], is_open: bool) -> Html:
    old, new = maps[left].plans, maps[right].plans
    changes = differences(old, new)
    changed = {(change.key.n, change.key.k) for change in changes}
    keys = old.keys() | new.keys()
    # Where not every shape fits, the reader wants to see those that differ.
    shapes = sorted(_shapes(keys), key=lambda shape: shape not in changed)[:SHAPES]
    said = (
        f"{len(changes)} of {len(keys)} plans differ" if changes else f"all {len(keys)} plans agree"
    )
    table = _table(
        f"From {cut(maps[left].name, 80)} to {cut(maps[right].name, 80)}",
        sorted({key.m for key in keys}),
        sorted(shapes),
        lambda key: _change(old.get(key), new.get(key)),
    )
    names = [tag("b", foreign(maps[i].name, 80)) for i in (left, right)]
    title = [names[0], " → ", names[1], f": {said}"]
    left_out = len(_shapes(keys)) - len(shapes)
    return _view(title, table, left_out=left_out, is_open=is_open, left=left, right=right)


def _view(
    title: Iterable[Child],
    table: Html,
    *,
    left_out: int,
    is_open: bool,
    left: int,
    right: int | None = None,
) -> Html:
    more = f"{left_out} more shapes: nvfp4-conformance check or diff, with --all, lists them."
    scroll = tag("div", table, class_="scroll", tabindex=0, role="group", aria_label="plan map")
    return tag(
        "details",
        tag("summary", title),
        scroll,
        tag("p", more, class_="more") if left_out else None,
        class_="view",
        data_left=left,
        data_right="" if right is None else right,
        open=is_open,
    )


def _shapes(keys: Iterable[PlanKey]) -> list[Shape]:
    return sorted({(key.n, key.k) for key in keys})


def _table(
    caption: str, buckets: Sequence[int], shapes: Sequence[Shape], cell: Callable[[PlanKey], Html]
) -> Html:
    head = tag(
        "tr",
        tag("th", "M", scope="col"),
        [tag("th", f"N {n}", tag("br"), f"K {k}", scope="col") for n, k in shapes],
    )
    rows = [
        tag("tr", tag("th", m, scope="row"), [cell(PlanKey(m, n, k)) for n, k in shapes])
        for m in buckets
    ]
    return tag(
        "table",
        tag("caption", caption, class_="unseen"),
        tag("thead", head),
        tag("tbody", rows),
        class_="heat",
    )


def _cell(tactic: int | None) -> Html:
    if tactic is None:
        return tag("td", "·", title="no plan", class_="absent")
    return tag("td", _chip(tactic), title=_title(tactic), class_=_tile(tactic))


def _change(old: int | None, new: int | None) -> Html:
    if old == new:
        return tag("td", "·" if old is None else old, title=_title(old), class_="same")
    parts = [
        tag("span", "none" if side is None else _chip(side), class_=_tile(side))
        for side in (old, new)
    ]
    arrow = tag("span", "→", class_="arrow")
    return tag(
        "td", parts[0], arrow, parts[1], title=f"{_title(old)} → {_title(new)}", class_="changed"
    )


def _chip(tactic: int) -> list[Html | str]:
    """A tactic's id and, small, its variant: whether operands are swapped, and the scheduler."""
    variant = ""
    if 0 <= tactic < len(TACTICS):
        found = TACTICS[tactic]
        variant = (
            f"{'⇄ ' if found.swap_ab else ''}{'sk' if found.scheduler == 'stream-k' else 'dp'}"
        )
    return [tag("b", tactic), " ", tag("small", variant)]


def _title(tactic: int | None) -> str:
    return "no plan" if tactic is None else f"{tactic}: {tactic_name(tactic)}"


def _tile(tactic: int | None) -> str:
    known = tactic is not None and 0 <= tactic < len(TACTICS)
    return f"tile t{tactic // 4}" if known and tactic is not None else "tile unknown"


def _legend(maps: Sequence[NamedMap]) -> Html:
    used = {tactic // 4 for named in maps for tactic in named.plans.values()}
    tiles = [
        tag(
            "li",
            tag("span", f"{4 * index}–{4 * index + 3}", class_=f"tile t{index}"),
            f" {'×'.join(map(str, tile))}",
        )
        for index, tile in enumerate(TILES)
        if index in used
    ]
    variants = "⇄ operands swapped · dp data-parallel · sk stream-K"
    return tag(
        "div",
        tag("ul", tiles, class_="legend", aria_label="tiles, M × N × K"),
        tag("p", variants, class_="variants"),
    )


def _environments(maps: Sequence[NamedMap]) -> Html | None:
    """What each map was tuned in, a row for each field, those that differ marked."""
    fields = list(dict.fromkeys(name for named in maps for name in named.metadata))
    if not fields:
        return None
    differing = 0
    rows = []
    for field in fields:
        values = [named.metadata.get(field) for named in maps]
        differs = len({str(value) for value in values if value is not None}) > 1
        differing += differs
        mark = tag("span", "≠ ", class_="differs", title="these differ") if differs else None
        cells = [
            tag("td", "·", class_="absent") if v is None else tag("td", foreign(str(v), 120))
            for v in values
        ]
        rows.append(tag("tr", tag("th", mark, cut(field, 120), scope="row"), cells))
    head = tag(
        "tr",
        tag("th", "field", scope="col"),
        [tag("th", foreign(named.name, 80), scope="col") for named in maps],
    )
    title = "Environments" + (
        f": {differing} field{'s differ' if differing > 1 else ' differs'}" if differing else ""
    )
    table = tag("table", tag("thead", head), tag("tbody", rows), class_="environments")
    scroll = tag("div", table, class_="scroll", tabindex=0, role="group", aria_label="environments")
    return tag("details", tag("summary", title), scroll)
