"""Merge what is on disk with what was tuned now.

Source: FlashInfer 0.6.13 autotuner.py:1745-1811.
"""

from .errors import Rejected
from .members import shown
from .native_document import Document


def merged(prior: Document, current: Document) -> Document:
    """All plans of both, those of `current` where both have one, under the metadata of `current`.

    Two environments do not merge (`foreign-environment`): that would stamp our metadata on plans
    that were tuned elsewhere. Commutes with sorting; a document merged with itself or with an
    empty one is itself.
    """
    name = prior.metadata.difference(current.metadata)
    if name:
        found, wanted = getattr(prior.metadata, name), getattr(current.metadata, name)
        raise Rejected(
            "foreign-environment",
            f"_metadata.{name}",
            f"_metadata.{name} is {shown(found)} in the prior document and {shown(wanted)} in the "
            "current one; keep the documents of two environments in two files.",
        )
    return Document(current.metadata, dict(sorted({**prior.plans, **current.plans}.items())))
