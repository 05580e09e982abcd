"""A checker for the part of JSON Schema (draft 2020-12) that this package's schemas use.

It exists so that a report can be verified wherever the standard library is; the tests compare it
with a full implementation.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any

_KINDS: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "null": (type(None),),
}

_KEYWORDS = frozenset(
    {"$schema", "$id", "$defs", "$ref", "title", "description", "type", "enum", "const", "pattern"}
    | {"minimum", "maximum", "properties", "required", "additionalProperties", "items"}
)


def problems(data: object, schema: Mapping[str, Any]) -> list[str]:
    """What is wrong with `data`, as one sentence per place; ValueError for an unknown keyword."""
    return list(_problems(data, schema, schema, "the report"))


def _problems(
    data: object, schema: Mapping[str, Any], root: Mapping[str, Any], where: str
) -> Iterator[str]:
    strange = set(schema) - _KEYWORDS
    if strange:
        raise ValueError(f"The schema uses {min(strange)!r}, which this checker does not know.")
    if "$ref" in schema:
        yield from _problems(data, root["$defs"][schema["$ref"].rpartition("/")[2]], root, where)
    kinds = schema.get("type", list(_KINDS))
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if not any(_is(data, kind) for kind in kinds):
        yield f"{where} is not of type {' or '.join(kinds)}."
        return
    allowed = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if allowed is not None and not any(type(data) is type(a) and data == a for a in allowed):
        yield f"{where} is not one of {', '.join(map(repr, allowed))}."
    # JSON Schema's "$" is the very end of the text, Python's also stands before a last line feed.
    pattern = re.sub(r"\$\Z", r"\\Z", schema.get("pattern", ""))
    if isinstance(data, str) and not re.search(pattern, data):
        yield f"{where} does not have the form {schema['pattern']}."
    if isinstance(data, int | float) and not isinstance(data, bool):
        # Bounds that are numbers: NaN and the infinities, which JSON lacks, are in no range.
        low = schema.get("minimum", -sys.float_info.max)
        high = schema.get("maximum", sys.float_info.max)
        if not low <= data <= high:
            yield f"{where} is out of range."
    if isinstance(data, dict):
        yield from _members(data, schema, root, where)
    if isinstance(data, list) and "items" in schema:
        for index, item in enumerate(data):
            yield from _problems(item, schema["items"], root, f"{where}[{index}]")


def _members(
    data: dict[str, Any], schema: Mapping[str, Any], root: Mapping[str, Any], where: str
) -> Iterator[str]:
    properties = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in data:
            yield f"{where} lacks the member {name!r}."
    for name, value in data.items():
        if name in properties:
            yield from _problems(value, properties[name], root, f"{where}.{name}")
        elif schema.get("additionalProperties", True) is False:
            yield f"{where} has the unknown member {name!r}."


def _is(data: object, kind: str) -> bool:
    if isinstance(data, bool):
        return kind == "boolean"
    if kind == "integer" and isinstance(data, float):
        return data.is_integer()
    return isinstance(data, _KINDS[kind])
