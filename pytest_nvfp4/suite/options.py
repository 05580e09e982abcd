"""The suite's knobs.

`Settings.of` reads and checks them once; a bad value is a usage error that names its source.
"""

import os
import random
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_nvfp4.knobs import Knob, add_knobs, flag, raw_value, seconds

KNOBS = (
    Knob("conformance", "run the cache conformance suite (alone, unless paths are given too)"),
    Knob(
        "impl",
        "implementation: a registered name, package.module:attribute, or exec:COMMAND",
        "IMPL",
    ),
    Knob("contract", "only these areas or contracts, such as PUBL,NDOC-4", "IDS"),
    Knob("level", "must: only MUST contracts; should (the default): SHOULD contracts too", "LEVEL"),
    Knob("report", "write the JSON report here", "FILE.json"),
    Knob(
        "badge",
        "write a badge here: .svg, or .json for a shields endpoint; repeatable",
        "FILE",
        True,
    ),
    Knob("html", "write the report as one self-contained page here", "FILE.html"),
    Knob("deviations", "known deviations, a TOML file", "FILE.toml"),
    Knob("write-deviations", "write the current failures as known deviations", "FILE.toml"),
    Knob("reproducers", "folder for what reproduces a failure (default: nvfp4-reproducers)", "DIR"),
    Knob("flashinfer", "a Python with FlashInfer 0.6.13, to write what FIMP-11 reads", "PYTHON"),
    Knob("seed", "seed of the random test data (default: fresh in every run)", "N"),
    Knob("timeout", "seconds that an implementation may take for one answer (default: 60)", "S"),
)


def add_options(parser: pytest.Parser) -> None:
    """Register every knob."""
    add_knobs(parser, "nvfp4", "NVFP4 plan-cache conformance", KNOBS)


def conformance_wanted(config: pytest.Config) -> bool:
    """Whether this run is (also) a run of the conformance suite."""
    return flag(config, KNOBS[0])


@dataclass(frozen=True, slots=True)
class Settings:
    """The suite's checked settings; paths are absolute."""

    impl: str
    contract: str | None
    level: str
    report: Path | None
    badges: tuple[Path, ...]
    html: Path | None
    deviations: Path | None
    write_deviations: Path | None
    reproducers: Path
    flashinfer: str | None
    seed: int
    timeout: float
    sources: Mapping[str, str]
    """Which knobs were set, and where."""

    @classmethod
    def of(cls, config: pytest.Config) -> "Settings":
        """Read and check all knobs of a run."""
        values: dict[str, object] = {}
        sources: dict[str, str] = {}
        for knob in KNOBS[1:]:
            values[knob.name], source = raw_value(config, knob, os.environ)
            if values[knob.name] is not None:
                sources[knob.name] = source

        def text(name: str, default: str | None = None) -> str | None:
            value = values[name]
            return default if value is None else str(value)

        def path(name: str, *suffixes: str) -> Path | None:
            value = text(name)
            return None if value is None else _path(config, value, sources[name], suffixes)

        level = text("level", "should")
        if level not in ("must", "should"):
            raise pytest.UsageError(f"{sources['level']} is {level!r}; use must or should")
        timeout = seconds(text("timeout", "60"), sources.get("timeout", ""))
        badges = values["badge"] or []
        assert isinstance(badges, list)
        return cls(
            impl=text("impl", "reference") or "",
            contract=text("contract"),
            level=level,
            report=path("report", ".json"),
            badges=tuple(
                _path(config, str(b), sources["badge"], (".svg", ".json")) for b in badges
            ),
            html=path("html", ".html", ".htm"),
            deviations=path("deviations", ".toml"),
            write_deviations=path("write-deviations", ".toml"),
            reproducers=path("reproducers") or config.invocation_params.dir / "nvfp4-reproducers",
            flashinfer=_program(config, text("flashinfer"), sources.get("flashinfer", "")),
            seed=_seed(text("seed"), sources.get("seed", "")),
            timeout=timeout,
            sources=sources,
        )


def _path(config: pytest.Config, value: str, source: str, suffixes: tuple[str, ...]) -> Path:
    path = config.invocation_params.dir / value
    if suffixes and path.suffix not in suffixes:
        raise pytest.UsageError(
            f"{source} is {value!r}; its name must end in {' or '.join(suffixes)}"
        )
    return path


def _program(config: pytest.Config, value: str | None, source: str) -> str | None:
    """An executable: a path from where pytest was started, or a name on the PATH."""
    if value is None:
        return None
    path = config.invocation_params.dir / value
    found = shutil.which(str(path)) or shutil.which(value)
    if found is None:
        raise pytest.UsageError(f"{source} is {value!r}; name a Python that can be run")
    return found


def _seed(value: str | None, source: str) -> int:
    if value is None:
        return random.SystemRandom().randrange(2**32)
    if not (value.isascii() and value.isdigit() and len(value) < 20):
        raise pytest.UsageError(f"{source} is {value!r}; use a non-negative integer")
    return int(value)
