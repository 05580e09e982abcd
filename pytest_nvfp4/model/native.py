"""The verdict on a native document: ``{"_metadata": {18 fields}, "plans": [{11 fields}, ...]}``."""

import re
from collections.abc import Iterator, Mapping

from pytest_nvfp4.model import facts
from pytest_nvfp4.model.buckets import hybrid_bucket
from pytest_nvfp4.model.json_text import (
    NotJsonError,
    Number,
    Object,
    Value,
    half_pairs,
    parse,
    repeated_members,
)
from pytest_nvfp4.model.verdict import Finding, Judgement
from pytest_nvfp4.plans import TACTICS, PlanKey, PlanMap

_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,18})")


def judge_native(data: bytes, expected: Mapping[str, object] | None) -> Judgement:
    """Judge the bytes of a native document against the running environment's 18 metadata fields.

    With `expected` None only the document itself is judged, as its own environment.
    """
    root, findings = read_object(data)
    return (
        Judgement.reject(*findings)
        if root is None
        else judge_native_object(root, findings, expected)
    )


def judge_native_object(
    root: Object, findings: list[Finding], expected: Mapping[str, object] | None
) -> Judgement:
    """Judge what `read_object` gave, as a native document."""
    metadata: list[Object] = []
    for value in required(root, "_metadata", "", findings):
        if isinstance(value, Object):
            metadata.append(value)
            findings += _metadata_findings(value, expected)
        else:
            findings.append(wrong("_metadata", "an object", value, "wrong-type", "shape"))
    plans: list[tuple[PlanKey, int]] = []
    for value in required(root, "plans", "", findings):
        if isinstance(value, list):
            plans += _plans(value, metadata[0] if metadata else Object([]), findings)
        else:
            findings.append(wrong("plans", "an array", value, "wrong-type", "shape"))
    if findings:
        return Judgement.reject(*findings)
    return Judgement(PlanMap(plans), 0, ())


def read_object(
    data: bytes, repeated: tuple[str, ...] = ("duplicate-member",)
) -> tuple[Object | None, list[Finding]]:
    """The JSON object in a document's bytes, None without one, and the faults of its JSON text.

    `repeated` are the codes for a repeated member.
    """
    if len(data) > facts.MAX_BYTES:
        return None, [too_large(len(data))]
    try:
        root = parse(data)
    except NotJsonError as error:
        return None, [Finding(error.codes, "", str(error))]
    if not isinstance(root, Object):
        return None, [Finding(("shape",), "", f"the document is {kind(root)}, not an object")]
    findings = [
        Finding(repeated, path, "the member occurs twice; keep one")
        for path in repeated_members(root)
    ]
    return root, findings + unwritable(data, root)


def unwritable(data: bytes, root: Value) -> list[Finding]:
    """The finding for strings that no UTF-8 text can hold, though an escape spells them."""
    count = half_pairs(root) if b"\\u" in data else 0
    message = f"{count} strings hold half of a surrogate pair"
    return [Finding(("encoding", "syntax"), "", message)] if count else []


def too_large(size: int) -> Finding:
    """The finding for a document above the size limit."""
    return Finding(
        ("too-large",), "", f"the file has {size} bytes, more than the limit of {facts.MAX_BYTES}"
    )


def kind(value: Value) -> str:
    """Name a JSON value's kind with its article, for a sentence."""
    names = {Object: "an object", list: "an array", str: "a string", Number: "a number"}
    if isinstance(value, Number) and len(value.text) <= 24:
        return f"the number {value.text}"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return names[type(value)]


def wrong(member: str, should: str, value: Value, *codes: str) -> Finding:
    """The finding for a value of the wrong kind."""
    return Finding(codes, member, f"this must be {should}, not {kind(value)}")


def required(owner: Object, name: str, path: str, findings: list[Finding]) -> list[Value]:
    """Return the values given for a mandatory member, noting its absence."""
    values = owner.get(name)
    if not values:
        member = f"{path}.{name}" if path else name
        findings.append(Finding(("missing-field",), member, "this mandatory member is absent"))
    return values


def integer(value: Value, integer_kind: str) -> int | None:
    """Return the integer if the value is a JSON integer literal in the kind's range, else None."""
    if not isinstance(value, Number) or not _INTEGER.fullmatch(value.text):
        return None
    low, high = facts.RANGES[integer_kind]
    number = int(value.text)
    return number if low <= number <= high else None


def _typed(value: Value, field_kind: str) -> int | str | None:
    """Return a field's value when it is of its kind, else None."""
    if field_kind == facts.STR:
        return value if isinstance(value, str) else None
    return integer(value, field_kind)


def _metadata_findings(
    metadata: Object, expected: Mapping[str, object] | None
) -> Iterator[Finding]:
    for name, field_kind in facts.NATIVE_METADATA.items():
        member = f"_metadata.{name}"
        absent: list[Finding] = []
        for raw in required(metadata, name, "_metadata", absent):
            value = _typed(raw, field_kind)
            if value is None:
                codes = ["wrong-type"]
                if isinstance(raw, Number):  # an out-of-range number is also another environment
                    codes.append("foreign-environment")
                yield wrong(member, f"a {field_kind}".replace("a 8", "an 8"), raw, *codes)
                continue
            if value in facts.INDETERMINATE:
                yield Finding(
                    ("indeterminate-environment",),
                    member,
                    f"{value!r} does not say which environment tuned this; tune again",
                )
            if name == "format" and value != facts.NATIVE_FORMAT:
                yield Finding(
                    ("unknown-format", "foreign-environment"), member, f"unknown format {value!r}"
                )
            elif expected is not None and value != expected[name]:
                yield Finding(
                    ("foreign-environment",),
                    member,
                    f"tuned under {value!r}, but running under {expected[name]!r}",
                )
            elif expected is not None and expected[name] in facts.INDETERMINATE:
                yield Finding(
                    ("indeterminate-environment",), member, "the running environment is unknown"
                )
        yield from absent


def _plans(
    values: list[Value], metadata: Object, findings: list[Finding]
) -> list[tuple[PlanKey, int]]:
    plans: list[tuple[PlanKey, int]] = []
    seen: set[PlanKey] = set()
    shared = {source: metadata.get(source) for source in facts.PLAN_FROM_METADATA.values()}
    for index, plan in enumerate(values):
        path = f"plans[{index}]"
        if not isinstance(plan, Object):
            findings.append(wrong(path, "an object", plan, "wrong-type", "shape", "bad-plan"))
            continue
        fields: dict[str, int | str] = {}
        given: dict[str, list[Value]] = {}
        for name, member in plan.members:
            given.setdefault(name, []).append(member)
        for name, field_kind in facts.NATIVE_PLAN.items():
            for raw in given.get(name) or required(plan, name, path, findings):
                value = _typed(raw, field_kind)
                problem = (
                    _untyped(name, raw, field_kind)
                    if value is None
                    else _bad_value(name, value, shared)
                )
                if problem:
                    codes, message = problem
                    findings.append(Finding(codes, f"{path}.{name}", message))
                elif value is not None:
                    fields[name] = value
        if not {"m_bucket", "n", "k"} <= fields.keys():
            continue
        key = PlanKey(int(fields["m_bucket"]), int(fields["n"]), int(fields["k"]))
        if key in seen:
            findings.append(
                Finding(
                    ("duplicate-plan",),
                    path,
                    f"a second plan for M {key.m}, N {key.n}, K {key.k}; keep one",
                )
            )
        seen.add(key)
        if "tactic_id" in fields:
            plans.append((key, int(fields["tactic_id"])))
    return plans


Problem = tuple[tuple[str, ...], str]


def _untyped(name: str, raw: Value, field_kind: str) -> Problem:
    """What to call a plan field that is not of its kind: numbers can be seen in a second way."""
    codes: tuple[str, ...] = ("wrong-type",)
    if isinstance(raw, Number):
        codes += ("unknown-tactic",) if name == "tactic_id" else ("bad-plan",)
    return codes, wrong(name, field_kind, raw).message


def _bad_value(name: str, value: int | str, shared: Mapping[str, list[Value]]) -> Problem | None:
    """What is wrong with a plan field's value, if anything is."""
    if name == "tactic_id" and not 0 <= int(value) < len(TACTICS):
        return ("unknown-tactic",), f"there is no tactic {value}; ids run from 0 to 31"
    if name == "runner" and value != facts.RUNNER:
        return ("unknown-runner",), f"unknown runner {value!r}; only {facts.RUNNER} is known"
    if name == "m_bucket" and (int(value) < 1 or hybrid_bucket(int(value)) != value):
        return ("bad-plan",), f"{value} is not a hybrid M bucket"
    if name in ("n", "k") and int(value) < 1:
        return ("bad-plan",), f"{name.upper()} must be positive, not {value}"
    if name == "k" and int(value) % 16:
        return ("bad-plan",), f"K must be a multiple of 16, not {value}"
    if name in facts.PLAN_FROM_METADATA:
        source = facts.PLAN_FROM_METADATA[name]
        for raw in shared[source]:
            if _typed(raw, facts.NATIVE_METADATA[source]) != value:
                message = f"{value!r} disagrees with _metadata.{source}"
                return ("bad-plan", "foreign-environment"), message
    return None
