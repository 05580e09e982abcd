"""Wrong about diagnostics and fresh processes: DIAG, FRSH."""

import hashlib
import logging
import os

from nvfp4_reference import publication, session
from nvfp4_reference.native_document import Document
from nvfp4_reference.session import Session

from faulty.variant import Faulty

saved, update = Session._saved, publication.update


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


class CountsOwnPlansAsSaved(Faulty):
    """Counts its own plans as saved, and not those that the file holds."""

    breaks = ("DIAG-1",)
    controls = ("DIAG-2",)

    def complete(self, session):
        done = super().complete(session)
        if done["saved"]:
            done["saved"] = len(self.plans(session))
            self._session(session)._counters.saved(done["saved"])
        return done


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


class HidesRejectedImports(Faulty):
    """Reports a native file that it cannot use, and says nothing of an import."""

    breaks = ("DIAG-3",)
    controls = ("WARM-6",)

    def warm_up(self, session, max_tokens, shapes, timings=None):
        done = super().warm_up(session, max_tokens, shapes, timings)
        sources = self._session(session)._sources or ()
        hidden = [
            found.rejected.message
            for found in sources
            if found.rejected and found.source == "import"
        ]
        done["rejected"] = [one for one in done["rejected"] if one["message"] not in hidden]
        return done


class LogsThePath(Faulty):
    """Logs the file of each plan that it serves."""

    breaks = ("DIAG-4",)
    controls = ("DIAG-1",)
    served = True

    def plan(self, session, m, n, k, *, capturing=False, timings=None):
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

    def plan(self, session, m, n, k, *, capturing=False, timings=None):
        print(self.environments.get(session))
        return super().plan(session, m, n, k, capturing=capturing, timings=timings)


class VariesByProcess(Faulty):
    """Serves each process a tactic of its own."""

    breaks = ("FRSH-1", "FRSH-2")
    controls = ("FROZ-5",)
    served = True

    def plan(self, session, m, n, k, *, capturing=False, timings=None):
        found = super().plan(session, m, n, k, capturing=capturing, timings=timings)
        return found | {"tactic": (found["tactic"] + os.getpid()) % 32}


class ArmsDiffer(Faulty):
    """Serves another tactic where scales are written in two steps."""

    breaks = ("FRSH-2",)
    controls = ("FROZ-1",)
    served = True

    def plan(self, session, m, n, k, *, capturing=False, timings=None):
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
    changes = ((publication, "update", _all_but_one),)


class DelaysTheSave(Faulty):
    """Reports the plans as saved, and writes them when the session is closed."""

    breaks = ("FRSH-3", "WARM-3", "WARM-7")
    controls = ("WARM-1",)
    served = True
    changes = ((Session, "_saved", lambda self: session.Completion(len(self.plans()))),)

    def close(self, session):
        saved(self._session(session))
        return super().close(session)
