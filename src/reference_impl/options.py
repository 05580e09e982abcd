"""Options: what the environment variables ask for, resolved once and without touching the disk.

    VT_FP4_PLAN_CACHE               0: bypass even the plans in memory (the strongest switch)
    VT_FP4_PERSISTENT_CACHE         0: plans stay in the process; no file is read or written
    VT_FP4_AUTOTUNE_CACHE_PATH      the native file, taken verbatim
    VT_FP4_FLASHINFER_CACHE_PATH    a FlashInfer file to import, never written
    VT_FP4_AUTOTUNE_CACHE_READONLY  1: frozen; every plan must be in a file, none is tuned
    VT_FP4_AUTOTUNE_DELAY_US        delay before timing, 0 to 1,000,000 microseconds
    VT_FP4_DIRECT_SF                1: the quantizer writes swizzled scales directly
    NVFP4_REFERENCE_BACK_END        what measures; see `back_ends`

A wrong value is an error that names its variable, never a default in disguise. Only where a
switch turns a thing off, the values for that thing do not matter. An empty variable is unset.

Source: vLLM 0.25.0 flashinfer_autotune_cache.py:19-41, for the default path.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from . import back_ends
from .environment import NativeMetadata
from .errors import Rejected
from .members import shown

PLAN_CACHE = "VT_FP4_PLAN_CACHE"
PERSISTENT_CACHE = "VT_FP4_PERSISTENT_CACHE"
NATIVE_PATH = "VT_FP4_AUTOTUNE_CACHE_PATH"
IMPORT_PATH = "VT_FP4_FLASHINFER_CACHE_PATH"
FROZEN = "VT_FP4_AUTOTUNE_CACHE_READONLY"
DELAY = "VT_FP4_AUTOTUNE_DELAY_US"
DIRECT_SCALES = "VT_FP4_DIRECT_SF"

PRODUCT = "nvfp4-reference"
FILE_NAME = "autotune_configs.json"
LONGEST_DELAY = 1_000_000

_TRUE = ("1", "true", "on")
_FALSE = ("0", "false", "off")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How the cache behaves in this process.

    `metadata` is the environment with the resolved delay; `back_end` is the name of what measures;
    `native_path` and `import_path` are None where there is no such file; `default_native_path` says
    that the path was chosen here and not by the user; `warnings` are sentences for the log, once.
    """

    metadata: NativeMetadata
    enabled: bool = True
    frozen: bool = False
    bypass: bool = False
    native_path: str | None = None
    default_native_path: bool = False
    import_path: str | None = None
    direct_scales: bool = True
    back_end: str = back_ends.NUMPY
    warnings: tuple[str, ...] = ()

    @property
    def delay_microseconds(self) -> int:
        """The delay before timing, which is part of the environment."""
        return self.metadata.delay_microseconds


def resolve(environment: Mapping[str, str], metadata: NativeMetadata | None = None) -> Options:
    """The options that `environment` asks for, on the machine that `metadata` describes.

    Without `metadata`, it is this machine. Its delay holds where no other is set. Rejects
    `configuration`, with the variable's name as the member. Creates and reads nothing.
    """
    back_end = back_ends.chosen(environment)
    machine = back_ends.native_metadata(back_end) if metadata is None else metadata
    bypass = environment.get(PLAN_CACHE) in _FALSE
    if bypass or environment.get(PERSISTENT_CACHE) in _FALSE:
        return _without_files(environment, machine, back_end, bypass=bypass)

    for name in (PLAN_CACHE, PERSISTENT_CACHE):
        _boolean(environment, name, default=True)
    frozen = _boolean(environment, FROZEN, default=False)
    direct_scales = _boolean(environment, DIRECT_SCALES, default=True)
    machine = _with_delay(environment, machine)
    import_path = environment.get(IMPORT_PATH) or None
    explicit_path = environment.get(NATIVE_PATH) or None
    native_path = explicit_path or default_path(environment, machine)
    warnings = []
    if native_path is None:
        if frozen and import_path is None:
            raise Rejected(
                "configuration",
                NATIVE_PATH,
                "the cache is frozen, but there is no file to take plans from, since neither "
                "XDG_CACHE_HOME nor HOME is an absolute path; "
                f"set {NATIVE_PATH} to the native file or {IMPORT_PATH} to a FlashInfer file.",
            )
        warnings.append(
            "Tuned plans will not be saved, because neither XDG_CACHE_HOME nor HOME is an "
            f"absolute path; set {NATIVE_PATH} to keep them."
        )
    if import_path is not None and import_path == native_path:
        raise Rejected(
            "configuration",
            IMPORT_PATH,
            f"{IMPORT_PATH} and {NATIVE_PATH} name one file, and an imported file is never "
            "written; give the native document a path of its own.",
        )
    return Options(
        metadata=machine,
        frozen=frozen,
        native_path=native_path,
        default_native_path=native_path is not None and explicit_path is None,
        import_path=import_path,
        direct_scales=direct_scales,
        back_end=back_end,
        warnings=tuple(warnings),
    )


def default_path(environment: Mapping[str, str], metadata: NativeMetadata) -> str | None:
    """The native file of the environment `metadata`; None without a usable cache root."""
    root = _absolute(environment, "XDG_CACHE_HOME")
    if root is None:
        home = _absolute(environment, "HOME")
        if home is None:
            return None
        root = f"{home}/.cache"
    names = (PRODUCT, "nvfp4_autotune", metadata.format_directory, metadata.directory, FILE_NAME)
    return "/".join((root.rstrip("/"), *names))


def _without_files(
    environment: Mapping[str, str], machine: NativeMetadata, back_end: str, *, bypass: bool
) -> Options:
    """The options of a process that keeps no files. It tunes all the same, so a delay holds."""
    try:
        machine = _with_delay(environment, machine)
        direct_scales = _boolean(environment, DIRECT_SCALES, default=True)
    except Rejected:  # by contract: no wrong value stops a process that has switched files off
        direct_scales = True
    return Options(
        metadata=machine,
        enabled=False,
        bypass=bypass,
        direct_scales=direct_scales,
        back_end=back_end,
    )


def _with_delay(environment: Mapping[str, str], machine: NativeMetadata) -> NativeMetadata:
    value = environment.get(DELAY)
    if not value:
        return machine
    # str.isdigit alone would take digits of every script; int() alone takes "+5", " 5" and "5_0".
    digits = value.lstrip("0") or "0"
    if not (value.isascii() and value.isdigit() and len(digits) <= len(str(LONGEST_DELAY))):
        raise _bad_delay(value)
    if int(digits) > LONGEST_DELAY:
        raise _bad_delay(value)
    return replace(machine, delay_microseconds=int(digits))


def _boolean(environment: Mapping[str, str], name: str, *, default: bool) -> bool:
    value = environment.get(name)
    if not value:
        return default
    if value not in _TRUE + _FALSE:
        raise Rejected(
            "configuration",
            name,
            f"{name} is {shown(value)}; set it to 1, true or on, or to 0, false or off.",
        )
    return value in _TRUE


def _bad_delay(value: str) -> Rejected:
    return Rejected(
        "configuration",
        DELAY,
        f"{DELAY} is {shown(value)}; "
        f"set it to microseconds from 0 to {LONGEST_DELAY}, in the digits 0 to 9 alone.",
    )


def _absolute(environment: Mapping[str, str], name: str) -> str | None:
    value = environment.get(name, "")
    return value if value.startswith("/") and "\0" not in value else None
