"""Compare reports and cache files for somebody: read what was named, show it, write the page."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from pytest_nvfp4 import oracle
from pytest_nvfp4.cache_files import reader as checking
from pytest_nvfp4.specification import contracts
from pytest_nvfp4.views import comparison as compare
from pytest_nvfp4.views import marks, matrix, page

MOST_MAPS = 8


def lines(
    reports: Sequence[str],
    plans: Sequence[str] = (),
    html: str | None = None,
    *,
    everything: bool = False,
    colour: bool = False,
    ascii_only: bool = False,
) -> Iterator[str]:
    """The matrix of reports, a line each; with `html`, the page is written first.

    `reports` and `plans` hold paths, each of them with `NAME=` before it where it needs a name.
    ValueError, one sentence, for whatever cannot be used.
    """
    comparison = compare.read(reports, contracts.packaged())
    if html is not None:
        _write(Path(html), comparison, plans)
    elif plans:
        raise ValueError("--plans is shown on the page only; add --html FILE.html")
    for line in matrix.lines(comparison, ascii_only=ascii_only, everything=everything):
        yield marks.painted(line) if colour else marks.plain([line]).rstrip()


def base_map() -> page.NamedMap:
    """The binding oracle, which every plan map can be held against."""
    binding = oracle.load()
    return page.NamedMap("oracle", binding.plans, binding.metadata)


def read_maps(plans: Sequence[str]) -> list[page.NamedMap]:
    """The oracle and the plan maps in cache files of either dialect, each under a name of its own.

    A file is named after itself unless `NAME=` says otherwise. ValueError, one sentence.
    """
    if len(plans) > MOST_MAPS:
        raise ValueError(f"{len(plans)} plan maps are given; a page shows up to {MOST_MAPS}")
    maps = [base_map()]
    for label, file in map(compare.named, plans):
        checked = checking.check(file)
        if not checked.judgement.accepted:
            raise ValueError(f"{file} is rejected: {checked.judgement.findings[0]}")
        name = label or Path(file).name
        if name in {known.name for known in maps}:
            raise ValueError(
                f"two plan maps are called {name!r}; give each a name of its own, "
                f"as in --plans new={file}"
            )
        maps.append(page.NamedMap(name, checked.judgement.plans, checked.metadata))
    return maps


def _write(path: Path, comparison: compare.Comparison, plans: Sequence[str]) -> None:
    if path.suffix not in (".html", ".htm"):
        raise ValueError(f"--html is {str(path)!r}; its name must end in .html")
    maps = read_maps(plans)
    try:
        page.write(path, comparison, maps)
    except OSError as error:
        why = f"{error.strerror} ({error.filename})"
        raise ValueError(f"cannot write {path}: {why}") from None
