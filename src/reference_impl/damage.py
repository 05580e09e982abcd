"""Whether a file that cannot be read is damage, or somebody else's document.

At its default path the cache may replace a file that no version of it could use: otherwise every
start would tune everything again, and save nothing, forever. But a file that another environment
or another format could still read is never replaced. The rejection alone does not tell them
apart, since a document of another format first fails by the fields that it lacks.
"""

from . import strict_json
from .environment import FORMAT, ImportMetadata
from .errors import Rejected
from .members import object_member

_NOT_A_DOCUMENT = frozenset({"encoding", "syntax", "duplicate-member", "shape"})
_NOT_DAMAGE = frozenset(
    {"foreign-environment", "unknown-format", "not-regular", "unreadable", "too-large"}
)


def is_damage(data: bytes, rejected: Rejected) -> bool:
    """Whether the non-empty file `data`, rejected for `rejected`, may be replaced.

    It may where it is no document at all, where it says that it is a native document and is not
    a valid one of a definite environment, or where it says nothing about what it is. It may not
    where it names another format, or carries the metadata of a FlashInfer document.
    """
    if rejected.code in _NOT_A_DOCUMENT:
        return True
    if rejected.code in _NOT_DAMAGE:
        return False
    root = strict_json.parse(data)
    metadata = root.get("_metadata") if isinstance(root, dict) else None
    if not isinstance(metadata, dict):
        return True
    named = metadata.get("format")
    if isinstance(named, str):
        return named == FORMAT
    return not _is_flashinfer(metadata)


def _is_flashinfer(metadata: dict[str, object]) -> bool:
    try:
        ImportMetadata.from_json(object_member({"_metadata": metadata}, "_metadata"))
    except Rejected:
        return False
    return True
