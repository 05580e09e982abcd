"""The environment in which a plan was tuned, and which must agree before the plan is used.

The fastest tactic on one GPU, library or kernel revision need not be the fastest on another. So
each document begins with metadata; a document is rejected as a whole where one field differs; and
each environment has a directory of its own.
"""

import hashlib
import importlib.resources
import json
import platform
import re
from dataclasses import dataclass, fields
from typing import Self

from . import tactics
from .buckets import HYBRID_BUCKET_VERSION
from .errors import Rejected
from .members import INT32, UINT8, Object, integer_member, shown, text_member
from .plans import Identity
from .profiling import REPEATS, WARM_UPS

FORMAT = "vllm.cpp_nvfp4_autotune_v1"
DEFAULT_DELAY_MICROSECONDS = 5000

INDETERMINATE = frozenset({"", "unknown", "None"})
"""The values that a failed probe reports. "not-applicable" is a valid value."""

NOT_APPLICABLE = "not-applicable"

_KERNEL_SOURCES = (
    "tactics.py",
    "gemm/accumulation.py",
    "gemm/elements.py",
    "gemm/matrix.py",
    "gemm/product.py",
    "gemm/quantization.py",
    "gemm/scale_layout.py",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeMetadata:
    """The 18 compatibility fields of a native document.

    `architecture` is the number of the SM: 121 for sm_121a, 0 without a GPU.
    `delay_microseconds`, `repeats` and `warmups` describe how plans were timed. `build_id`
    identifies the kernel sources.
    """

    architecture: int
    build_id: str
    cuda_driver: str
    cuda_runtime: str
    cutlass_version: str
    delay_microseconds: int
    device_ordinal: int
    format: str
    fp4_layout: str
    gpu: str
    hybrid_bucket_version: int
    output_dtype: str
    output_dtype_id: int
    repeats: int
    scale_layout: str
    tactic_descriptor_digest: str
    tactic_set_version: int
    warmups: int

    @classmethod
    def of_this_machine(cls) -> Self:
        """The environment of the NumPy back end."""
        return cls.tuned_here(
            architecture=0,
            build_id=build_id(),
            cuda_driver=NOT_APPLICABLE,
            cuda_runtime=NOT_APPLICABLE,
            cutlass_version=NOT_APPLICABLE,
            device_ordinal=0,
            gpu=_processor(),
        )

    @classmethod
    def tuned_here(
        cls,
        *,
        architecture: int,
        build_id: str,
        cuda_driver: str,
        cuda_runtime: str,
        cutlass_version: str,
        device_ordinal: int,
        gpu: str,
        tactic_descriptor_digest: str | None = None,
        tactic_set_version: int = tactics.TACTIC_SET_VERSION,
    ) -> Self:
        """The environment of a back end: the given fields, and those that all back ends share.

        Without `tactic_descriptor_digest`, it is the digest of all 32 tactics.
        """
        return cls(
            architecture=architecture,
            build_id=build_id,
            cuda_driver=cuda_driver,
            cuda_runtime=cuda_runtime,
            cutlass_version=cutlass_version,
            delay_microseconds=DEFAULT_DELAY_MICROSECONDS,
            device_ordinal=device_ordinal,
            format=FORMAT,
            fp4_layout="e2m1_packed_k2",
            gpu=gpu,
            hybrid_bucket_version=HYBRID_BUCKET_VERSION,
            output_dtype="bf16",
            output_dtype_id=0,
            repeats=REPEATS,
            scale_layout="cutlass_8x4",
            tactic_descriptor_digest=tactic_descriptor_digest or tactics.digest(),
            tactic_set_version=tactic_set_version,
            warmups=WARM_UPS,
        )

    @classmethod
    def from_json(cls, found: Object, path: str = "_metadata") -> Self:
        """Read all 18 fields from a JSON object; other members are ignored.

        Rejects `missing-field` and `wrong-type`; the member is the field below `path`.
        """
        integers = {
            name: integer_member(found, name, path, limits)
            for name, limits in _INTEGER_FIELDS.items()
        }
        return cls(**integers, **{name: text_member(found, name, path) for name in _TEXT_FIELDS})  # type: ignore[arg-type]

    def as_json(self) -> dict[str, object]:
        """The fields as a JSON object, sorted by name as in a document."""
        return {name: getattr(self, name) for name in _NATIVE_FIELDS}

    def require(self, expected: "NativeMetadata") -> None:
        """Reject unless these metadata of a document equal `expected`.

        An indeterminate value is rejected even where both have it: a probe that failed on two
        machines does not show that they agree.
        """
        if self.format != FORMAT:
            raise Rejected(
                "unknown-format",
                "_metadata.format",
                f"_metadata.format is {shown(self.format)}, and only {FORMAT!r} can be read; "
                "keep this file for the version that wrote it and name another path.",
            )
        for name in _TEXT_FIELDS:
            for value in (getattr(self, name), getattr(expected, name)):
                if value in INDETERMINATE:
                    raise _indeterminate(name, value)
        difference = self.difference(expected)
        if difference == "format":
            raise Rejected(
                "unknown-format",
                "_metadata.format",
                f"_metadata.format is {shown(self.format)} where {shown(expected.format)} "
                "is expected; name a file of the expected format.",
            )
        if difference:
            raise _foreign(difference, getattr(self, difference), getattr(expected, difference))

    def difference(self, other: "NativeMetadata") -> str | None:
        """The name of the first field that differs between two environments; None if none does."""
        for name in _NATIVE_FIELDS:
            if getattr(self, name) != getattr(other, name):
                return name
        return None

    @property
    def identity(self) -> Identity:
        """The fields of the environment that each plan of a document repeats."""
        return Identity(
            architecture=self.architecture,
            device_ordinal=self.device_ordinal,
            fp4_layout=self.fp4_layout,
            output_dtype=self.output_dtype_id,
            scale_layout=self.scale_layout,
            tactic_set_version=self.tactic_set_version,
        )

    @property
    def fingerprint(self) -> str:
        """16 hex digits over all 18 fields and nothing else."""
        return self._digest()[:16]

    @property
    def directory(self) -> str:
        """The directory name of this environment, the same in every process.

        The readable part need not be unique ("NVIDIA GB10" and "NVIDIA_GB10" give the same text);
        the digest over all fields is. Its first half is the fingerprint. At most 130 bytes of
        ASCII, whatever the name of the device.
        """
        device = re.sub(r"[^A-Za-z0-9.-]+", "_", self.gpu)[:64]
        return f"sm{self.architecture}-{device}-{self._digest()[:32]}"

    @property
    def format_directory(self) -> str:
        """The directory name of the format: its text where that can be one, else a digest."""
        if re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}", self.format):
            return self.format
        return f"format-{self._digest()[:32]}"

    def _digest(self) -> str:
        canonical = json.dumps(self.as_json(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportMetadata:
    """The six text fields by which a FlashInfer document describes its environment.

    Source: FlashInfer 0.6.13 autotuner.py:150-196.
    """

    flashinfer_version: str
    cuda_version: str
    cublas_version: str
    cudnn_version: str
    cudnn_frontend_version: str
    gpu: str

    @classmethod
    def of_this_machine(cls) -> Self:
        """The metadata that an imported document must have for the NumPy back end."""
        return cls(
            flashinfer_version="0.6.13",
            cuda_version=NOT_APPLICABLE,
            cublas_version=NOT_APPLICABLE,
            cudnn_version=NOT_APPLICABLE,
            cudnn_frontend_version=NOT_APPLICABLE,
            gpu=_processor(),
        )

    @classmethod
    def from_json(cls, found: Object, path: str = "_metadata") -> Self:
        """Read all six fields from a JSON object; rejects as `NativeMetadata.from_json` does."""
        return cls(**{name: text_member(found, name, path) for name in _IMPORT_FIELDS})

    def as_json(self) -> dict[str, object]:
        """The fields as a JSON object, in FlashInfer's order."""
        return {name: getattr(self, name) for name in _IMPORT_FIELDS}

    def require(self, expected: "ImportMetadata") -> None:
        """Reject unless each field of a document equals that of `expected` or is exactly `*`."""
        for name in _IMPORT_FIELDS:
            found, wanted = getattr(self, name), getattr(expected, name)
            if found not in ("*", wanted):
                raise _foreign(name, found, wanted)


def build_id() -> str:
    """16 hex digits over the sources that decide what a tactic computes.

    A digest over all sources would discard all plans with every edit elsewhere, and a version
    number would keep them when a kernel changes.
    """
    digest = hashlib.sha256()
    for name in _KERNEL_SOURCES:
        source = importlib.resources.files(__package__).joinpath(name).read_bytes()
        digest.update(f"{name} {len(source)}\n".encode() + source)
    return digest.hexdigest()[:16]


def _processor() -> str:
    return f"NumPy on {platform.machine() or 'an unknown processor'}"


def _foreign(name: str, found: object, wanted: object) -> Rejected:
    return Rejected(
        "foreign-environment",
        f"_metadata.{name}",
        f"_metadata.{name} is {shown(found)} where this environment has {shown(wanted)}; "
        "name a file that was tuned here, or tune into another path.",
    )


def _indeterminate(name: str, value: str) -> Rejected:
    return Rejected(
        "indeterminate-environment",
        f"_metadata.{name}",
        f"_metadata.{name} is {value!r}, so the environments cannot be compared; "
        "repair the probe that sets it and tune again.",
    )


_NATIVE_FIELDS = tuple(field.name for field in fields(NativeMetadata))
_IMPORT_FIELDS = tuple(field.name for field in fields(ImportMetadata))
_INTEGER_FIELDS = {
    field.name: UINT8 if field.name == "output_dtype_id" else INT32
    for field in fields(NativeMetadata)
    if field.type is int
}
_TEXT_FIELDS = tuple(field.name for field in fields(NativeMetadata) if field.type is str)
