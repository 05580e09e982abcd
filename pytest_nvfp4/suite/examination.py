"""What is found out before the first case: the implementation, and what FlashInfer wrote."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_nvfp4.errors import UsageError
from pytest_nvfp4.implementations.loader import Target
from pytest_nvfp4.implementations.messages import Description
from pytest_nvfp4.implementations.plain_data import decode
from pytest_nvfp4.implementations.smoke import examine, unclaimed
from pytest_nvfp4.specification.contracts import Specification
from pytest_nvfp4.suite.flashinfer_writer import WriterError, Written, write
from pytest_nvfp4.suite.options import Settings

FROM_FLASHINFER = "FIMP-11"
"""The contract that reads a document which FlashInfer itself wrote."""


@dataclass(frozen=True, slots=True)
class Examination:
    """What was found out. `unclaimed` are capabilities that answer although they are not claimed.

    `data` is the description as the implementation sent it; `written` is FlashInfer's document,
    None where none is wanted.
    """

    description: Description
    data: Any
    written: Written | None
    unclaimed: tuple[str, ...] = ()

    def as_data(self) -> dict[str, Any]:
        """Plain data, for the workers of a run."""
        written = None if self.written is None else self.written.as_data()
        return {"description": self.data, "written": written}

    @classmethod
    def from_data(cls, sent: Mapping[str, Any]) -> "Examination":
        """What a worker received; it examines nothing itself."""
        data, written = sent["description"], sent["written"]
        return cls(
            decode(data, Description), data, None if written is None else Written.of(written)
        )


def examined(
    target: Target, settings: Settings, specification: Specification, selected: Collection[str]
) -> Examination:
    """Examine the implementation over each of its transports; UsageError if it does not work."""
    found: Description | None = None
    data: Any = None
    for name in target.transports:
        result = examine(target, name, settings.timeout)
        implementation = f"{settings.impl!r} ({name})"
        if result.problem is not None:
            raise UsageError(f"the adapter of {implementation} does not work: {result.problem}")
        if found is not None and result.description != found:
            raise UsageError(f"the description of {implementation} differs from that in process")
        found, data = result.description, result.data
    assert found is not None
    contract = specification.contract(FROM_FLASHINFER)
    wanted = contract.id in selected and contract.capability in found.capabilities
    written = _written(settings) if wanted else None
    return Examination(found, data, written, tuple(unclaimed(target, found, settings.timeout)))


def _written(settings: Settings) -> Written | None:
    if settings.flashinfer is None:
        return None
    try:
        return write(settings.flashinfer, seed=settings.seed, timeout=settings.timeout)
    except WriterError as error:
        raise UsageError(f"{settings.sources['flashinfer']}: {error}") from None
