"""The native document: one environment and its plans, read strictly and written canonically.

    {"_metadata": {18 fields}, "plans": [{11 fields}, ...]}

A document is read as a whole or rejected. Unknown members are ignored at every level, so that a
newer writer can add some. All known members must be present and valid.

The reader first checks whole columns (the set of all types, the set of all runners), which takes a
fraction of the time for parsing. Only where a column is invalid does it check plan by plan, to name
the invalid member.

Source: FlashInfer 0.6.13 autotuner.py:150-196, 1813-1900, for rejection as a whole.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import NoReturn, cast

from . import files, strict_json
from .buckets import HYBRID_BUCKETS
from .environment import NativeMetadata
from .errors import Code, Rejected
from .members import (
    INT32,
    UINT8,
    array_member,
    integer_member,
    object_member,
    root_object,
    shown,
    text_member,
)
from .plans import RUNNER, SCALE_BLOCK, PlanKey, Plans
from .tactics import TACTIC_IDS


@dataclass(frozen=True, slots=True)
class Document:
    """A valid native document. `plans` is sorted by shape where the document was read."""

    metadata: NativeMetadata
    plans: Plans

    def as_json(self) -> dict[str, object]:
        """The document as a JSON value, in canonical order."""
        shared = _shared_fields(self.metadata)
        rows = [
            {**shared, "k": key.k, "m_bucket": key.m, "n": key.n, "tactic_id": tactic}
            for key, tactic in sorted(self.plans.items())
        ]
        return {
            "_metadata": self.metadata.as_json(),
            "plans": [{name: row[name] for name in sorted(row)} for row in rows],
        }

    def render(self) -> str:
        """The text of the file: two-space indent, members and plans sorted, one final line feed.

        Equal documents give equal bytes. Plans are written from one template, since seven of their
        eleven members are the same in each.
        """
        metadata = json.dumps(self.metadata.as_json(), indent=2, sort_keys=True, ensure_ascii=False)
        head = '{\n  "_metadata": ' + metadata.replace("\n", "\n  ") + ',\n  "plans": ['
        return head + _plans_text(self) + "]\n}\n"


def read_native(path: str, expected: NativeMetadata) -> Document:
    """Read the document in the file at `path`, whose environment must be `expected`.

    Rejects the file as a whole, with any of the document codes. Never changes the file, and never
    blocks on one that is not regular.
    """
    return parse(files.read_regular(path), expected)


def parse(data: bytes, expected: NativeMetadata) -> Document:
    """Read the document in `data`, whose environment must be `expected`."""
    return validate(strict_json.parse(data), expected)


def validate(root: object, expected: NativeMetadata | None = None) -> Document:
    """The document of the JSON value `root`; without `expected`, of any environment."""
    document = root_object(root)
    metadata = NativeMetadata.from_json(object_member(document, "_metadata"))
    metadata.require(metadata if expected is None else expected)
    items = array_member(document, "plans")
    plans = _plans_by_column(items, metadata)
    if plans is None:
        _reject_first_fault(items, metadata)
    return Document(metadata, plans)


def merged(prior: Document, current: Document) -> Document:
    """One document with the plans of both; where both have a plan for a shape, `current` wins.

    Documents of two environments do not merge (`foreign-environment`), since plans of one would get
    the metadata of the other. The order of plans does not matter. A document merged with itself or
    with an empty one is unchanged.

    Source: FlashInfer 0.6.13 autotuner.py:1745-1811.
    """
    name = prior.metadata.difference(current.metadata)
    if name:
        found, wanted = getattr(prior.metadata, name), getattr(current.metadata, name)
        raise Rejected(
            "foreign-environment",
            f"_metadata.{name}",
            f"_metadata.{name} is {shown(found)} in the prior document and {shown(wanted)} in the "
            "current one; keep the documents of different environments in different files.",
        )
    return Document(current.metadata, dict(sorted({**prior.plans, **current.plans}.items())))


def _shared_fields(metadata: NativeMetadata) -> dict[str, str | int]:
    """The seven members that are the same in every plan of a document."""
    return asdict(metadata.identity)


# Reading


def _plans_by_column(items: list[object], metadata: NativeMetadata) -> Plans | None:
    """The plans, sorted by shape; None where any is invalid."""
    if not items:
        return {}
    if set(map(type, items)) != {dict}:
        return None
    rows = cast(list[dict[str, object]], items)
    try:
        for name, value in _shared_fields(metadata).items():
            column = [row[name] for row in rows]
            # Types first: True equals 1, 0.0 equals 0, and a list cannot be in a set.
            if set(map(type, column)) != {type(value)} or set(column) != {value}:
                return None
        own = [[row[name] for row in rows] for name in ("m_bucket", "n", "k", "tactic_id")]
    except KeyError:
        return None
    if any(set(map(type, column)) != {int} for column in own):
        return None
    ms, ns, ks, ids = cast(list[list[int]], own)
    valid = (
        HYBRID_BUCKETS.issuperset(ms)
        and all(0 < n < INT32.stop for n in set(ns))
        and all(0 < k < INT32.stop and k % SCALE_BLOCK == 0 for k in set(ks))
        and set(ids).issubset(TACTIC_IDS)
    )
    if not valid:
        return None
    plans = dict(sorted(zip(map(PlanKey, ms, ns, ks), ids, strict=True)))
    return plans if len(plans) == len(rows) else None


def _reject_first_fault(items: list[object], metadata: NativeMetadata) -> NoReturn:
    """Reject the first invalid plan, where the check by columns has failed."""
    seen: dict[PlanKey, int] = {}
    for index, item in enumerate(items):
        path = f"plans[{index}]"
        key = _check_plan(item, path, metadata)
        if key in seen:
            raise Rejected(
                "duplicate-plan",
                path,
                f"{path} has the same shape {tuple(key)} as plans[{seen[key]}]; keep one of them.",
            )
        seen[key] = index
    raise AssertionError("the check by columns failed for plans that are all valid")


def _check_plan(item: object, path: str, metadata: NativeMetadata) -> PlanKey:
    """Check the rules of one plan in order, and return its key."""
    if not isinstance(item, dict):
        raise Rejected("wrong-type", path, f"{path} is {shown(item)}; make it a JSON object.")
    plan: Mapping[str, object] = item
    found = {
        "architecture": integer_member(plan, "architecture", path),
        "device_ordinal": integer_member(plan, "device_ordinal", path),
        "fp4_layout": text_member(plan, "fp4_layout", path),
        "output_dtype": integer_member(plan, "output_dtype", path, UINT8),
        "runner": text_member(plan, "runner", path),
        "scale_layout": text_member(plan, "scale_layout", path),
        "tactic_set_version": integer_member(plan, "tactic_set_version", path),
    }
    key = PlanKey(*(integer_member(plan, name, path) for name in ("m_bucket", "n", "k")))
    tactic = integer_member(plan, "tactic_id", path)

    def reject(code: Code, name: str, rule: str) -> Rejected:
        return Rejected(
            code, f"{path}.{name}", f"{path}.{name} is {shown(plan[name])}; it must be {rule}."
        )

    if found["runner"] != RUNNER:
        raise reject("unknown-runner", "runner", RUNNER)
    if tactic not in TACTIC_IDS:
        raise reject("unknown-tactic", "tactic_id", "a tactic from 0 to 31")
    if key.m not in HYBRID_BUCKETS:
        raise reject("bad-plan", "m_bucket", "a hybrid bucket (1, 2, 4 ... 256, 512, 768 ...)")
    if key.n <= 0:
        raise reject("bad-plan", "n", "positive")
    if key.k <= 0 or key.k % SCALE_BLOCK:
        raise reject("bad-plan", "k", f"a positive multiple of {SCALE_BLOCK}")
    for name, value in _shared_fields(metadata).items():
        if found[name] != value:
            raise reject("bad-plan", name, f"{shown(value)}, as in the metadata")
    return key


# Writing


def _plans_text(document: Document) -> str:
    if not document.plans:
        return ""
    shared = {
        name: f'      "{name}": {json.dumps(value, ensure_ascii=False)}'
        for name, value in _shared_fields(document.metadata).items()
    }
    first = "\n".join(
        f"{shared[name]}," for name in ("architecture", "device_ordinal", "fp4_layout")
    )
    middle = "\n".join(f"{shared[name]}," for name in ("output_dtype", "runner", "scale_layout"))
    last = shared["tactic_set_version"]
    blocks = [
        f"\n    {{\n{first}\n"
        f'      "k": {key.k},\n      "m_bucket": {key.m},\n      "n": {key.n},\n'
        f'{middle}\n      "tactic_id": {tactic},\n{last}\n    }}'
        for key, tactic in sorted(document.plans.items())
    ]
    return ",".join(blocks) + "\n  "
