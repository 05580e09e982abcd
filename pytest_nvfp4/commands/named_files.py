"""Files as `compare` is given them, ``PATH`` or ``NAME=PATH``: reports and plan maps."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_nvfp4 import oracle
from pytest_nvfp4.cache_files import reader
from pytest_nvfp4.errors import UsageError
from pytest_nvfp4.specification.contracts import Specification
from pytest_nvfp4.verification.result_files import read_report
from pytest_nvfp4.views import page
from pytest_nvfp4.views.comparison import Comparison, of

MOST_REPORTS = 8
MOST_MAPS = 8


def named(argument: str) -> tuple[str | None, str]:
    """The label and the path in `NAME=PATH`; a path that holds "=" and exists is a path."""
    label, equals, path = argument.partition("=")
    if not equals or Path(argument).exists() or not label:
        return None, argument
    return label, path


def read_reports(arguments: Sequence[str], specification: Specification) -> Comparison:
    """The comparison of report files, each `PATH` or `NAME=PATH`; UsageError for a bad one."""
    if not 1 <= len(arguments) <= MOST_REPORTS:
        raise UsageError(f"{len(arguments)} reports are given; compare 1 to {MOST_REPORTS}")
    labelled: list[tuple[str | None, Mapping[str, Any]]] = []
    unnamed: dict[tuple[str, str], str] = {}
    for label, path in map(named, arguments):
        report = read_report(path)
        who = report["implementation"]["name"], report["implementation"]["version"]
        if label is None and who in unnamed:
            raise UsageError(
                f"{unnamed[who]} and {path} are both reports of {' '.join(who)}; give them names, "
                f"as in before={unnamed[who]} after={path}"
            )
        if label is None:
            unnamed[who] = path
        labelled.append((label, report))
    return of(labelled, specification)


def base_map() -> page.NamedMap:
    """The binding oracle, which every plan map can be held against."""
    binding = oracle.load()
    return page.NamedMap("oracle", binding.plans, binding.metadata)


def read_maps(plans: Sequence[str]) -> list[page.NamedMap]:
    """The oracle and the plan maps in cache files of either dialect, each under a name of its own.

    A file is named after itself unless `NAME=` says otherwise. UsageError for one that cannot be
    used.
    """
    if len(plans) > MOST_MAPS:
        raise UsageError(f"{len(plans)} plan maps are given; a page shows up to {MOST_MAPS}")
    maps = [base_map()]
    for label, file in map(named, plans):
        checked = reader.check(file)
        if not checked.judgement.accepted:
            raise UsageError(f"{file} is rejected: {checked.judgement.findings[0]}")
        name = label or Path(file).name
        if name in {known.name for known in maps}:
            raise UsageError(
                f"two plan maps are called {name!r}; give each a name of its own, "
                f"as in --plans new={file}"
            )
        maps.append(page.NamedMap(name, checked.judgement.plans, checked.metadata))
    return maps
