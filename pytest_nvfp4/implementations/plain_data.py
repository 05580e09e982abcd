"""From plain data to the values of the adapter interface, and back.

Most types need nothing here: msgspec converts them. The few with rules that no type can express are
built by a function of their own, beside the JSON Schema of their data.
"""

import math
from collections.abc import Callable, Mapping
from typing import Annotated, Any, get_args

import msgspec
from msgspec import Meta

from pytest_nvfp4.implementations.messages import (
    Capabilities,
    CapabilityName,
    Document,
    NotAnIntegerError,
    Planned,
    PlannedEach,
    PlanRow,
    RejectedPlan,
    TacticDescriptor,
    Tactics,
    Times,
)
from pytest_nvfp4.plans import PlanKey, PlanMap, Tactic

_TacticId = Annotated[str, Meta(pattern="^([0-9]|[12][0-9]|3[01])$", max_length=2)]


class _DocumentForm(msgspec.Struct, frozen=True, rename={"metadata": "_metadata"}):
    metadata: dict[str, Any]
    plans: list[Any] = []


def _document(data: Any) -> Document:
    msgspec.convert(data, _DocumentForm)
    return Document(data)


def _plan_map(data: Any) -> PlanMap:
    for row in data if isinstance(data, list) else ():
        # An adapter passes on what its implementation holds: that is for the contract to judge.
        numbers = row.values() if isinstance(row, dict) and row.keys() == _PLAN else ()
        if any(type(number) is not int for number in numbers):
            raise NotAnIntegerError(f"the plan {tuple(numbers)!r:.80} is not all integers")
    rows = msgspec.convert(data, list[PlanRow])
    return PlanMap([(PlanKey(row.m, row.n, row.k), row.tactic) for row in rows])


_PLAN = frozenset(PlanRow.__struct_fields__)


def _times(data: Any) -> Times:
    found = msgspec.convert(data, dict[_TacticId, float])
    for tactic, mean in found.items():
        if not 0 <= mean < math.inf:
            raise ValueError(f"{tactic} is {mean!r}, which is no finite time of at least 0")
    return Times({int(tactic): mean for tactic, mean in found.items()})


def _capabilities(data: Any) -> Capabilities:
    names = msgspec.convert(data, list[CapabilityName])
    if len(set(names)) != len(names):
        raise ValueError("capabilities has a name twice")
    return Capabilities(names)


def _tactics(data: Any) -> Tactics:
    return Tactics(
        Tactic(row.id, row.tile, row.swap_ab, row.scheduler, row.cluster)
        for row in msgspec.convert(data, list[TacticDescriptor])
    )


def _planned_each(data: Any) -> PlannedEach:
    return PlannedEach(
        msgspec.convert(item, RejectedPlan).rejected
        if isinstance(item, dict) and "rejected" in item
        else msgspec.convert(item, Planned)
        for item in msgspec.convert(data, list[Any])
    )


_ONE_OF_THE_TACTICS = {"pattern": "^([0-9]|[12][0-9]|3[01])$"}
_BUILT: Mapping[Any, tuple[Callable[[Any], Any], Mapping[str, Any]]] = {
    Document: (
        _document,
        {
            "description": "A document of the kind that the implementation keeps, as data: native, "
            "or FlashInfer's. Its content is judged, not validated.",
            "type": "object",
            "properties": {"_metadata": {"type": "object"}, "plans": {"type": "array"}},
            "required": ["_metadata"],
        },
    ),
    PlanMap: (
        _plan_map,
        {
            "description": "Plans; no key occurs twice.",
            "type": "array",
            "items": {"$ref": "#/$defs/PlanRow"},
        },
    ),
    Times: (
        _times,
        {
            "description": "Mean microseconds by tactic id.",
            "type": "object",
            "propertyNames": _ONE_OF_THE_TACTICS,
            "additionalProperties": {"type": "number", "minimum": 0},
        },
    ),
    Capabilities: (
        _capabilities,
        {
            "description": "What is claimed.",
            "type": "array",
            "items": {"enum": list(get_args(CapabilityName))},
            "uniqueItems": True,
        },
    ),
    Tactics: (
        _tactics,
        {"type": "array", "items": {"$ref": "#/$defs/TacticDescriptor"}},
    ),
    PlannedEach: (
        _planned_each,
        {
            "description": "The plan or the rejection of each request, in their order.",
            "type": "array",
            "items": {"anyOf": [{"$ref": "#/$defs/Planned"}, {"$ref": "#/$defs/RejectedPlan"}]},
        },
    ),
}
"""A type with rules of its own → how it is built from plain data, and the schema of that data."""


def decode(data: object, kind: Any) -> Any:
    """Plain data as a value of a type of the interface; ValueError, one sentence, if it is none."""
    try:
        return msgspec.convert(data, kind, dec_hook=_build)
    except msgspec.ValidationError as error:
        # "Expected `int`, got `str` - at `$[1]` - at `$.plans`": the place comes first here.
        text, *places = str(error).split(" - at `$")
        place = "".join(part.rstrip("`") for part in reversed(places)).removeprefix(".")
        raise ValueError(f"{place}: {text}" if place else text) from None


def encode(value: Any) -> Any:
    """An argument as plain data: mappings as dicts, tuples as lists; a dict is plain already."""
    if type(value) is dict:
        return value
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, list | tuple):
        return [encode(item) for item in value]
    if isinstance(value, Tactic):
        names = TacticDescriptor.__struct_fields__
        return {name: encode(getattr(value, name)) for name in names}
    return value


def schema_of(kind: Any) -> dict[str, Any] | None:
    """The schema of a type with rules of its own, None for any other; for msgspec."""
    return dict(_BUILT[kind][1]) if kind in _BUILT else None


def _build(kind: Any, data: object) -> Any:
    try:
        return _BUILT[kind][0](data)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None  # so that msgspec adds where this value stands
