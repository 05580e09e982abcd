"""The binding oracle: the 64 plans that a production engine ran, as an immutable value."""

import csv
import functools
import hashlib
import importlib.resources
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from pytest_nvfp4.plans import PlanKey, PlanMap


@dataclass(frozen=True, slots=True)
class Oracle:
    """The oracle's plans, the environment they were tuned in, and the document that held them.

    `metadata` has the six FlashInfer fields, `document` is the checked-in file (with its final LF),
    `sha256` its digest, `original_sha256` the digest of the file as the engine wrote it (without).
    """

    plans: PlanMap
    metadata: Mapping[str, str]
    document: bytes
    sha256: str
    original_sha256: str


@functools.cache
def load() -> Oracle:
    """Read the packaged oracle; an altered file is an error that names both digests."""
    folder = importlib.resources.files("pytest_nvfp4.fixtures") / "nvfp4_flashinfer_v025_gb10"
    manifest = tomllib.loads((folder / "manifest.toml").read_text(encoding="utf-8"))
    document = (folder / manifest["checked_in"]["file"]).read_bytes()
    sha256 = hashlib.sha256(document).hexdigest()
    if sha256 != manifest["checked_in"]["sha256"]:
        raise ValueError(
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
