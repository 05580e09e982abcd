"""The adapter interface as JSON Schema (draft 2020-12), generated from the declared operations.

``interface.schema.json`` beside this file is its text; ``nvfp4-conformance schema`` prints it.
"""

import json
from importlib import resources
from typing import Any, Literal

import msgspec

from pytest_nvfp4.implementations.messages import (
    NEEDED_TO_CLAIM,
    PROTOCOL,
    Description,
    Planned,
    PlanRow,
    Rejected,
    RejectedPlan,
    TacticDescriptor,
)
from pytest_nvfp4.implementations.operations import OPERATIONS, Operation
from pytest_nvfp4.implementations.plain_data import schema_of

_REF = "#/$defs/{name}"


def packaged() -> str:
    """The text of the published schema."""
    return resources.files(__package__).joinpath("interface.schema.json").read_text("utf-8")


def text() -> str:
    """The schema as it is published: two-space indent, a final line feed."""
    return json.dumps(build(), indent=2, ensure_ascii=False) + "\n"


def build() -> dict[str, Any]:
    """The schema: ``$defs`` has ``request``, ``reply``, and ``answers`` by operation."""
    operations = list(OPERATIONS.values())
    named = (Rejected, Planned, RejectedPlan, PlanRow, TacticDescriptor)
    schemas, definitions = msgspec.json.schema_components(
        [*map(_request, operations), *(operation.result for operation in operations), *named],
        schema_hook=schema_of,  # type: ignore[arg-type]
        ref_template=_REF,
    )
    requests = []
    for operation in operations:
        request = definitions.pop(_request_name(operation))
        del request["title"]
        requests.append({"description": operation.summary, **request})
    answers = dict(
        zip(
            OPERATIONS,
            schemas[len(operations) : 2 * len(operations)],
            strict=True,
        )
    )
    definitions[Description.__name__]["allOf"] = list(_claims())
    definitions[Description.__name__]["properties"]["protocol"] = {"const": PROTOCOL}
    reply = {
        "description": "One line on the adapter's standard output: exactly one of ok, rejected "
        "(the implementation rejects the input) and error (the operation failed).",
        "type": "object",
        "properties": {
            "seq": {"type": ["integer", "null"]},
            "ok": {"description": "The answer of the operation, see answers."},
            "rejected": {"$ref": _REF.format(name=Rejected.__name__)},
            "error": {"type": "string"},
        },
        "required": ["seq"],
        "minProperties": 2,
        "maxProperties": 2,
        "additionalProperties": False,
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"The adapter interface of pytest-nvfp4, protocol {PROTOCOL}",
        "description": "JSON lines: a request (#/$defs/request) is answered by a reply "
        "(#/$defs/reply); the value of ok for an operation OP is #/$defs/answers/OP.",
        "oneOf": [{"$ref": "#/$defs/request"}, {"$ref": "#/$defs/reply"}],
        "$defs": {
            "request": {
                "description": "One line on the adapter's standard input.",
                "oneOf": requests,
            },
            "reply": reply,
            "answers": answers,
            **definitions,
        },
    }


def _request_name(operation: Operation) -> str:
    return f"request_{operation.name}"


def _request(operation: Operation) -> type[msgspec.Struct]:
    fields = [("seq", int), ("op", Literal[operation.name]), *operation.parameters.items()]
    return msgspec.defstruct(_request_name(operation), fields, forbid_unknown_fields=True)


def _claims() -> list[dict[str, Any]]:
    """What a description must have besides, by what it claims."""

    def claimed(capability: str, then: dict[str, Any]) -> dict[str, Any]:
        contains = {"properties": {"capabilities": {"contains": {"const": capability}}}}
        return {"if": contains, "then": then}

    def present(*members: str) -> dict[str, Any]:
        return {
            "required": list(members),
            "properties": {member: {"not": {"type": "null"}} for member in members},
        }

    gpu = {"type": "object", "required": ["architecture"]} | {
        "properties": {"architecture": {"type": "integer", "exclusiveMinimum": 0}}
    }
    device = {"required": ["native_metadata"], "properties": {"native_metadata": gpu}}
    return [
        *(claimed(name, present(*members)) for name, members in NEEDED_TO_CLAIM.items()),
        claimed("device", device),
    ]
