"""Valid documents of both dialects, built from the format description, for tests to start from."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_nvfp4.model import facts
from pytest_nvfp4.plans import PlanKey, PlanMap

Document = dict[str, Any]


def native(metadata: Mapping[str, Any], plans: Mapping[PlanKey, int]) -> Document:
    """A native document with these 18 metadata fields and plans, as data, in canonical order."""
    shared = {field: metadata[source] for field, source in facts.PLAN_FROM_METADATA.items()}
    rows = [
        shared
        | {"m_bucket": key.m, "n": key.n, "k": key.k, "runner": facts.RUNNER, "tactic_id": tactic}
        for key, tactic in sorted(plans.items())
    ]
    return {"_metadata": dict(metadata), "plans": rows}


def native_bytes(document: Document) -> bytes:
    """The canonical text: two-space indent, members sorted, UTF-8, one final LF."""
    return (json.dumps(document, indent=2, sort_keys=True) + "\n").encode()


def native_plans(document: Document) -> PlanMap:
    """The plans of a valid native document."""
    return PlanMap(
        (PlanKey(row["m_bucket"], row["n"], row["k"]), row["tactic_id"])
        for row in document["plans"]
    )


def merged(prior: Document, current: Document) -> Document:
    """What merging two valid documents of one environment gives: the current one wins."""
    plans = dict(native_plans(prior)) | dict(native_plans(current))
    return native(current["_metadata"], PlanMap(plans))


def plan_key(m: int, n: int, k: int) -> str:
    """The member name of a plan, as FlashInfer 0.6.13 writes it: ``str()`` of its cache key.

    `m` is the M bucket, `n` and `k` are elements of the unpacked GEMM; two E2M1 values share a byte
    and 16 share a scale, hence K/2 and K/16.
    """
    packed, scales = k // 2, k // 16
    operands = ((m, packed), (packed, n), (-1, scales), (scales, n))
    rest = ((), (0,), (-1, n), (0,), (0,), (-1,))  # alpha, types, output, block, flag, workspace
    return str(("fp4_gemm", facts.RUNNER, (*operands, *rest), ()))


def flashinfer(metadata: Mapping[str, str], plans: Mapping[PlanKey, int]) -> Document:
    """A FlashInfer document with these six metadata fields and plans, as data."""
    rows = {plan_key(*key): [facts.RUNNER, tactic] for key, tactic in plans.items()}
    return {"_metadata": dict(metadata)} | {name: rows[name] for name in sorted(rows)}


def flashinfer_bytes(metadata: Mapping[str, str], plans: Mapping[PlanKey, int]) -> bytes:
    """The text of `flashinfer`, as FlashInfer writes it."""
    return flashinfer_text(flashinfer(metadata, plans))


def flashinfer_text(document: Document) -> bytes:
    """The text of a document as FlashInfer writes it: two-space indent, members as they come."""
    return json.dumps(document, indent=2).encode()


def write_many_plans(path: Path, metadata: Mapping[str, Any], count: int) -> None:
    """Write a valid native document with very many plans, without holding it in memory."""
    one = native(metadata, PlanMap([(PlanKey(1, 987654321, 16), 0)]))
    head, row, tail = re.split(r"(?<=\[)(\{.*\})(?=\])", json.dumps(one, sort_keys=True))
    with path.open("w", encoding="ascii") as file:
        file.write(head)
        for n in range(1, count + 1):
            file.write(row.replace("987654321", str(n)) + ("," if n < count else ""))
        file.write(tail)
