"""An adapter for pytest-nvfp4: your plan cache behind the operations of the suite.

Nothing is claimed yet. Write the operations of one capability, add its name to CLAIMS, and run

    nvfp4-conformance smoke nvfp4_adapter:Adapter      # does the adapter work?
    nvfp4-conformance run nvfp4_adapter:Adapter -n 2   # does the cache keep its contracts?

All arguments and answers are plain data, as `interface.schema.json` of pytest-nvfp4 describes them.
"""

from typing import Any

CLAIMS: list[str] = []  # "flashinfer-import", say

METADATA: dict[str, dict[str, Any]] = {
    # "native_metadata": {...}, for native-document: the 18 fields of the running environment
    # "import_metadata": {...}, for flashinfer-import: the 6 fields of the running environment
}


class Rejected(Exception):
    """How an operation says no to its input; any other exception means that the adapter broke.

    `code` is one of the specification, such as "syntax" or "unknown-tactic"; `member` is where the
    fault lies, such as "plans[3].tactic_id", or "" for the document as a whole.
    """

    def __init__(self, code: str, member: str, message: str):
        super().__init__(message)
        self.code, self.member = code, member


class Adapter:
    """One method for each operation; the comments name the capability that needs it."""

    def describe(self) -> dict[str, Any]:
        about = {"protocol": 1, "name": "my-cache", "version": "0", "language": "Python"}
        return {**about, "homepage": "", "capabilities": CLAIMS, **METADATA}

    # flashinfer-import: {"plans": [{"m", "n", "k", "tactic"}, ...], "ignored": 0}, or Rejected

    def read_flashinfer(self, path: str, expected: dict[str, str], session: str | None) -> Any:
        raise NotImplementedError

    # native-document: the same answer, and a document's text

    def read_native(self, path: str, expected: dict[str, Any], session: str | None) -> Any:
        raise NotImplementedError

    def serialize(self, document: dict[str, Any]) -> Any:
        raise NotImplementedError

    # buckets: an integer; a list of integers

    def bucket(self, m: int) -> Any:
        raise NotImplementedError

    def profiles(self, maximum: int) -> Any:
        raise NotImplementedError

    # tactics: 16 hex digits (describe then also has "tactics" and "tactic_digest")

    def tactic_digest(self, tactics: list[dict[str, Any]]) -> Any:
        raise NotImplementedError

    # merge: a document

    def merge(self, prior: dict[str, Any], current: dict[str, Any]) -> Any:
        raise NotImplementedError

    # publication: {"plans": how many the file has now}

    def write_native(self, path: str, document: dict[str, Any]) -> Any:
        raise NotImplementedError

    # options

    def resolve(self, environment: dict[str, str], metadata: dict[str, Any] | None) -> Any:
        raise NotImplementedError

    # session: {"session": a name}; plan rows; counters; None

    def open(self, environment: dict[str, str]) -> Any:
        raise NotImplementedError

    def plans(self, session: str) -> Any:
        raise NotImplementedError

    def stats(self, session: str) -> Any:
        raise NotImplementedError

    def close(self, session: str) -> Any:
        raise NotImplementedError

    # plan-map, and capture-guard: {"tactic", "source", "tuned", "lazy"}

    def plan(self, session: str, m: int, n: int, k: int, capturing: bool, timings: Any) -> Any:
        raise NotImplementedError

    def plan_many(
        self, session: str, requests: list[list[int]], load: str | None, timings: Any
    ) -> Any:
        raise NotImplementedError

    # scripted-timer: the steps of the last tuning

    def trace(self, session: str) -> Any:
        raise NotImplementedError

    # warm-up, frozen and fresh-process

    def warm_up(self, session: str, max_tokens: int, shapes: list[list[int]], timings: Any) -> Any:
        raise NotImplementedError

    def complete(self, session: str) -> Any:
        raise NotImplementedError

    def abandon(self, session: str) -> Any:
        raise NotImplementedError

    # diagnostics: 16 hex digits

    def fingerprint(self, session: str) -> Any:
        raise NotImplementedError

    # gemm: operands and output as base64

    def gemm(self, m: int, n: int, k: int, tactic: int, seed: int, direct_sf: bool) -> Any:
        raise NotImplementedError

    # device, on a GPU only: {"0": mean microseconds, ...} of the last tuning; what gemm answers,
    # but by a graph that was captured, with the output made NaN before its replay

    def times(self, session: str) -> Any:
        raise NotImplementedError

    def replay(self, m: int, n: int, k: int, tactic: int, seed: int) -> Any:
        raise NotImplementedError
