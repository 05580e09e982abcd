"""The settings of a conformance run, declared once for pytest and for ``nvfp4-conformance run``."""

from pytest_nvfp4 import settings
from pytest_nvfp4.settings import Flag, Setting

CONFORMANCE = Flag(
    "conformance", "run the cache conformance suite (alone, unless paths are given too)"
)
IMPL = Setting(
    "impl",
    "implementation: a registered name, package.module:attribute, or exec:COMMAND",
    "IMPL",
    settings.text,
)
CONTRACT = Setting(
    "contract", "only these areas or contracts, such as PUBL,NDOC-4", "IDS", settings.text
)
LEVEL = Setting(
    "level",
    "must: only MUST contracts; should (the default): SHOULD contracts too",
    "LEVEL",
    settings.one_of("must", "should"),
)
REPORT = Setting("report", "write the JSON report here", "FILE.json", settings.output_file(".json"))
BADGE = Setting(
    "badge",
    "write a badge here: .svg, or .json for a shields endpoint; repeatable",
    "FILE",
    settings.output_file(".svg", ".json"),
    repeatable=True,
)
HTML = Setting(
    "html",
    "write the report as one self-contained page here",
    "FILE.html",
    settings.output_file(".html", ".htm"),
)
DEVIATIONS = Setting(
    "deviations", "known deviations, a TOML file", "FILE.toml", settings.input_file(".toml")
)
WRITE_DEVIATIONS = Setting(
    "write-deviations",
    "write the current failures as known deviations",
    "FILE.toml",
    settings.output_file(".toml"),
)
REPRODUCERS = Setting(
    "reproducers",
    "folder for what reproduces a failure (default: nvfp4-reproducers)",
    "DIR",
    settings.output_folder,
)
FLASHINFER = Setting(
    "flashinfer",
    "a Python with FlashInfer 0.6.13, to write what FIMP-11 reads",
    "PYTHON",
    settings.program,
)
SEED = Setting(
    "seed", "seed of the random test data (default: fresh in every run)", "N", settings.non_negative
)
TIMEOUT = Setting(
    "timeout",
    "seconds that an implementation may take for one answer (default: 60)",
    "S",
    settings.seconds,
)

RUN_SETTINGS: tuple[Setting[object], ...] = (
    CONTRACT,
    LEVEL,
    REPORT,
    BADGE,
    HTML,
    DEVIATIONS,
    WRITE_DEVIATIONS,
    REPRODUCERS,
    FLASHINFER,
    SEED,
    TIMEOUT,
)
"""The settings of a run, which ``nvfp4-conformance run`` takes as ``--NAME``."""

SETTINGS: tuple[Flag | Setting[object], ...] = (CONFORMANCE, IMPL, *RUN_SETTINGS)
"""All settings of the suite."""
