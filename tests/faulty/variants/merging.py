"""Wrong about merging, where documents meet: MERG, and the files of others."""

from dataclasses import replace
from unittest import mock

from nvfp4_reference import adapter, native_document, publication
from nvfp4_reference.errors import Rejected
from nvfp4_reference.native_document import Document

from faulty.variant import Faulty

merged = native_document.merged
existing, replace_file = publication._existing, publication._replace
uninterrupted, update = publication.uninterrupted, publication.update


def merging(function):
    """The changes by which every merge is `function(prior, current)`."""
    return ((adapter, "merged", function), (publication, "merged", function))


class PriorWins(Faulty):
    """Keeps the old tactic where both documents have one."""

    breaks = ("MERG-1",)
    controls = ("MERG-2",)
    served = True
    changes = merging(
        lambda prior, current: Document(
            merged(prior, current).metadata, {**current.plans, **prior.plans}
        )
    )


class MergesWithoutSorting(Faulty):
    """Lists the plans of the current document after those of the prior one."""

    breaks = ("MERG-1", "MERG-2")
    controls = ("MERG-3",)

    def merge(self, prior, current):
        super().merge(prior, current)
        key = lambda plan: (plan["m_bucket"], plan["n"], plan["k"])  # noqa: E731
        plans = {key(plan): plan for plan in (*prior["plans"], *current["plans"])}
        return current | {"plans": list(plans.values())}


class NothingNewIsNothing(Faulty):
    """Takes a current document without plans as an order to forget all."""

    breaks = ("MERG-2",)
    controls = ("MERG-1",)
    changes = merging(
        lambda prior, current: (
            merged(prior, current) if current.plans else Document(current.metadata, {})
        )
    )


class MergesAnyBuild(Faulty):
    """Stamps the current build on plans of another one."""

    breaks = ("MERG-3",)
    controls = ("MERG-1",)
    changes = merging(
        lambda prior, current: merged(
            Document(replace(prior.metadata, build_id=current.metadata.build_id), prior.plans),
            current,
        )
    )


def _parse_as_ours(data, expected):
    root = native_document.strict_json.parse(data)
    if isinstance(root, dict) and isinstance(root.get("_metadata"), dict):
        root["_metadata"] = expected.as_json()
    for plan in root.get("plans", []):
        plan.update(native_document._shared_fields(expected))
    return native_document.validate(root, expected)


class LaundersForeignPlans(Faulty):
    """Saves what a foreign file holds as if it had been tuned here."""

    breaks = ("MERG-4",)
    controls = ("MERG-1",)
    changes = ((native_document, "parse", _parse_as_ours),)


def _as_if_empty(destination):
    found = existing(destination)
    return None if found is None else replace(found, data=b"")


class SavesWhatItLoaded(Faulty):
    """Merges with what it loaded at the start, not with the file as it is."""

    breaks = ("MERG-3", "MERG-5")
    controls = ("MERG-2",)
    changes = ((publication, "_existing", _as_if_empty),)


class ResurrectsWhatIsGone(Faulty):
    """Replaces a file that it cannot read any more by what it remembers of it."""

    breaks = ("MERG-5", "PUBL-14")
    controls = ("MERG-1",)
    changes = (
        (
            publication,
            "update",
            lambda path, document, *, loaded=None, replace_damaged=False: update(
                path, document, loaded=loaded, replace_damaged=True
            ),
        ),
    )


class PublishesWithoutMerging(Faulty):
    """Replaces the plans in the file by those of one process."""

    breaks = ("MERG-1", "MERG-3")
    controls = ("MERG-2",)

    def write_native(self, path, document):
        with mock.patch.object(publication, "_existing", _as_if_empty):
            return super().write_native(path, document)


def _empty_if_foreign(destination, expected):
    found = existing(destination)
    try:
        native_document.parse(found.data if found else b"", expected)
    except Rejected:
        return _as_if_empty(destination)
    return found


class PublishesOverForeignFiles(Faulty):
    """Replaces a file that it cannot use, at a path that the user gave."""

    breaks = ("PUBL-14",)
    controls = ("PUBL-4",)

    def write_native(self, path, document):
        expected = native_document.validate(document).metadata
        with mock.patch.object(
            publication, "_existing", lambda path: _empty_if_foreign(path, expected)
        ):
            return super().write_native(path, document)
