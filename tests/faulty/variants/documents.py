"""Wrong about the native document: NDOC."""

import copy
import json
import os
from contextlib import suppress

from nvfp4_reference import environment, files, native_document, strict_json
from nvfp4_reference.environment import NativeMetadata
from nvfp4_reference.errors import Rejected

from faulty.variant import Everything, Faulty

parse, validate = strict_json.parse, native_document.validate


def reading(edit):
    """The change by which `edit(document, expected metadata)` comes before all checks."""

    def lenient(root, expected=None):
        root = copy.deepcopy(root)
        # What is too far from a document is too far for this leniency.
        with suppress(AttributeError, KeyError, TypeError):
            edit(root, None if expected is None else expected.as_json())
        return validate(root, expected)

    return (native_document, "validate", lenient)


class AsciiOnly(Faulty):
    """Writes a question mark for each letter that is not ASCII."""

    breaks = ("NDOC-1",)
    controls = ("NDOC-2",)
    served = True

    def serialize(self, document):
        return super().serialize(document).encode("ascii", "replace").decode()


class KeepsInsertionOrder(Faulty):
    """Writes members and plans in the order in which they came."""

    breaks = ("NDOC-2",)
    controls = ("NDOC-3",)
    served = True

    def serialize(self, document):
        super().serialize(document)
        return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _only_known(root, _):
    if root.keys() - {"_metadata", "plans"}:
        raise Rejected("shape", "", "the document has members that nobody knows.")


class NoRoomForNewMembers(Faulty):
    """Rejects a document that a newer writer has added a member to."""

    breaks = ("NDOC-3",)
    controls = ("NDOC-16",)
    changes = (reading(_only_known),)


class FillsInDefaults(Faulty):
    """Takes the expected value for a metadata field that is not there."""

    breaks = ("NDOC-4",)
    controls = ("NDOC-5",)
    changes = (
        reading(lambda root, expected: root.update(_metadata=(expected or {}) | root["_metadata"])),
    )


class IgnoresTheBuild(Faulty):
    """Takes plans of another kernel build for its own."""

    breaks = ("NDOC-5",)
    controls = ("NDOC-4",)
    changes = (
        reading(
            lambda root, expected: (
                type(root["_metadata"]["build_id"]) is str
                and root["_metadata"].update(build_id=expected["build_id"])
            )
        ),
    )


class UnknownEqualsUnknown(Faulty):
    """Takes two failed probes for one environment."""

    breaks = ("NDOC-6",)
    controls = ("NDOC-5",)
    changes = ((environment, "INDETERMINATE", frozenset()),)


class AnyBucketGoes(Faulty):
    """Installs plans under M that no lookup will ever round to."""

    breaks = ("NDOC-7",)
    controls = ("NDOC-3",)
    changes = ((native_document, "HYBRID_BUCKETS", Everything()),)


def _whole_floats(root, _):
    for owner in (root["_metadata"], *root["plans"]):
        for name, value in owner.items():
            if isinstance(value, float) and value.is_integer():
                owner[name] = int(value)


class FourPointZeroIsFour(Faulty):
    """Takes a float without a fraction for an integer."""

    breaks = ("NDOC-8",)
    controls = ("NDOC-3",)
    changes = (reading(_whole_floats),)


def _wrap(root, _):
    for owner in (root["_metadata"], *root["plans"]):
        for name, value in owner.items():
            if type(value) is int:
                owner[name] = (value + 2**31) % 2**32 - 2**31


class WrapsIntegers(Faulty):
    """Keeps the low 32 bits of an integer, as a C++ conversion does."""

    breaks = ("NDOC-8",)
    controls = ("NDOC-3",)
    changes = (reading(_wrap),)


class LastMemberWins(Faulty):
    """Keeps the last of two equal members, as the usual JSON parser does."""

    breaks = ("NDOC-9", "FIMP-8")
    controls = ("NDOC-3",)
    served = True
    changes = ((strict_json, "_distinct", dict), (strict_json, "_PLAIN", json.JSONDecoder()))


def _last_plans(root, _):
    by_key = {(p["m_bucket"], p["n"], p["k"]): p for p in root["plans"]}
    root["plans"] = list(by_key.values())


class LastPlanWins(Faulty):
    """Keeps the last of two plans for one shape."""

    breaks = ("NDOC-9",)
    controls = ("NDOC-3",)
    changes = (reading(_last_plans),)


class AnyRunner(Faulty):
    """Takes every runner for the one that it knows."""

    breaks = ("NDOC-10",)
    controls = ("NDOC-11",)
    changes = (
        reading(
            lambda root, _: [
                plan.update(runner="CutlassFp4GemmRunner")
                for plan in root["plans"]
                if isinstance(plan.get("runner"), str)
            ]
        ),
    )


def _believe_metadata(root, expected):
    for plan in root["plans"]:
        for name in ("architecture", "device_ordinal", "scale_layout"):
            if type(plan.get(name)) is type(root["_metadata"][name]):
                plan[name] = root["_metadata"][name]


class BelievesTheMetadata(Faulty):
    """Does not look whether a plan is for the device that the metadata name."""

    breaks = ("NDOC-11",)
    controls = ("NDOC-10",)
    changes = (reading(_believe_metadata),)


class StopsAtTheBrace(Faulty):
    """Reads the first document of a file, whatever comes after it."""

    breaks = ("NDOC-12",)
    controls = ("NDOC-3",)
    changes = (
        (
            strict_json,
            "parse",
            lambda data: parse(data[: data.rfind(b"}") + 1] if data.count(b"}") > 1 else data),
        ),
    )


class NotANumberIsANumber(Faulty):
    """Takes NaN and Infinity, as the usual JSON parser does."""

    breaks = ("NDOC-12",)
    controls = ("NDOC-3",)
    changes = ((strict_json, "_PLAIN", json.JSONDecoder(object_pairs_hook=strict_json._distinct)),)


class FollowsNoLinks(Faulty):
    """Refuses a file that it reaches through a symbolic link."""

    breaks = ("NDOC-13",)
    controls = ("NDOC-3",)
    served = True

    def read_native(self, path, expected, session=None):
        if os.path.islink(path):
            raise Rejected("not-regular", "", "this is a link; name the file itself.")
        return super().read_native(path, expected, session)


class InstallsUpToTheFault(Faulty):
    """Installs the plans before the first bad one, and then rejects the document."""

    breaks = ("NDOC-15",)
    controls = ("NDOC-3",)

    def read_native(self, path, expected, session=None):
        try:
            return super().read_native(path, expected, session)
        except Rejected:
            if session is not None:
                self._install_good_ones(path, expected, session)
            raise

    def _install_good_ones(self, path, expected, session):
        try:
            root = json.loads(files.read_regular(path))
        except ValueError:
            return
        for plan in root["plans"]:
            try:
                good = validate(root | {"plans": [plan]}, NativeMetadata.from_json(expected))
            except Rejected:
                return
            self._session(session)._map.install(good.plans, "native")


def _stars(root, expected):
    for name, value in root["_metadata"].items():
        if value == "*":
            root["_metadata"][name] = expected[name]


class StarIsAWildcard(Faulty):
    """Reads the wildcard of the other dialect into native documents."""

    breaks = ("NDOC-16",)
    controls = ("NDOC-5",)
    changes = (reading(_stars),)


class MovesBadFilesAside(Faulty):
    """Renames a file that it cannot read, while it reads."""

    breaks = ("NDOC-17",)
    controls = ("NDOC-3",)

    def read_native(self, path, expected, session=None):
        try:
            return super().read_native(path, expected, session)
        except Rejected:
            if os.path.isfile(path):
                os.replace(path, path + ".bad")
            raise


class StampsWhatItReads(Faulty):
    """Marks a file as used, by touching it."""

    breaks = ("NDOC-17",)
    controls = ("NDOC-2",)

    def read_native(self, path, expected, session=None):
        answer = super().read_native(path, expected, session)
        os.utime(path)
        return answer
