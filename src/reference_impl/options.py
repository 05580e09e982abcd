"""The options that environment variables set, resolved once and without access to the disk.

    VT_FP4_PLAN_CACHE               0: keep no plans, not even in memory; overrides all others
    VT_FP4_PERSISTENT_CACHE         0: keep plans in memory only; read and write no file
    VT_FP4_AUTOTUNE_CACHE_PATH      the path of the native file, used verbatim
    VT_FP4_FLASHINFER_CACHE_PATH    the path of a FlashInfer file to import; never written
    VT_FP4_AUTOTUNE_CACHE_READONLY  1: frozen; every plan must be in a file, and none is tuned
    VT_FP4_AUTOTUNE_DELAY_US        the delay before timing, 0 to 1,000,000 microseconds
    VT_FP4_DIRECT_SF                1: the quantizer writes swizzled scales directly
    NVFP4_REFERENCE_BACK_END        the back end that measures; see `back_ends`

An invalid value is rejected with the name of its variable; it never becomes a default. Where a
variable switches a feature off, the values of that feature's other variables are not checked. An
empty variable counts as unset.

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

    `metadata`: the environment, with the resolved delay. `back_end`: the name of the back end that
    measures. `native_path`, `import_path`: None where there is no such file. `default_native_path`:
    whether the path is the default and not the user's. `warnings`: sentences to log once.
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
        """The delay before timing in microseconds, which is part of the environment."""
        return self.metadata.delay_microseconds


def resolve(environment: Mapping[str, str], metadata: NativeMetadata | None = None) -> Options:
    """The options that the variables in `environment` set, for the machine of `metadata`.

    Without `metadata`, it is this machine. Its delay applies where no variable sets one. Rejects
    `configuration`, with the name of the variable as the member. Creates and reads no file.
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
                "the cache is frozen and there is no file to read plans from, since neither "
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
            f"{IMPORT_PATH} and {NATIVE_PATH} name the same file, and an imported file is "
            "never written; set another path for the native file.",
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
    """The default path of the native file; None where there is no absolute cache root."""
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
    """The options of a process without files. It still tunes, so the delay applies."""
    try:
        machine = _with_delay(environment, machine)
        direct_scales = _boolean(environment, DIRECT_SCALES, default=True)
    except Rejected:  # by contract, no invalid value stops a process that has switched files off
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
    # `str.isdigit` alone accepts the digits of every script, and `int` alone "+5", " 5" and "5_0".
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
        f"set it to microseconds from 0 to {LONGEST_DELAY}, in the digits 0 to 9.",
    )


def _absolute(environment: Mapping[str, str], name: str) -> str | None:
    value = environment.get(name, "")
    return value if value.startswith("/") and "\0" not in value else None
