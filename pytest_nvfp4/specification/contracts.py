"""The executable specification as data: the text, the level and the area of each contract.

`contracts.toml` in the conformance package is the normative text; this module loads it strictly,
selects from it, digests it and prints it as Markdown:

    python -m pytest_nvfp4.specification.contracts --markdown
"""

import argparse
import difflib
import hashlib
import json
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from types import MappingProxyType
from typing import Any

from pytest_nvfp4.errors import UsageError

MUST = "must"
SHOULD = "should"
LEVELS = (MUST, SHOULD)
FUTURE = "future"
"""The level of a contract that is not required yet: it is listed, and its cases are skipped."""

_AREA_ID = re.compile(r"[A-Z]{4}")
_CONTRACT_ID = re.compile(r"([A-Z]{4})-([1-9][0-9]{0,2})")
_VERSION = re.compile(r"[0-9]+\.[0-9]+")


@dataclass(frozen=True, slots=True)
class Contract:
    """One requirement on a plan cache.

    `id` is `<area>-<number>`, `level` is "must", "should" or "future", `capability` names what an
    implementation has to claim for the contract to apply, `source` cites where it comes from.
    """

    id: str
    area: str
    number: int
    level: str
    capability: str
    text: str
    source: str


@dataclass(frozen=True, slots=True)
class Area:
    """The contracts about one subject, which share an id prefix.

    They share `capability` too, but for a contract that names another one.
    """

    id: str
    title: str
    capability: str
    source: str
    contracts: tuple[Contract, ...]


@dataclass(frozen=True, slots=True)
class Specification:
    """All contracts of one version, with the vocabulary they use.

    `digest` is the SHA-256 (64 hex digits) of the content, whatever the layout of the file.
    """

    version: str
    terms: Mapping[str, str]
    codes: Mapping[str, str]
    capabilities: Mapping[str, str]
    areas: tuple[Area, ...]
    digest: str

    @property
    def contracts(self) -> tuple[Contract, ...]:
        """Every contract, in the order of the file."""
        return tuple(contract for area in self.areas for contract in area.contracts)

    def contract(self, contract_id: str) -> Contract:
        """The contract with this id; UsageError, with the nearest ids, if there is none."""
        for contract in self.contracts:
            if contract.id == contract_id:
                return contract
        raise UsageError(unknown(self, contract_id))


def load(text: str) -> Specification:
    """A specification from TOML text; ValueError, one sentence, for the first mistake in it."""
    try:
        root = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"The specification is not valid TOML: {error}.") from error
    tables = ("terms", "codes", "capabilities")
    _fields(root, "the specification", strings=("version",), tables=tables, lists=("area",))
    if not _VERSION.fullmatch(root["version"]):
        raise ValueError(f"The specification's version {root['version']!r} is not like '1.0'.")
    vocabulary = {name: _sentences(root[name], name) for name in tables}
    areas = tuple(_area(entry, vocabulary["capabilities"]) for entry in root["area"])
    ids = [area.id for area in areas]
    if len(set(ids)) != len(ids):
        raise ValueError(f"The specification lists an area twice: {', '.join(ids)}.")
    content = json.dumps(root, sort_keys=True, separators=(",", ":"))
    return Specification(
        version=root["version"],
        terms=vocabulary["terms"],
        codes=vocabulary["codes"],
        capabilities=vocabulary["capabilities"],
        areas=areas,
        digest=hashlib.sha256(content.encode()).hexdigest(),
    )


def packaged() -> Specification:
    """The specification that ships with this package."""
    file = resources.files("pytest_nvfp4.conformance").joinpath("contracts.toml")
    return load(file.read_text(encoding="utf-8"))


def select(specification: Specification, selection: str) -> tuple[Contract, ...]:
    """The contracts that a comma-separated list of areas and ids names, such as "PUBL,ndoc-4".

    They come in the specification's order and once each. UsageError names an unknown entry, with
    the nearest known ones, or an empty selection.
    """
    names = [name.strip() for name in selection.split(",")]
    if not any(names):
        raise UsageError("The contract selection is empty; name areas or ids, as in 'PUBL,NDOC-4'.")
    known = {area.id for area in specification.areas} | {c.id for c in specification.contracts}
    for name in names:
        if name.upper() not in known:
            raise UsageError(unknown(specification, name))
    wanted = {name.upper() for name in names}
    return tuple(c for c in specification.contracts if c.id in wanted or c.area in wanted)


def unknown(specification: Specification, name: str) -> str:
    """The sentence for a name that is neither an area nor a contract, with the nearest names."""
    names = [area.id for area in specification.areas]
    if "-" in name:
        names = [contract.id for contract in specification.contracts]
    near = difflib.get_close_matches(name.upper(), names, n=3, cutoff=0.6)
    if near:
        advice = f"the nearest names are {', '.join(near)}."
    else:
        advice = f"its areas are {', '.join(area.id for area in specification.areas)}."
    return f"{name!r} is not in specification {specification.version}; {advice}"


def markdown(specification: Specification) -> str:
    """The specification as a Markdown document, ending in one line feed."""
    return "\n".join(_markdown(specification)) + "\n"


def _markdown(specification: Specification) -> Iterator[str]:
    counts = " and ".join(
        f"{sum(c.level == level for c in specification.contracts)} {level.upper()}"
        for level in LEVELS
    )
    yield f"# Contracts of a persistent NVFP4 plan cache, version {specification.version}"
    yield ""
    yield "<!-- Generated from contracts.toml by python -m pytest_nvfp4.specification.contracts"
    yield "     with the option markdown; edit contracts.toml, then print this file again. -->"
    yield ""
    yield f"{len(specification.contracts)} contracts: {counts}."
    yield "A contract applies to an implementation that claims the capability of its area,"
    yield "or the one that the contract itself names."
    for area in specification.areas:
        yield ""
        yield f"## {area.id}: {area.title}"
        yield ""
        yield f"Capability `{area.capability}`. Source: {area.source}."
        yield ""
        yield "| id | level | contract |"
        yield "|---|---|---|"
        for contract in area.contracts:
            text = _cell(contract.text)
            if contract.capability != area.capability:
                text += f" *Capability: `{contract.capability}`.*"
            if contract.source != area.source:
                text += f" *Source: {_cell(contract.source)}.*"
            yield f"| {contract.id} | {contract.level.upper()} | {text} |"
    for title, table in (
        ("Terms", specification.terms),
        ("Rejection codes", specification.codes),
        ("Capabilities", specification.capabilities),
    ):
        yield ""
        yield f"## {title}"
        yield ""
        yield "| name | meaning |"
        yield "|---|---|"
        for name, sentence in table.items():
            yield f"| `{name}` | {_cell(sentence)} |"


def _cell(text: str) -> str:
    """Text that a Markdown table shows as it is: no markup starts inside it."""
    parts = text.split("`")
    parts[::2] = [re.sub(r"([\\*_|<>\[\]])", r"\\\1", part) for part in parts[::2]]
    return "`".join(parts)


def _area(entry: Any, capabilities: Mapping[str, str]) -> Area:
    where = _name(entry, "area")
    _fields(entry, where, strings=("id", "title", "capability", "source"), lists=("contract",))
    if not _AREA_ID.fullmatch(entry["id"]):
        raise ValueError(f"The id of {where} is not four capital letters.")
    if entry["capability"] not in capabilities:
        raise ValueError(f"The capability of {where} is not in [capabilities].")
    contracts = tuple(_contract(item, entry, capabilities) for item in entry["contract"])
    numbers = [contract.number for contract in contracts]
    if not numbers or numbers != sorted(set(numbers)):
        raise ValueError(f"The contract numbers of {where} do not ascend.")
    return Area(entry["id"], entry["title"], entry["capability"], entry["source"], contracts)


def _contract(entry: Any, area: Mapping[str, Any], capabilities: Mapping[str, str]) -> Contract:
    where = _name(entry, "contract")
    _fields(entry, where, strings=("id", "level", "text"), optional=("capability", "source"))
    match = _CONTRACT_ID.fullmatch(entry["id"])
    if match is None or match[1] != area["id"]:
        raise ValueError(f"The id of {where} is not like {area['id']}-1.")
    if entry["level"] not in (*LEVELS, FUTURE):
        raise ValueError(f"The level of {where} is none of 'must', 'should' and 'future'.")
    capability = entry.get("capability", area["capability"])
    if capability not in capabilities:
        raise ValueError(f"The capability of {where} is not in [capabilities].")
    return Contract(
        id=entry["id"],
        area=area["id"],
        number=int(match[2]),
        level=entry["level"],
        capability=capability,
        text=_sentence(entry["text"], where),
        source=entry.get("source", area["source"]),
    )


def _name(entry: Any, kind: str) -> str:
    if isinstance(entry, dict):
        return f"{kind} {entry.get('id', '?')}"
    raise ValueError(f"The {kind} entry {entry!r} of the specification is not a table.")


def _fields(
    entry: Mapping[str, Any],
    where: str,
    *,
    strings: Sequence[str],
    optional: Sequence[str] = (),
    tables: Sequence[str] = (),
    lists: Sequence[str] = (),
) -> None:
    """Check that an entry has exactly these members, each of its kind; ValueError where not."""
    kinds: dict[str, type] = dict.fromkeys(strings, str)
    kinds |= dict.fromkeys(optional, str) | dict.fromkeys(tables, dict) | dict.fromkeys(lists, list)
    extra = sorted(set(entry) - set(kinds))
    if extra:
        raise ValueError(f"In {where}, the member {extra[0]!r} has no meaning.")
    for name, kind in kinds.items():
        if name not in entry and name in optional:
            continue
        if not isinstance(entry.get(name), kind) or not entry[name]:
            raise ValueError(f"In {where}, {name!r} is missing, empty or of the wrong kind.")


def _sentences(table: Mapping[str, Any], name: str) -> Mapping[str, str]:
    return MappingProxyType({key: _sentence(text, f"{name}.{key}") for key, text in table.items()})


def _sentence(text: Any, where: str) -> str:
    if not isinstance(text, str) or not text.endswith(".") or " ".join(text.split()) != text:
        raise ValueError(f"The text of {where} is not one line of prose that ends in a full stop.")
    return text


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the packaged specification; the module's command line."""
    parser = argparse.ArgumentParser(
        prog="python -m pytest_nvfp4.specification.contracts",
        description="Print the cache contracts.",
    )
    parser.add_argument("--markdown", action="store_true", required=True, help="as Markdown")
    parser.parse_args(arguments)
    sys.stdout.write(markdown(packaged()))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
