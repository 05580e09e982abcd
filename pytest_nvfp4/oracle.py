"""The binding oracle: the 64 plans that a production engine ran, as an immutable value."""

import csv
import functools
import hashlib
import importlib.resources
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from pytest_nvfp4.errors import UsageError
from pytest_nvfp4.plans import (
    NotPlansError,
    PlanKey,
    PlanMap,
    as_plan_map,
    difference_table,
    differences,
)

__all__ = ["Oracle", "assert_matches_oracle", "load"]

_ROWS = 64


@dataclass(frozen=True, slots=True)
class Oracle:
    """The oracle's plans, the environment they were tuned in, and the document that held them.

    `plans` has 64 entries; `metadata` the six FlashInfer fields; `document` is the packaged file
    with its final LF, `sha256` its digest in hex, `original_sha256` that of the file as the engine
    wrote it, without the LF. Source: a vLLM 0.25 engine on one NVIDIA GB10, see `manifest.toml`.
    """

    plans: PlanMap
    metadata: Mapping[str, str]
    document: bytes
    sha256: str
    original_sha256: str

    def assert_matches(self, plans: Mapping[PlanKey, int], *, subset: bool = False) -> None:
        """Compare plans, a mapping (m, n, k) → tactic id, with the binding ones.

        All 64 are needed, or with `subset` at least one and no other. AssertionError, with a table
        of at most 64 plans that differ; NotPlansError where `plans` is no plan map.
        """
        __tracebackhide__ = True
        try:
            given = as_plan_map(plans)
        except NotPlansError as error:
            raise error.with_traceback(None) from None
        if subset and not given:
            raise NotPlansError("there is no plan to compare with the oracle; give at least one")
        wanted = {key: t for key, t in self.plans.items() if not subset or key in given}
        changes = differences(wanted, given)
        if changes:
            total = len(wanted.keys() | given.keys())
            lines = [
                f"{total - len(changes)} of {total} plans agree with the binding oracle",
                *difference_table(changes[:_ROWS], "oracle", "given"),
            ]
            if len(changes) > _ROWS:
                lines.append(f"… and {len(changes) - _ROWS} more plans differ")
            raise AssertionError("\n".join(lines))


def assert_matches_oracle(plans: Mapping[PlanKey, int], *, subset: bool = False) -> None:
    """Compare plans, a mapping (m, n, k) → tactic id, with the 64 binding ones.

    With `subset`, at least one of them is needed and no other. AssertionError, with a table of the
    plans that differ; NotPlansError where `plans` is no plan map.
    """
    __tracebackhide__ = True
    load().assert_matches(plans, subset=subset)


@functools.cache
def load() -> Oracle:
    """The packaged oracle, read once a process; UsageError where its document was altered."""
    folder = importlib.resources.files("pytest_nvfp4.fixtures") / "nvfp4_flashinfer_v025_gb10"
    manifest = tomllib.loads((folder / "manifest.toml").read_text(encoding="utf-8"))
    document = (folder / manifest["checked_in"]["file"]).read_bytes()
    sha256 = hashlib.sha256(document).hexdigest()
    if sha256 != manifest["checked_in"]["sha256"]:
        raise UsageError(
            f"the packaged oracle has SHA-256 {sha256}, not {manifest['checked_in']['sha256']}; "
            "install pytest-nvfp4 again"
        )
    table = csv.DictReader((folder / "plans.csv").read_text(encoding="ascii").splitlines())
    return Oracle(
        plans=PlanMap(
            (PlanKey(int(row["m"]), int(row["n"]), int(row["k"])), int(row["tactic"]))
            for row in table
        ),
        metadata=MappingProxyType(dict(manifest["metadata"])),
        document=document,
        sha256=sha256,
        original_sha256=manifest["original"]["sha256"],
    )
