"""The usual reader: `json.loads`, `ast.literal_eval`, and plans installed as they come."""

import ast
import json
from pathlib import Path

from nvfp4_reference.adapter import make
from nvfp4_reference.errors import Rejected


def native_rows(data):
    for plan in data["plans"]:
        yield int(plan["m_bucket"]), int(plan["n"]), int(plan["k"]), int(plan["tactic_id"])


def flashinfer_rows(data):
    for key, value in data.items():
        if "fp4_gemm" in key:
            shapes = ast.literal_eval(key)[2]
            yield int(shapes[0][0]), int(shapes[1][1]), 2 * int(shapes[0][1]), int(value[1])


class Lenient:
    """What many caches do in twenty lines; each leniency breaks contracts of its own."""

    def __init__(self):
        self.ready, self.rejected = {None: {}}, {}

    def describe(self):
        claims = ["native-document", "flashinfer-import", "session"]
        return make().describe() | {"name": "lenient", "capabilities": claims}

    def read(self, path, expected, session, rows):
        ready = self.ready[session] if session else {}
        try:
            data = json.loads(Path(path).read_bytes())
            assert data["_metadata"] == expected, "another environment"
            for m, n, k, tactic in rows(data):
                ready[m, n, k] = tactic
        except Exception as error:
            self.rejected[session] = self.rejected.get(session, 0) + 1
            raise Rejected("syntax", "", f"cannot be read: {error!r}") from error
        return {"plans": as_rows(ready), "ignored": 0}

    def read_native(self, path, expected, session):
        return self.read(path, expected, session, native_rows)

    def read_flashinfer(self, path, expected, session):
        return self.read(path, expected, session, flashinfer_rows)

    def serialize(self, document):
        plans = sorted(document["plans"], key=lambda p: (p["m_bucket"], p["n"], p["k"]))
        return json.dumps(document | {"plans": plans}, indent=2, sort_keys=True) + "\n"

    def open(self, environment):
        self.ready[name := f"s{len(self.ready)}"] = {}
        return {"session": name}

    def plans(self, session):
        return as_rows(self.ready[session])

    def stats(self, session):
        counts = dict.fromkeys(("tuned", "saved", "lazy"), 0)
        loaded = len(self.ready[session])
        return counts | {"loaded": loaded, "rejected": self.rejected.get(session, 0)}

    def close(self, session):
        self.ready[session] = {}


def as_rows(ready):
    return [dict(zip("mnk", key, strict=True), tactic=t) for key, t in sorted(ready.items())]
