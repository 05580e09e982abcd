"""A strict implementation that claims only a part of what there is to claim."""

from nvfp4_reference.adapter import make


class Reader:
    """The reference as a mere reader of native documents: nothing faulty, just less."""

    def __init__(self):
        self._whole = make()
        for operation in ("bucket", "profiles", "tactic_digest", "read_native", "serialize"):
            setattr(self, operation, getattr(self._whole, operation))

    def describe(self):
        claims = ["buckets", "native-document", "tactics"]
        return self._whole.describe() | {"name": "reader", "capabilities": claims}
