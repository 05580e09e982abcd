"""Adapters to start from, one file for each language: nothing is claimed in them, so all is well.

`write` puts one into a folder, and refuses to touch a file that is there.
"""

import os
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from pytest_nvfp4.implementations import stubs


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


def of(language: str) -> Template:
    """The template of a language; ValueError, one sentence, where there is none."""
    if language not in TEMPLATES:
        raise ValueError(
            f"there is no template for {language!r}; take {', '.join(TEMPLATES)}, or write an "
            "executable that answers the JSON lines of `nvfp4-conformance schema`"
        )
    return TEMPLATES[language]


def write(language: str, folder: Path) -> Path:
    """Write a language's template into a folder and return its path.

    ValueError, one sentence, where a file has that name or the folder cannot be written to.
    """
    template = of(language)
    path = folder / template.name
    source = resources.files("pytest_nvfp4.templates").joinpath(template.source)
    text = stubs.fill(source.read_text("utf-8"), language)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, template.mode)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ValueError(f"{path} is there already; move it away or name another folder") from None
    except OSError as error:
        raise ValueError(f"cannot write {path}: {error.strerror}") from None
    return path
