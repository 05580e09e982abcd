"""Wrong about frozen mode: FROZ."""

import os
from dataclasses import replace
from pathlib import Path

from nvfp4_reference import publication
from nvfp4_reference.errors import Rejected
from nvfp4_reference.native_document import Document, read_native
from nvfp4_reference.session import Session

from faulty.variant import Faulty

update = publication.update


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

    def plan(self, session, m, n, k, *, capturing=False, timings=None):
        target = self._session(session)
        target._map.ready.clear()
        plans = read_native(target.options.native_path, target.options.metadata).plans
        target._map.install(plans, "native")
        return super().plan(session, m, n, k, capturing=capturing, timings=timings)


class FrozenLeavesANote(Faulty):
    """Notes beside the file that a frozen start failed."""

    breaks = ("FROZ-4",)
    controls = ("FROZ-1",)

    def warm_up(self, session, max_tokens, shapes, timings=None):
        try:
            return super().warm_up(session, max_tokens, shapes, timings)
        except Rejected as rejected:
            target = self._session(session)
            if target.options.frozen and os.path.isdir(os.path.dirname(target.options.native_path)):
                Path(target.options.native_path + ".failed").write_text(str(rejected))
            raise


class FrozenThreadsTune(Faulty):
    """Forbids tuning to single requests, and forgets those of many threads."""

    breaks = ("FROZ-5",)
    controls = ("FROZ-1",)

    def plan_many(self, session, requests, load=None, timings=None):
        target = self._session(session)
        target.options = replace(target.options, frozen=False)
        return super().plan_many(session, requests, load, timings)
