"""Wrong about warm-up: WARM."""

import os
from unittest import mock

from nvfp4_reference import warm_up
from nvfp4_reference.errors import Rejected
from nvfp4_reference.session import Completion, Session

from faulty.variant import Faulty

load = Session._load


class TunesBeforeItLoads(Faulty):
    """Loads the file when the pass is over, and what it tuned stays."""

    breaks = ("WARM-1", "WARM-2")
    controls = ("WARM-3",)
    changes = ((Session, "_load", lambda self: 0),)

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


class SavesWhatItGot(Faulty):
    """Saves the plans that it has where a warm-up fails half-way."""

    breaks = ("WARM-4",)
    controls = ("WARM-3",)

    def warm_up(self, session, max_tokens, shapes, timings=None):
        try:
            return super().warm_up(session, max_tokens, shapes, timings)
        except Rejected:
            if self.plans(session):
                self._session(session)._saved()
            raise


class CompletesWhatWasAbandoned(Faulty):
    """Saves a warm-up that was given up, if it is completed after all."""

    breaks = ("WARM-5",)
    controls = ("WARM-4",)

    def abandon(self, session):
        self._session(session).statistics()


class NestsWarmUps(Faulty):
    """Begins anew where a warm-up is open, without a word."""

    breaks = ("WARM-5",)
    controls = ("WARM-1",)

    def warm_up(self, session, max_tokens, shapes, timings=None):
        super().abandon(session)
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


class NeedsTheDirectory(Faulty):
    """Saves where the cache directory exists, and nobody ever makes it."""

    breaks = ("WARM-3",)
    controls = ("WARM-1",)

    def complete(self, session):
        path = self._session(session).options.native_path
        if path is None or os.path.isdir(os.path.dirname(path)):
            return super().complete(session)
        with mock.patch.object(Session, "_saved", return_value=Completion(0, "no directory.")):
            return super().complete(session)
