"""A strict implementation that claims only a part of what there is to claim."""

import random

from nvfp4_reference.adapter import Adapter, make


class Reader:
    """The reference as a mere reader of native documents: nothing faulty, just less."""

    def __init__(self):
        self._whole = make()
        for operation in ("bucket", "profiles", "tactic_digest", "read_native", "serialize"):
            setattr(self, operation, getattr(self._whole, operation))

    def describe(self):
        claims = ["buckets", "native-document", "tactics"]
        return self._whole.describe() | {"name": "reader", "capabilities": claims}


class Quick(Adapter):
    """The reference with a random clock in place of a measured one: nothing takes time."""

    def plan(self, session, m, n, k, *, capturing=False, timings=None):
        clock = {str(tactic): random.SystemRandom().uniform(1, 2) for tactic in range(32)}
        return super().plan(session, m, n, k, capturing=capturing, timings=timings or clock)
