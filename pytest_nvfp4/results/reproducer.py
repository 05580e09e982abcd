"""Standalone files that show a failing case: the document's bytes and the request sequence.

A file's name is a function of contract, case and transport alone, and two different cases never
share a name: where the readable part had to be altered or cut, a digest of the full text follows.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_nvfp4.results.files import publish

_LONGEST = 120
"""Characters in a name without its suffix: far below the 255 bytes that file systems allow."""

_DIGEST = 12

_SHOWN = 2000
"""Characters of each file in an excerpt: enough for most documents of the suite as a whole."""

# A name that needs no digest: it shows contract and case unaltered, does not look like a name with
# a digest, and stays distinct on file systems that ignore case.
_EXACT = re.compile(r"[A-Z]{4}-[0-9]+--(?!(.*-)?[0-9a-f]{12}$)[a-z0-9._-]+")


def write(
    folder: Path,
    contract: str,
    case: str,
    *,
    document: bytes | None = None,
    requests: Sequence[Mapping[str, Any]] | None = None,
    transport: str = "",
) -> tuple[Path, ...]:
    """Write `<contract>--<case>.json` and, for requests, `.jsonl`; return the paths.

    The document is written as it is, valid or not. Each request becomes one line, as it goes over
    the wire. A file of an earlier run of the same case is replaced. OSError if writing fails,
    ValueError if a request is not JSON data.
    """
    stem = name(contract, case, transport)
    files: list[tuple[Path, bytes]] = []
    if document is not None:
        files.append((folder / f"{stem}.json", document))
    if requests is not None:
        lines = [json.dumps(request, allow_nan=False) + "\n" for request in requests]
        files.append((folder / f"{stem}.jsonl", "".join(lines).encode("ascii")))
    for path, content in files:
        publish(path, content)
    return tuple(path for path, _ in files)


def excerpt(path: Path) -> str:
    """The beginning and the end of a case's requests and document, as text; empty without either.

    It is for reports, which are read without these files. Bytes that are not UTF-8 are escaped.
    """
    parts = []
    for suffix, title in ((".jsonl", "requests"), (".json", "document")):
        if suffix == ".json" != path.suffix:
            continue  # this case had no document: one that lies there is of an earlier run
        try:
            data = path.with_suffix(suffix).read_bytes()
        except OSError:
            continue
        text = data.decode("utf-8", "backslashreplace")
        parts.append(f"{title}, {len(data)} bytes:\n{_shortened(text)}")
    return "\n".join(parts)


def _shortened(text: str) -> str:
    if len(text) <= _SHOWN:
        return text
    head, tail = _SHOWN * 3 // 4, _SHOWN // 4
    return f"{text[:head]}\n… {len(text) - _SHOWN} characters are left out here …\n{text[-tail:]}"


def name(contract: str, case: str, transport: str = "") -> str:
    """The file name, without suffix, of a case: ASCII, bounded, and unlike any other case's."""
    parts = [part for part in (contract, case, transport) if part]
    readable = "--".join(re.sub(r"[^A-Za-z0-9._-]", "_", part) for part in parts)
    if _EXACT.fullmatch(f"{contract}--{case}") and not transport and len(readable) <= _LONGEST:
        return readable
    full = "\0".join((contract, case, transport)).encode("utf-8", "surrogatepass")
    digest = hashlib.sha256(full).hexdigest()[:_DIGEST]
    return f"{readable.lstrip('.')[: _LONGEST - _DIGEST - 1]}-{digest}"
