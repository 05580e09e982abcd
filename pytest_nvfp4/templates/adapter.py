"""An adapter for pytest-nvfp4: your plan cache behind the operations of the suite.

Nothing is claimed yet. Write the operations of one capability, add its name to CLAIMS, and run

    nvfp4-conformance smoke nvfp4_adapter:Adapter      # does the adapter work?
    nvfp4-conformance run nvfp4_adapter:Adapter -n 2   # does the cache keep its contracts?

All arguments and answers are plain data, as `nvfp4-conformance schema` describes them.
"""

from typing import Any

CLAIMS: list[str] = []  # "flashinfer-import", say

METADATA: dict[str, dict[str, Any]] = {
    # "native_metadata": {...}, for native-document: the 18 fields of the running environment
    # "import_metadata": {...}, for flashinfer-import: the 6 fields of the running environment
}


class Rejected(Exception):
    """How an operation rejects its input; any other exception means that the adapter failed.

    `code` is one of the specification, such as "syntax" or "unknown-tactic"; `member` is the place
    at fault, such as "plans[3].tactic_id", or "" for the document as a whole.
    """

    def __init__(self, code: str, member: str, message: str):
        super().__init__(message)
        self.code, self.member = code, member


class Adapter:
    """One method for each operation, under the name of the capability that needs it."""

    def describe(self) -> dict[str, Any]:
        about = {"protocol": 1, "name": "my-cache", "version": "0", "language": "Python"}
        return {**about, "homepage": "", "capabilities": CLAIMS, **METADATA}

    # @operations@
