"""Wrong about FlashInfer documents: FIMP."""

import ast
import fnmatch
import re
from dataclasses import asdict

from nvfp4_reference import flashinfer_import
from nvfp4_reference.environment import ImportMetadata
from nvfp4_reference.errors import Rejected

from faulty.variant import Faulty

root_object, tactic = flashinfer_import.root_object, flashinfer_import._tactic
require = ImportMetadata.require


def reading(edit):
    """The change by which `edit(document)`, which gives a document, comes before all checks."""
    return (flashinfer_import, "root_object", lambda value: edit(dict(root_object(value))))


class PackedK(Faulty):
    """Takes the packed K of a key for the unpacked one."""

    breaks = ("FIMP-1", "FIMP-2", "FIMP-11")
    controls = ("FIMP-10",)

    def read_flashinfer(self, path, expected, session=None):
        found = super().read_flashinfer(path, expected, session)
        found["plans"] = [plan | {"k": plan["k"] // 2} for plan in found["plans"]]
        return found


class SkipsLargeM(Faulty):
    """Drops the plans that are too large for this server, and says nothing."""

    breaks = ("FIMP-1", "FIMP-2")
    controls = ("FIMP-10",)
    served = True

    def read_flashinfer(self, path, expected, session=None):
        found = super().read_flashinfer(path, expected, session)
        found["plans"] = [plan for plan in found["plans"] if plan["m"] < 2048]
        return found


class StarsArePatterns(Faulty):
    """Takes every value with a star for a pattern."""

    breaks = ("FIMP-3",)
    controls = ("FIMP-10",)
    changes = (
        (
            ImportMetadata,
            "require",
            lambda self, expected: require(
                ImportMetadata(
                    **{
                        name: "*" if fnmatch.fnmatch(getattr(expected, name), value) else value
                        for name, value in asdict(self).items()
                    }
                ),
                expected,
            ),
        ),
    )


class OneStarIsEnough(Faulty):
    """Knows the wildcard for the GPU's name alone."""

    breaks = ("FIMP-3",)
    controls = ("FIMP-4",)

    def read_flashinfer(self, path, expected, session=None):
        text = flashinfer_import.files.read_regular(path)
        if re.search(rb'"(cuda|cu\w+|flashinfer)_version": "\*"', text):
            raise Rejected("foreign-environment", "_metadata.cuda_version", "it is not a star.")
        return super().read_flashinfer(path, expected, session)


class MetadataAreOptional(Faulty):
    """Takes a document without metadata for one of this environment."""

    breaks = ("FIMP-4",)
    controls = ("FIMP-3",)
    changes = (reading(lambda root: {"_metadata": dict.fromkeys(_FIELDS, "*")} | root),)


_FIELDS = ImportMetadata.__dataclass_fields__


class ForeignIsFatal(Faulty):
    """Rejects a document for the plans of an operation that is not its business."""

    breaks = ("FIMP-5",)
    controls = ("FIMP-4",)
    changes = ((flashinfer_import, "_is_foreign", lambda key: False),)


class CountsBookkeeping(Faulty):
    """Counts the members that FlashInfer keeps for itself as foreign operations."""

    breaks = ("FIMP-5",)
    controls = ("FIMP-4",)

    def read_flashinfer(self, path, expected, session=None):
        found = super().read_flashinfer(path, expected, session)
        text = flashinfer_import.files.read_regular(path)
        return found | {"ignored": found["ignored"] + len(re.findall(rb'^  "_', text, re.M)) - 1}


def _literally(key):
    try:
        return str(ast.literal_eval(key))
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return key


class ReadsKeysAsPython(Faulty):
    """Reads keys as Python literals, so that one plan has many spellings."""

    breaks = ("FIMP-6", "FIMP-8")
    controls = ("FIMP-4",)
    changes = (reading(lambda root: {_literally(key): value for key, value in root.items()}),)


class EvaluatesKeys(Faulty):
    """Runs a key as a program to see which plan it is."""

    breaks = ("FIMP-6",)
    controls = ("FIMP-4",)

    def read_flashinfer(self, path, expected, session=None):
        text = flashinfer_import.files.read_regular(path).decode("utf-8", "replace")
        for name in re.findall(r"open\('[^']*', 'w'\)", text):
            eval(name).close()
        return super().read_flashinfer(path, expected, session)


class TruncatesTactics(Faulty):
    """Takes 7.9 for tactic 7."""

    breaks = ("FIMP-7",)
    controls = ("FIMP-4",)
    changes = (
        (
            flashinfer_import,
            "_tactic",
            lambda value, key: tactic(
                [value[0], int(value[1])]
                if isinstance(value, list) and len(value) == 2 and isinstance(value[1], float)
                else value,
                key,
            ),
        ),
    )


def _or_zero(value, key):
    try:
        return tactic(value, key)
    except Rejected as rejected:
        if rejected.code != "unknown-tactic":
            raise
        return 0


class DefaultsTheTactic(Faulty):
    """Takes tactic 0 where the one that is asked for does not exist here."""

    breaks = ("FIMP-7", "TACT-2")
    controls = ("FIMP-4",)
    changes = ((flashinfer_import, "_tactic", _or_zero),)


class BadFileIsEmpty(Faulty):
    """Takes a file that it cannot read for one without plans."""

    breaks = ("FIMP-4", "FIMP-9")
    controls = ("FIMP-1",)

    def read_flashinfer(self, path, expected, session=None):
        try:
            return super().read_flashinfer(path, expected, session)
        except Rejected:
            return {"plans": [], "ignored": 0}


class InstallsHalf(Faulty):
    """Installs plan by plan, and stops where one is bad."""

    breaks = ("FIMP-7",)
    controls = ("FIMP-10",)

    def read_flashinfer(self, path, expected, session=None):
        try:
            return super().read_flashinfer(path, expected, session)
        except Rejected as rejected:
            if session is not None and rejected.code == "wrong-type":
                self._session(session).install({(1, 16, 16): 3}, "import", ours=True)
            raise
