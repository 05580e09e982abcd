"""Plan-cache files: read strictly, and judged by the independent model."""

import errno
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass

from pytest_nvfp4.errors import UsageError
from pytest_nvfp4.model import Finding, Judgement, facts
from pytest_nvfp4.model.flashinfer import judge_flashinfer_object
from pytest_nvfp4.model.json_text import Number, Object, Value
from pytest_nvfp4.model.native import judge_native_object, read_object
from pytest_nvfp4.plans import PlanMap

NATIVE, FLASHINFER = "native", "FlashInfer"


@dataclass(frozen=True, slots=True)
class CacheFile:
    """A file that was read.

    `dialect` is `NATIVE` or `FLASHINFER`, None where the file holds no JSON object; `metadata` are
    the texts and numbers of the document's environment; `judgement` holds the plans or the
    findings.
    """

    path: str
    dialect: str | None
    metadata: Mapping[str, object]
    judgement: Judgement


def check(path: str, expected: Mapping[str, object] | None = None) -> CacheFile:
    """Read a file of either dialect and judge it.

    `expected` is the environment to judge it under, by the names of the dialect's metadata fields;
    with None a document is judged under its own. UsageError where `expected` lacks a field of the
    dialect. What is wrong with the file is in the result.
    """
    data = read_file(path)
    if isinstance(data, Finding):
        return CacheFile(path, None, {}, Judgement.reject(data))
    return check_bytes(path, data, expected)


def check_bytes(path: str, data: bytes, expected: Mapping[str, object] | None = None) -> CacheFile:
    """Judge the bytes of a file that was read already, as `check` does."""
    root, findings = read_object(data)
    if root is None:
        return CacheFile(path, None, {}, Judgement.reject(*findings))
    dialect = NATIVE if root.get("plans") else FLASHINFER
    judge = judge_native_object if dialect == NATIVE else judge_flashinfer_object
    environment = _for_dialect(expected, dialect)
    judgement = judge(root, findings, environment)  # type: ignore[arg-type]
    return CacheFile(path, dialect, _metadata(root), judgement)


def read_plans(path: str | os.PathLike[str]) -> PlanMap:
    """The plans of a cache file of either dialect, judged under its own environment.

    UsageError, a ValueError, with the first finding where the file is rejected.
    """
    file = check(os.fspath(path))
    findings = file.judgement.findings
    if findings:
        more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
        raise UsageError(f"{file.path}: {findings[0]}{more}")
    return file.judgement.plans


def read_file(path: str) -> bytes | Finding:
    """The bytes of a regular file, or what is wrong with the path; never blocks on a FIFO."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        code = "not-regular" if error.errno in (errno.ENXIO, errno.ENODEV) else "unreadable"
        return Finding((code,), "", f"cannot open {path}: {error.strerror}")
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        return Finding(("not-regular",), "", f"{path} is not a regular file")
    with os.fdopen(descriptor, "rb") as file:
        if status.st_size > facts.MAX_BYTES:
            return Finding(("too-large",), "", f"{path} has {status.st_size} bytes")
        try:
            return file.read(facts.MAX_BYTES + 1)
        except OSError as error:
            return Finding(("unreadable",), "", f"cannot read {path}: {error.strerror}")


def _metadata(root: Value) -> dict[str, object]:
    """The document's metadata as far as it can be shown."""
    if not isinstance(root, Object):
        return {}
    found = next((value for value in root.get("_metadata") if isinstance(value, Object)), None)
    shown: dict[str, object] = {}
    for name, value in found.members if found else ():
        if isinstance(value, Number):
            plain = len(value.text) < 20 and value.text.lstrip("-").isdigit()
            shown[name] = int(value.text) if plain else value.text
        elif isinstance(value, str):
            shown[name] = value
    return shown


def _for_dialect(
    expected: Mapping[str, object] | None, dialect: str | None
) -> Mapping[str, object] | None:
    """The expected environment, if it is one of this dialect; UsageError if it is not."""
    if expected is None:
        return None
    fields = set(facts.NATIVE_METADATA if dialect == NATIVE else facts.FLASHINFER_METADATA)
    lacking = sorted(fields - expected.keys())
    if lacking:
        raise UsageError(
            f"the expected environment has no {lacking[0]}, which a {dialect} document needs"
        )
    return expected
