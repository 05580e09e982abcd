"""Wrong about options, places, buckets and tactics: PATH, BUCK, TACT."""

import os
from dataclasses import replace
from unittest import mock

from nvfp4_reference import native_document, options
from nvfp4_reference.environment import NativeMetadata

from faulty.variant import Faulty

MANY_INTEGERS = range(-1000, 1001)


class DirectoryByHash(Faulty):
    """Names the directory by `hash()`, which is another number in every process."""

    breaks = ("PATH-1",)
    controls = ("PATH-8",)
    served = True
    changes = (
        (NativeMetadata, "directory", property(lambda self: f"h{hash(self.fingerprint) % 2**40}")),
    )


class DelayLeftOutOfDirectory(Faulty):
    """Keeps plans that were timed under different delays in one directory."""

    breaks = ("PATH-2",)
    controls = ("PATH-4",)
    changes = (
        (
            NativeMetadata,
            "directory",
            property(
                lambda self, real=NativeMetadata.directory: real.fget(
                    replace(self, delay_microseconds=5000)
                )
            ),
        ),
    )


class DirectoryByDeviceName(Faulty):
    """Names the directory by a cleaned-up device name, so two devices share one."""

    breaks = ("PATH-2", "PATH-3")
    controls = ("PATH-4",)
    served = True
    changes = (
        (NativeMetadata, "directory", property(lambda self: self.gpu.replace(" ", "_")[:64])),
    )


class ExpandsPath(Faulty):
    """Expands and tidies the path that the user gave."""

    breaks = ("PATH-4",)
    controls = ("PATH-8",)

    def resolve(self, environment, metadata=None):
        found = super().resolve(environment, metadata)
        if found["native_path"] is not None:
            found["native_path"] = os.path.normpath(os.path.expanduser(found["native_path"]))
        return found


class StampsTheImport(Faulty):
    """Marks an imported file as used, by touching it."""

    breaks = ("PATH-5", "FIMP-1", "FIMP-10")
    controls = ("PATH-4",)

    def read_flashinfer(self, path, expected, session=None):
        try:
            return super().read_flashinfer(path, expected, session)
        finally:
            os.utime(path)


class FallsBackToTmp(Faulty):
    """Without a cache root, takes a directory that everybody can write to."""

    breaks = ("PATH-6",)
    controls = ("PATH-4",)

    def resolve(self, environment, metadata=None):
        found = super().resolve(environment, metadata)
        if found["warnings"]:
            found |= {"native_path": "/tmp/autotune_configs.json", "warnings": []}
        return found


class EmptyMeansZero(Faulty):
    """Takes a delay that is set to nothing for a delay of 0."""

    breaks = ("PATH-7",)
    controls = ("PATH-4",)

    def resolve(self, environment, metadata=None):
        if environment.get(options.DELAY) == "":
            environment = environment | {options.DELAY: "0"}
        return super().resolve(environment, metadata)


class MakesTheDirectory(Faulty):
    """Makes the cache directory as soon as its place is known."""

    breaks = ("PATH-8",)
    controls = ("PATH-4",)

    def resolve(self, environment, metadata=None):
        found = super().resolve(environment, metadata)
        if found["native_path"] and found["native_path"].startswith(environment.get("HOME", "?")):
            os.makedirs(os.path.dirname(found["native_path"]), exist_ok=True)
        return found


class ValidatesWhatIsOff(Faulty):
    """Refuses to start over variables that only matter to a cache that is switched off."""

    breaks = ("PATH-9",)
    controls = ("PATH-4",)

    def resolve(self, environment, metadata=None):
        off = environment.get(options.PERSISTENT_CACHE) in ("0", "false", "off")
        super().resolve(environment | ({options.PERSISTENT_CACHE: "1"} if off else {}), metadata)
        return super().resolve(environment, metadata)


class SwitchedOffStillLoads(Faulty):
    """Says that persistence is off, and loads and saves all the same."""

    breaks = ("PATH-9",)
    controls = ("PATH-4",)

    def open(self, environment):
        return super().open({k: v for k, v in environment.items() if k != options.PERSISTENT_CACHE})


class TrimsValues(Faulty):
    """Takes a number with blanks and a sign around it for the number."""

    breaks = ("PATH-10",)
    controls = ("PATH-4",)

    def resolve(self, environment, metadata=None):
        value = environment.get(options.DELAY, "")
        if value.strip(" +").isdigit():
            environment = environment | {options.DELAY: value.strip(" +")}
        return super().resolve(environment, metadata)


class ClampsTheDelay(Faulty):
    """Cuts a delay that is too long to the longest one, without a word."""

    breaks = ("PATH-10",)
    controls = ("PATH-4",)

    def resolve(self, environment, metadata=None):
        value = environment.get(options.DELAY, "")
        if value.isascii() and value.isdigit() and len(value) > 6:
            environment = environment | {options.DELAY: "1000000"}
        return super().resolve(environment, metadata)


class PretendsToHaveSaved(Faulty):
    """Reports a save that failed as done."""

    breaks = ("PATH-11", "PUBL-3")
    controls = ("PUBL-4",)
    served = True

    def write_native(self, path, document):
        try:
            return super().write_native(path, document)
        except Exception as error:
            if getattr(error, "code", "") != "publication":
                raise
            return {"plans": len(document["plans"])}


class BypassRemembers(Faulty):
    """Takes the bypass for a cache in memory: the first plan of a shape stays."""

    breaks = ("PATH-12",)
    controls = ("PATH-4",)

    def open(self, environment):
        bypassed = environment.get(options.PLAN_CACHE) == "0"
        if bypassed:
            environment = {k: v for k, v in environment.items() if k != options.PLAN_CACHE}
            environment[options.PERSISTENT_CACHE] = "0"
        return super().open(environment)


class PowersOfTwoOnly(Faulty):
    """Rounds every M up to a power of two."""

    breaks = ("BUCK-1",)
    controls = ("BUCK-2",)

    def bucket(self, m):
        return 1 << max(m - 1, 0).bit_length()


class NegativesAreBuckets(Faulty):
    """Gives a negative M, which a caller computed wrongly, a bucket of its own."""

    breaks = ("BUCK-1",)
    controls = ("BUCK-2",)

    def bucket(self, m):
        return m if m < 0 else super().bucket(m)


class MaximumLeftOut(Faulty):
    """Tunes the buckets below the maximum and not the maximum itself."""

    breaks = ("BUCK-2", "BUCK-3")
    controls = ("BUCK-1",)
    served = True

    def profiles(self, maximum):
        return super().profiles(maximum)[:-1] or [1]


class LookupRoundsDown(Faulty):
    """Profiles by buckets, and looks up by the next multiple of 128."""

    breaks = ("BUCK-1", "BUCK-3")
    controls = ("BUCK-2",)

    def bucket(self, m):
        return super().bucket(m) if m <= 256 else -(-m // 128) * 128


class Renumbers(Faulty):
    """Lists the ordinary variants before those with swapped operands."""

    breaks = ("TACT-1",)
    controls = ("TACT-2",)
    served = True

    def describe(self):
        about = super().describe()
        about["tactics"] = [about["tactics"][index ^ 1] | {"id": index} for index in range(32)]
        return about


class DigestWithoutClusters(Faulty):
    """Leaves the cluster out of the digest, since it never changed so far."""

    breaks = ("TACT-1",)
    controls = ("TACT-2",)

    def tactic_digest(self, tactics):
        return super().tactic_digest([tactic | {"cluster": [1, 1, 1]} for tactic in tactics])


class TakesAnyTactic(Faulty):
    """Installs whatever tactic id a native document has."""

    breaks = ("TACT-2", "NDOC-10")
    controls = ("TACT-1", "NDOC-3")
    changes = ((native_document, "TACTIC_IDS", MANY_INTEGERS),)


class PublishesAnyTactic(Faulty):
    """Checks tactic ids where it reads, and not where it merges and writes."""

    breaks = ("TACT-2",)
    controls = ("TACT-1",)

    def merge(self, prior, current):
        with mock.patch.object(native_document, "TACTIC_IDS", MANY_INTEGERS):
            return super().merge(prior, current)

    def write_native(self, path, document):
        with mock.patch.object(native_document, "TACTIC_IDS", MANY_INTEGERS):
            return super().write_native(path, document)
