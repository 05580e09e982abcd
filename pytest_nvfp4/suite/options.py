"""The suite's options: `Settings.of` reads and checks the settings of a run once.

A bad value is a usage error that names its source.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_nvfp4 import run_settings as declared
from pytest_nvfp4 import settings
from pytest_nvfp4.errors import UsageError

if TYPE_CHECKING:
    import pytest


def add_options(parser: pytest.Parser) -> None:
    """Register every setting with pytest."""
    settings.add_options(parser, "nvfp4", "NVFP4 plan-cache conformance", declared.SETTINGS)


def conformance_wanted(config: pytest.Config) -> bool:
    """Whether this run is (also) a run of the conformance suite."""
    return settings.flag(config, declared.CONFORMANCE)


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
        impl = settings.value(config, declared.IMPL, "")
        with settings.usage_errors():
            if not impl:
                raise UsageError(
                    "no implementation is named, so there is nothing to test; add --nvfp4-impl "
                    "IMPL, or set NVFP4_IMPL or nvfp4_impl in the ini file"
                )
        found = [
            (one.name, settings.given(config, one))
            for one in (declared.IMPL, *declared.RUN_SETTINGS)
        ]
        return cls(
            impl=impl,
            contract=settings.value(config, declared.CONTRACT, None),
            level=settings.value(config, declared.LEVEL, "should"),
            report=settings.value(config, declared.REPORT, None),
            badges=tuple(settings.values(config, declared.BADGE)),
            html=settings.value(config, declared.HTML, None),
            deviations=settings.value(config, declared.DEVIATIONS, None),
            write_deviations=settings.value(config, declared.WRITE_DEVIATIONS, None),
            reproducers=settings.value(
                config, declared.REPRODUCERS, config.invocation_params.dir / "nvfp4-reproducers"
            ),
            flashinfer=settings.value(config, declared.FLASHINFER, None),
            seed=settings.value(config, declared.SEED, random.SystemRandom().randrange(2**32)),
            timeout=settings.value(config, declared.TIMEOUT, 60.0),
            sources={name: places[0].source for name, places in found if places},
        )
