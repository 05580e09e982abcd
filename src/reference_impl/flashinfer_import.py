r"""Import the autotune file that FlashInfer wrote; the file is only read.

The key of a plan in this file is the `str()` of a Python tuple. To evaluate a key would run code
from the file, and a lenient parser would read a damaged key as another plan. So a key must match
this text exactly, or the document is rejected:

    ('fp4_gemm', 'CutlassFp4GemmRunner',
     ((M, K/2), (K/2, N), (-1, K/16), (K/16, N), (), (0,), (-1, N), (0,), (0,), (-1,)), ())

on one line. The ten shapes are those of activation, weight, activation scales, weight scales,
alpha, output type, output, block size, flag and workspace. Each plan has exactly one such spelling,
so two different keys cannot name one plan.

Source: FlashInfer 0.6.13 autotuner.py:978-1013 (keys), 1813-1900 (loading).
"""

import re
from dataclasses import dataclass

from . import files, strict_json
from .buckets import HYBRID_BUCKETS
from .environment import ImportMetadata
from .errors import Code, Rejected
from .members import INT32, object_member, root_object, shown
from .plans import RUNNER, PlanKey, Plans
from .tactics import TACTIC_IDS

OPERATION = "fp4_gemm"

_START = f"('{OPERATION}', '{RUNNER}', (("
_M = {str(bucket): bucket for bucket in HYBRID_BUCKETS}
_NUMBER = "[1-9][0-9]{0,9}"
_REST = re.compile(
    rf"(?P<half>{_NUMBER})\), \((?P=half), (?P<n>{_NUMBER})\), "
    rf"\(-1, (?P<blocks>{_NUMBER})\), \((?P=blocks), (?P=n)\), "
    r"\(\), \(0,\), \(-1, (?P=n)\), \(0,\), \(0,\), \(-1,\)\), \(\)\)"
)
_OPERATION = re.compile(r"""\s*\(\s*(?:'([^']*)'|"([^"]*)")""")


@dataclass(frozen=True, slots=True)
class Import:
    """The plans of a FlashInfer document, and the number of entries of other operations."""

    plans: Plans
    ignored: int


def read_flashinfer(path: str, expected: ImportMetadata) -> Import:
    """Read the plans of the file at `path`, whose metadata must be `expected`.

    Rejects the file as a whole, with any of the document codes. The file is never written.
    """
    return parse(files.read_regular(path), expected)


def parse(data: bytes, expected: ImportMetadata) -> Import:
    """Read the plans of the document in `data`; see `read_flashinfer`.

    The keys of one weight matrix differ only in M, so the rest of the key is matched once for each
    matrix.
    """
    document = root_object(strict_json.parse(data))
    ImportMetadata.from_json(object_member(document, "_metadata")).require(expected)
    plans: dict[PlanKey, int] = {}
    weights: dict[str, tuple[int, int]] = {}
    ignored = 0
    for key, value in document.items():
        if key.startswith(_START):
            m_text, _, rest = key[len(_START) :].partition(", ")
            if m_text not in _M:
                raise _bad_key(key, f"has M = {m_text[:20]}, which is not a hybrid bucket")
            if rest not in weights:
                weights[rest] = _weight(rest, key)
            n, k = weights[rest]
            plans[PlanKey(_M[m_text], n, k)] = _tactic(value, key)
        elif key.startswith("_"):
            continue  # FlashInfer's own records, of this or a later release
        elif _is_foreign(key):
            ignored += 1
        else:
            raise _bad_key(key, "is not in the form that FlashInfer writes")
    return Import(plans, ignored)


def _is_foreign(key: str) -> bool:
    """Whether `key` belongs to another operation; in doubt it is a damaged plan."""
    match = _OPERATION.match(key)
    if match is None:
        return OPERATION not in key
    return (match[1] or match[2]) != OPERATION


def _weight(rest: str, key: str) -> tuple[int, int]:
    """N and the unpacked K of the weight matrix, from the part of a key after its first M."""
    match = _REST.fullmatch(rest)
    if match is None:
        raise _bad_key(key, "is not in the form that FlashInfer writes")
    half, n, blocks = map(int, match.groups())
    if half != 8 * blocks:
        raise _bad_key(key, f"pairs K/2 = {half} with K/16 = {blocks}")
    if n not in INT32 or 2 * half not in INT32:
        raise _bad_key(key, f"has N = {n} and K = {2 * half}, which exceed 32 bits")
    return n, 2 * half


def _tactic(value: object, key: str) -> int:
    if not isinstance(value, list) or len(value) != 2:
        raise _bad_value("wrong-type", key, value, "a runner and a tactic")
    runner, tactic = value
    if not isinstance(runner, str):
        raise _bad_value("wrong-type", key, runner, "a runner's name")
    if runner != RUNNER:
        raise _bad_value("unknown-runner", key, runner, f"the runner {RUNNER}")
    if type(tactic) is not int:
        raise _bad_value("wrong-type", key, tactic, "an integer tactic")
    if tactic not in TACTIC_IDS:
        raise _bad_value("unknown-tactic", key, tactic, "a tactic from 0 to 31")
    return tactic


def _bad_key(key: str, what: str) -> Rejected:
    return Rejected(
        "bad-plan",
        key,
        f"the plan key {shown(key)} {what}; let FlashInfer write the file again.",
    )


def _bad_value(code: Code, key: str, found: object, wanted: str) -> Rejected:
    return Rejected(
        code,
        key,
        f"the value of {shown(key)} has {shown(found)} instead of {wanted}; "
        "let FlashInfer write the file again.",
    )
