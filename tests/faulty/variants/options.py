"""Wrong about options and places: PATH."""

import hashlib
import os
from dataclasses import replace
from pathlib import Path

from nvfp4_reference import options
from nvfp4_reference.environment import NativeMetadata
from nvfp4_reference.native_document import Document

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


def _run_together(self):
    values = "".join(map(str, self.as_json().values()))
    return hashlib.sha256(values.encode()).hexdigest()[:32]


class DirectoryByValuesAlone(Faulty):
    """Digests the metadata's values one behind the other, with nothing between them."""

    breaks = ("PATH-3",)
    controls = ("PATH-2",)
    changes = ((NativeMetadata, "directory", property(_run_together)),)


class DirectoryByDeviceName(Faulty):
    """Names the directory by a cleaned-up device name, so two devices share one."""

    breaks = ("PATH-2", "PATH-3")
    controls = ("PATH-4",)
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


class MakesTheDirectoryWhenOpened(Faulty):
    """Makes the cache directory when a session opens, to be prepared."""

    breaks = ("PATH-8",)
    controls = ("PATH-4",)

    def open(self, environment):
        found = super().open(environment)
        path = self.stats(found["session"])["path"]
        if path is not None:
            os.makedirs(os.path.dirname(path), exist_ok=True)
        return found


class CreatesTheImport(Faulty):
    """Makes the import where there is none, to be found at the next start."""

    breaks = ("PATH-5",)
    controls = ("PATH-4",)

    def complete(self, session):
        done = super().complete(session)
        path = self._session(session).options.import_path
        if path is not None and not os.path.exists(path):
            Path(path).write_text("{}")
        return done


class SavesIntoTheImport(Faulty):
    """Saves what it has tuned into the import as well, where it found the other plans."""

    breaks = ("PATH-5",)
    controls = ("PATH-4",)

    def complete(self, session):
        done = super().complete(session)
        target = self._session(session)
        if target.options.import_path is not None and os.path.exists(target.options.import_path):
            text = Document(target.options.metadata, target.plans()).render()
            Path(target.options.import_path).write_text(text)
        return done


class CaseDoesNotMatter(Faulty):
    """Takes True and ON for values of a switch."""

    breaks = ("PATH-10",)
    controls = ("PATH-4",)

    def resolve(self, environment, metadata=None):
        lower = {
            name: value.lower() if value.isalpha() else value for name, value in environment.items()
        }
        return super().resolve(lower, metadata)


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
