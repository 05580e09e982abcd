"""The suite's settings, declared once for pytest and for ``nvfp4-conformance run``.

`Settings.of` reads and checks them once; a bad value is a usage error that names its source.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_nvfp4 import settings
from pytest_nvfp4.errors import UsageError
from pytest_nvfp4.settings import Flag, Setting

if TYPE_CHECKING:
    import pytest

_CONFORMANCE = Flag(
    "conformance", "run the cache conformance suite (alone, unless paths are given too)"
)
_IMPL = Setting(
    "impl",
    "implementation: a registered name, package.module:attribute, or exec:COMMAND",
    "IMPL",
    settings.text,
)
_CONTRACT = Setting(
    "contract", "only these areas or contracts, such as PUBL,NDOC-4", "IDS", settings.text
)
_LEVEL = Setting(
    "level",
    "must: only MUST contracts; should (the default): SHOULD contracts too",
    "LEVEL",
    settings.one_of("must", "should"),
)
_REPORT = Setting(
    "report", "write the JSON report here", "FILE.json", settings.output_file(".json")
)
_BADGE = Setting(
    "badge",
    "write a badge here: .svg, or .json for a shields endpoint; repeatable",
    "FILE",
    settings.output_file(".svg", ".json"),
    repeatable=True,
)
_HTML = Setting(
    "html",
    "write the report as one self-contained page here",
    "FILE.html",
    settings.output_file(".html", ".htm"),
)
_DEVIATIONS = Setting(
    "deviations", "known deviations, a TOML file", "FILE.toml", settings.input_file(".toml")
)
_WRITE_DEVIATIONS = Setting(
    "write-deviations",
    "write the current failures as known deviations",
    "FILE.toml",
    settings.output_file(".toml"),
)
_REPRODUCERS = Setting(
    "reproducers",
    "folder for what reproduces a failure (default: nvfp4-reproducers)",
    "DIR",
    settings.output_folder,
)
_FLASHINFER = Setting(
    "flashinfer",
    "a Python with FlashInfer 0.6.13, to write what FIMP-11 reads",
    "PYTHON",
    settings.program,
)
_SEED = Setting(
    "seed", "seed of the random test data (default: fresh in every run)", "N", settings.non_negative
)
_TIMEOUT = Setting(
    "timeout",
    "seconds that an implementation may take for one answer (default: 60)",
    "S",
    settings.seconds,
)

RUN_SETTINGS: tuple[Setting[object], ...] = (
    _CONTRACT,
    _LEVEL,
    _REPORT,
    _BADGE,
    _HTML,
    _DEVIATIONS,
    _WRITE_DEVIATIONS,
    _REPRODUCERS,
    _FLASHINFER,
    _SEED,
    _TIMEOUT,
)
"""The settings of a run, which ``nvfp4-conformance run`` takes as ``--NAME``."""

SETTINGS: tuple[Flag | Setting[object], ...] = (_CONFORMANCE, _IMPL, *RUN_SETTINGS)
"""All settings of the suite."""


def add_options(parser: pytest.Parser) -> None:
    """Register every setting with pytest."""
    settings.add_options(parser, "nvfp4", "NVFP4 plan-cache conformance", SETTINGS)


def conformance_wanted(config: pytest.Config) -> bool:
    """Whether this run is (also) a run of the conformance suite."""
    return settings.flag(config, _CONFORMANCE)


@dataclass(frozen=True, slots=True)
class Settings:
    """The suite's checked settings; paths are absolute, `timeout` is in seconds."""

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
    """Which settings were set, and where."""

    @classmethod
    def of(cls, config: pytest.Config) -> Settings:
        """Read and check all settings of a run; pytest.UsageError, one sentence, at a mistake."""
        impl = settings.value(config, _IMPL, "")
        with settings.usage_errors():
            if not impl:
                raise UsageError(
                    "no implementation is named, so there is nothing to test; add --nvfp4-impl "
                    "IMPL, or set NVFP4_IMPL or nvfp4_impl in the ini file"
                )
        found = [(one.name, settings.given(config, one)) for one in (_IMPL, *RUN_SETTINGS)]
        return cls(
            impl=impl,
            contract=settings.value(config, _CONTRACT, None),
            level=settings.value(config, _LEVEL, "should"),
            report=settings.value(config, _REPORT, None),
            badges=tuple(settings.values(config, _BADGE)),
            html=settings.value(config, _HTML, None),
            deviations=settings.value(config, _DEVIATIONS, None),
            write_deviations=settings.value(config, _WRITE_DEVIATIONS, None),
            reproducers=settings.value(
                config, _REPRODUCERS, config.invocation_params.dir / "nvfp4-reproducers"
            ),
            flashinfer=settings.value(config, _FLASHINFER, None),
            seed=settings.value(config, _SEED, random.SystemRandom().randrange(2**32)),
            timeout=settings.value(config, _TIMEOUT, 60.0),
            sources={name: places[0].source for name, places in found if places},
        )
