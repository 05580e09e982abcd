"""Compare reports and cache files: read the files that were named, show them, write the page."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_nvfp4 import oracle
from pytest_nvfp4.cache_files import reader
from pytest_nvfp4.errors import UsageError
from pytest_nvfp4.specification.contracts import Specification, packaged
from pytest_nvfp4.verification.result_files import read_report
from pytest_nvfp4.views import marks, matrix, page
from pytest_nvfp4.views.comparison import Comparison, of

MOST_REPORTS = 8
MOST_MAPS = 8


def lines(
    reports: Sequence[str],
    plans: Sequence[str] = (),
    html: str | None = None,
    *,
    width: int | None = None,
    everything: bool = False,
    colour: bool = False,
    ascii_only: bool = False,
) -> Iterator[str]:
    """The matrix of reports, a line each; with `html`, the page is written first.

    `width` is that of the terminal, None for a log, in which nothing is cut.
    `reports` and `plans` hold paths, each of them with `NAME=` before it where it needs a name.
    UsageError for a file or an option that cannot be used.
    """
    comparison = read_reports(reports, packaged())
    if html is not None:
        _write(Path(html), comparison, plans)
    elif plans:
        raise UsageError("--plans is shown on the page only; add --html FILE.html")
    for line in matrix.lines(comparison, width=width, ascii_only=ascii_only, everything=everything):
        yield marks.painted(line) if colour else marks.plain([line]).rstrip()


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


def _write(path: Path, comparison: Comparison, plans: Sequence[str]) -> None:
    if path.suffix not in (".html", ".htm"):
        raise UsageError(f"--html is {str(path)!r}; its name must end in .html")
    maps = read_maps(plans)
    try:
        page.write(path, comparison, maps)
    except OSError as error:
        why = f"{error.strerror} ({error.filename})"
        raise UsageError(f"cannot write {path}: {why}") from None
