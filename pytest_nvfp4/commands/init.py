"""``nvfp4-conformance init``: an adapter to start from, in one of a few languages."""

import argparse
import os
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from pytest_nvfp4.commands.output import show
from pytest_nvfp4.errors import UsageError

SUMMARY = "write an adapter to start from"


@dataclass(frozen=True, slots=True)
class Template:
    """A file to start from: the name it gets, how to build it ("" if it runs as it is), its target.

    `source` is its name in the folder `templates`, `target` what to give `smoke` and `run`.
    """

    source: str
    name: str
    build: str
    target: str
    mode: int = 0o666


TEMPLATES = {
    "python": Template("adapter.py", "nvfp4_adapter.py", "", "nvfp4_adapter:Adapter"),
    "cpp": Template(
        "adapter.cpp",
        "nvfp4_adapter.cpp",
        "g++ -std=c++17 -O2 -o nvfp4-adapter nvfp4_adapter.cpp",
        "exec:./nvfp4-adapter",
    ),
    "shell": Template("adapter.sh", "nvfp4_adapter.sh", "", "exec:./nvfp4_adapter.sh", mode=0o777),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the language and the folder."""
    parser.add_argument("language", help=", ".join(TEMPLATES))
    parser.add_argument("folder", nargs="?", default=".", help="where to write it (.)")


def execute(options: argparse.Namespace) -> int:
    """Write an adapter in which no operation is claimed yet, and print the next commands."""
    path = write(options.language, Path(options.folder))
    template = of(options.language)
    show(f"wrote {path}; nothing is claimed in it yet. Next, in its folder:")
    for line in filter(None, [template.build, f"nvfp4-conformance smoke {template.target}"]):
        print(f"  {line}")
    return 0


def of(language: str) -> Template:
    """The template of a language; UsageError where there is none."""
    if language not in TEMPLATES:
        raise UsageError(
            f"there is no template for {language!r}; take {', '.join(TEMPLATES)}, or write an "
            "executable that answers the JSON lines of `nvfp4-conformance schema`"
        )
    return TEMPLATES[language]


def write(language: str, folder: Path) -> Path:
    """Write a language's template into a folder and return its path.

    UsageError where a file has that name or the folder cannot be written to.
    """
    from pytest_nvfp4.implementations import stubs

    template = of(language)
    path = folder / template.name
    source = resources.files("pytest_nvfp4.templates").joinpath(template.source)
    text = stubs.fill(source.read_text("utf-8"), language)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, template.mode)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(f"{path} is there already; move it away or name another folder") from None
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None
    return path
