"""Wrong about warm-up, frozen mode, diagnostics and fresh processes: WARM, FROZ, DIAG, FRSH."""

import hashlib
import logging
import os
from dataclasses import replace

from nvfp4_reference import session, warm_up
from nvfp4_reference.errors import Rejected
from nvfp4_reference.native_document import Document, read_native
from nvfp4_reference.session import Session

from faulty.variant import Faulty

load, saved, update = Session._load, Session._saved, session.publication.update


class TunesBeforeItLoads(Faulty):
    """Loads the file when the pass is over, and what it tuned stays."""

    breaks = ("WARM-1", "WARM-2")
    controls = ("WARM-3",)
    changes = ((Session, "_load", lambda self: 0),)
    served = True

    def warm_up(self, session, max_tokens, shapes, timings=None):
        done = super().warm_up(session, max_tokens, shapes, timings)
        return done | {"loaded": load(self._session(session))}


class WarmsPowersOnly(Faulty):
    """Warms up the powers of two and leaves the other profiles to the first request."""

    breaks = ("WARM-2",)
    controls = ("WARM-1",)
    changes = (
        (
            warm_up,
            "profiles",
            lambda maximum: [1 << power for power in range(maximum.bit_length())],
        ),
    )


class SavesBeforeCompletion(Faulty):
    """Saves as soon as the pass is over, in case nobody completes."""

    breaks = ("WARM-3", "WARM-4")
    controls = ("WARM-1",)
    served = True

    def warm_up(self, session, max_tokens, shapes, timings=None):
        done = super().warm_up(session, max_tokens, shapes, timings)
        self._session(session)._saved()
        return done


class SavesWhenAbandoned(Faulty):
    """Saves what there is when a warm-up is given up."""

    breaks = ("WARM-4",)
    controls = ("WARM-3",)

    def abandon(self, session):
        super().abandon(session)
        self._session(session)._saved()


class NestsWarmUps(Faulty):
    """Begins anew where a warm-up is open, without a word."""

    breaks = ("WARM-5",)
    controls = ("WARM-1",)

    def warm_up(self, session, max_tokens, shapes, timings=None):
        self.abandon(session)
        return super().warm_up(session, max_tokens, shapes, timings)


class CompletesAnyTime(Faulty):
    """Takes a completion that nothing preceded for done."""

    breaks = ("WARM-5",)
    controls = ("WARM-3",)

    def complete(self, session):
        try:
            return super().complete(session)
        except Rejected:
            return {"saved": 0, "failure": None}


class BadFileStopsWarmUp(Faulty):
    """Does not start where the file cannot be read."""

    breaks = ("WARM-6", "DIAG-3")
    controls = ("WARM-1",)

    def warm_up(self, session, max_tokens, shapes, timings=None):
        done = super().warm_up(session, max_tokens, shapes, timings)
        for one in done["rejected"]:
            raise Rejected(**one)
        return done


class SwallowsRejections(Faulty):
    """Tunes everything again where the file cannot be read, and tells nobody why."""

    breaks = ("WARM-6", "DIAG-3")
    controls = ("WARM-1",)

    def warm_up(self, session, max_tokens, shapes, timings=None):
        return super().warm_up(session, max_tokens, shapes, timings) | {"rejected": []}


class FailedSaveEndsService(Faulty):
    """Ends the session where its plans cannot be saved."""

    breaks = ("WARM-7",)
    controls = ("WARM-3",)

    def complete(self, session):
        done = super().complete(session)
        if done["failure"]:
            self.close(session)
        return done


class FailedSaveIsForgotten(Faulty):
    """Says nothing of a save that failed."""

    breaks = ("WARM-7", "MERG-5")
    controls = ("WARM-3",)

    def complete(self, session):
        return super().complete(session) | {"failure": None}


class NothingIsLazy(Faulty):
    """Counts a tuning in the middle of serving like any other."""

    breaks = ("WARM-8", "LOOK-6", "DIAG-1")
    controls = ("LOOK-4",)

    def complete(self, session):
        done = super().complete(session)
        self._session(session)._completed = self._session(session)._past_warm_up = False
        return done


class FrozenSaves(Faulty):
    """Writes the file in frozen mode too, since nothing in it has changed."""

    breaks = ("FROZ-1", "FROZ-4")
    controls = ("FROZ-5",)
    served = True

    def complete(self, session):
        done = super().complete(session)
        target = self._session(session)
        if target.options.frozen:
            update(target.options.native_path, Document(target.options.metadata, target.plans()))
            done["saved"] = len(target.plans())
        return done


class FrozenAcceptsHoles(Faulty):
    """Starts frozen with a map that lacks plans, or without a file."""

    breaks = ("FROZ-2", "FROZ-3")
    controls = ("FROZ-1",)
    changes = ((Session, "_require_frozen_map", lambda self, missing: missing.clear()),)


class FrozenFillsHoles(Faulty):
    """Tunes what a frozen map lacks, as long as it warms up."""

    breaks = ("FROZ-2", "FROZ-3")
    controls = ("FROZ-5",)

    def warm_up(self, session, max_tokens, shapes, timings=None):
        target = self._session(session)
        real = target.options
        target.options = replace(real, frozen=False)
        try:
            return super().warm_up(session, max_tokens, shapes, timings)
        finally:
            target.options = real


class FrozenMissWithoutShape(Faulty):
    """Says that a plan is missing, and not which."""

    breaks = ("FROZ-2",)
    controls = ("FROZ-1",)

    def warm_up(self, session, max_tokens, shapes, timings=None):
        try:
            return super().warm_up(session, max_tokens, shapes, timings)
        except Rejected as rejected:
            raise Rejected(rejected.code, "", "a plan is missing and the map is frozen.") from None


class FrozenNeedsTheNativeFile(Faulty):
    """Refuses to start without a native file, though an import has every plan."""

    breaks = ("FROZ-3",)
    controls = ("FROZ-1",)

    def warm_up(self, session, max_tokens, shapes, timings=None):
        resolved = self._session(session).options
        if resolved.frozen:
            read_native(resolved.native_path, resolved.metadata)
        return super().warm_up(session, max_tokens, shapes, timings)


class FrozenFileIsStamped(Faulty):
    """Marks a frozen file as used, by touching it."""

    breaks = ("FROZ-4",)
    controls = ("FROZ-1",)

    def warm_up(self, session, max_tokens, shapes, timings=None):
        done = super().warm_up(session, max_tokens, shapes, timings)
        if self._session(session).options.frozen:
            os.utime(self._session(session).options.native_path)
        return done


class FrozenTunes(Faulty):
    """Thaws when the warm-up is complete, and tunes what is missing."""

    breaks = ("FROZ-5",)
    controls = ("FROZ-1",)
    served = True

    def complete(self, session):
        done = super().complete(session)
        target = self._session(session)
        target.options = replace(target.options, frozen=False)
        return done


class RereadsTheFile(Faulty):
    """Looks into the file again at each request."""

    breaks = ("FROZ-6",)
    controls = ("FROZ-1",)

    def plan(self, session, m, n, k, capturing=False, timings=None):
        target = self._session(session)
        target._map.ready.clear()
        plans = read_native(target.options.native_path, target.options.metadata).plans
        target._map.install(plans, "native")
        return super().plan(session, m, n, k, capturing=capturing, timings=timings)


class ModeIsAlwaysReadWrite(Faulty):
    """Reports the mode that it was made for and not the one that it is in."""

    breaks = ("DIAG-1",)
    controls = ("DIAG-2",)

    def stats(self, session):
        return super().stats(session) | {"mode": "read-write"}


class CountsLoadedAsTuned(Faulty):
    """Counts every plan that is ready as one that it tuned."""

    breaks = ("DIAG-1", "FROZ-1")
    controls = ("DIAG-2",)
    served = True

    def stats(self, session):
        found = super().stats(session)
        return found | {"tuned": found["tuned"] + found["loaded"]}


class FingerprintWithPath(Faulty):
    """Mixes the file's place into the fingerprint of the environment."""

    breaks = ("DIAG-2",)
    controls = ("DIAG-1",)
    served = True

    def fingerprint(self, session):
        found = super().fingerprint(session) + str(self._session(session).options.native_path)
        return hashlib.sha256(found.encode()).hexdigest()[:16]


class FingerprintOfTheDevice(Faulty):
    """Takes the device for the whole environment."""

    breaks = ("DIAG-2",)
    controls = ("DIAG-1",)

    def fingerprint(self, session):
        gpu = self._session(session).options.metadata.gpu
        return hashlib.sha256(gpu.encode()).hexdigest()[:16]


class RejectionsWithoutMember(Faulty):
    """Reports that a file was rejected, and not for what in it."""

    breaks = ("DIAG-3",)
    controls = ("WARM-6",)
    served = True

    def warm_up(self, session, max_tokens, shapes, timings=None):
        done = super().warm_up(session, max_tokens, shapes, timings)
        return done | {"rejected": [one | {"member": ""} for one in done["rejected"]]}


class LogsThePath(Faulty):
    """Logs the file of each plan that it serves."""

    breaks = ("DIAG-4",)
    controls = ("DIAG-1",)
    served = True

    def plan(self, session, m, n, k, capturing=False, timings=None):
        path = self._session(session).options.native_path
        logging.getLogger("nvfp4_reference").warning("a plan from %s", path)
        return super().plan(session, m, n, k, capturing=capturing, timings=timings)


class PrintsTheEnvironment(Faulty):
    """Prints the variables of the session with each request, for support."""

    breaks = ("DIAG-4",)
    controls = ("DIAG-1",)

    def __init__(self):
        super().__init__()
        self.environments = {}

    def open(self, environment):
        opened = super().open(environment)
        self.environments[opened["session"]] = environment
        return opened

    def plan(self, session, m, n, k, capturing=False, timings=None):
        print(self.environments.get(session))
        return super().plan(session, m, n, k, capturing=capturing, timings=timings)


class VariesByProcess(Faulty):
    """Serves each process a tactic of its own."""

    breaks = ("FRSH-1", "FRSH-2")
    controls = ("FROZ-5",)
    served = True

    def plan(self, session, m, n, k, capturing=False, timings=None):
        found = super().plan(session, m, n, k, capturing=capturing, timings=timings)
        return found | {"tactic": (found["tactic"] + os.getpid()) % 32}


class ArmsDiffer(Faulty):
    """Serves another tactic where scales are written in two steps."""

    breaks = ("FRSH-2",)
    controls = ("FROZ-1",)
    served = True

    def plan(self, session, m, n, k, capturing=False, timings=None):
        found = super().plan(session, m, n, k, capturing=capturing, timings=timings)
        shift = not self._session(session).options.direct_scales
        return found | {"tactic": (found["tactic"] + shift) % 32}


def _all_but_one(path, document, **named):
    plans = dict(list(document.plans.items())[:-1])
    return update(path, Document(document.metadata, plans), **named)


class ForgetsTheLastPlan(Faulty):
    """Saves all plans but the last one."""

    breaks = ("FRSH-3", "WARM-3")
    controls = ("WARM-1",)
    served = True
    changes = ((session.publication, "update", _all_but_one),)


class DelaysTheSave(Faulty):
    """Reports the plans as saved, and writes them when the session is closed."""

    breaks = ("FRSH-3", "WARM-3", "WARM-7")
    controls = ("WARM-1",)
    served = True
    changes = ((Session, "_saved", lambda self: session.Completion(len(self.plans()))),)

    def close(self, session):
        saved(self._session(session))
        return super().close(session)
