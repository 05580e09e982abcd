"""The verdict on a FlashInfer 0.6.13 document: one member per plan, keyed by a tuple's text.

The text is never evaluated: a document is rejected unless each key is, to the character, what
``str()`` of the tuple returns. Source: FlashInfer autotuner.py:978-1013, 1813-1900.
"""

import functools
import re
from collections.abc import Iterator, Mapping

from pytest_nvfp4.model import facts
from pytest_nvfp4.model.buckets import hybrid_bucket
from pytest_nvfp4.model.json_text import Object, Value
from pytest_nvfp4.model.native import integer, kind, read_object, required, wrong
from pytest_nvfp4.model.verdict import Finding, Judgement
from pytest_nvfp4.plans import TACTICS, PlanKey, PlanMap

_LARGEST = 2**31 - 1
_OPERATION = re.compile(r"""\s*\(\s*(['"])(.*?)\1""", re.DOTALL)
_NUMBER = r"[1-9][0-9]{0,9}"
# A template of the key, from which the expression is made: all but <names> stands for itself.
_KEY = re.compile(
    re.escape(
        f"('{facts.OPERATION}', '{facts.RUNNER}', "
        "((<M>, <P>), (<P2>, <N>), (-1, <S>), (<S2>, <N2>), "
        "(), (0,), (-1, <N3>), (0,), (0,), (-1,)), ())"
    )
    .replace("<", "(?P<")
    .replace(">", f">{_NUMBER})")
)


def judge_flashinfer(data: bytes, expected: Mapping[str, str] | None) -> Judgement:
    """Judge the bytes of a FlashInfer document against the six metadata fields of this environment.

    With `expected` None only the document itself is judged, as its own environment.
    """
    root, findings = read_object(data, ("duplicate-member", "duplicate-plan"))
    if root is None:
        return Judgement.reject(*findings)
    return judge_flashinfer_object(root, findings, expected)


def judge_kept_flashinfer(data: bytes, expected: Mapping[str, str] | None) -> Judgement:
    """Judge the own cache file of any release of FlashInfer.

    Releases after 0.6.13 add to a plan, after runner and tactic, how it was measured; these
    additions are ignored here.
    """
    root, findings = read_object(data, ("duplicate-member", "duplicate-plan"))
    if root is None:
        return Judgement.reject(*findings)
    members = [
        (name, value[:2] if isinstance(value, list) and name != "_metadata" else value)
        for name, value in root.members
    ]
    return judge_flashinfer_object(Object(members), findings, expected)


def judge_flashinfer_object(
    root: Object, findings: list[Finding], expected: Mapping[str, str] | None
) -> Judgement:
    """Judge what `read_object` gave, as a FlashInfer document."""
    for value in required(root, "_metadata", "", findings):
        findings += _metadata_findings(value, expected)
    plans: list[tuple[PlanKey, int]] = []
    ignored = 0
    for name, value in root.members:
        if name.startswith("_"):
            continue
        key = read_key(name)
        if key is None:
            ignored += 1
        elif isinstance(key, str):
            findings.append(Finding(("bad-plan", "unknown-runner"), name, key))
        else:
            faults = list(_value_findings(name, value))
            findings += faults
            if not faults:
                plans.append((key, integer(value[1], facts.INT)))  # type: ignore[index,arg-type]
    if findings:
        return Judgement.reject(*findings)
    return Judgement(PlanMap(plans), ignored, ())


@functools.lru_cache(maxsize=4096)
def read_key(text: str) -> PlanKey | str | None:
    """Read a member name: a plan's key, None for a foreign operation, or what is wrong with it.

    The cache is for exhaustive fuzzing, where documents differ in one key out of 64.
    """
    operation = _OPERATION.match(text)
    if operation is None:
        if facts.OPERATION in text:
            return f"it mentions {facts.OPERATION} but names no operation that can be read"
        return None
    if operation[2] != facts.OPERATION:
        return None
    match = _KEY.fullmatch(text)
    if match is None:
        return f"the key is not spelled as FlashInfer 0.6.13 spells {facts.OPERATION} keys"
    part = {name: int(digits) for name, digits in match.groupdict().items()}
    m, n, k = part["M"], part["N"], 2 * part["P"]
    if max(m, n, k) > _LARGEST:
        return "a dimension exceeds 32 bits"
    if hybrid_bucket(m) != m:
        return f"{m} is not a hybrid M bucket"
    if part["P2"] != part["P"] or part["S2"] != part["S"] or 8 * part["S"] != part["P"]:
        return "the K/2 and K/16 dimensions do not agree"
    if part["N2"] != n or part["N3"] != n:
        return "the three N dimensions do not agree"
    return PlanKey(m, n, k)


def _metadata_findings(metadata: Value, expected: Mapping[str, str] | None) -> Iterator[Finding]:
    if not isinstance(metadata, Object):
        yield wrong("_metadata", "an object", metadata, "wrong-type", "shape")
        return
    if not metadata.members:
        yield Finding(("missing-field",), "_metadata", "the metadata is empty")
    for name in facts.FLASHINFER_METADATA:
        member = f"_metadata.{name}"
        absent: list[Finding] = []
        for value in required(metadata, name, "_metadata", absent):
            if not isinstance(value, str):
                yield wrong(member, "a string", value, "wrong-type")
            elif expected is not None and value not in ("*", expected[name]):
                yield Finding(
                    ("foreign-environment",),
                    member,
                    f"tuned under {value!r}, but running under {expected[name]!r}",
                )
        yield from absent


def _value_findings(name: str, value: Value) -> Iterator[Finding]:
    if not isinstance(value, list) or len(value) != 2:
        what = f"an array of {len(value)}" if isinstance(value, list) else kind(value)
        message = f"a plan's value is [runner, tactic], not {what}"
        yield Finding(("wrong-type", "bad-plan", "shape"), name, message)
        return
    runner, tactic = value
    if not isinstance(runner, str):
        yield wrong(name, f'"{facts.RUNNER}"', runner, "wrong-type", "unknown-runner")
    elif runner != facts.RUNNER:
        yield Finding(
            ("unknown-runner",), name, f"unknown runner {runner!r}; only {facts.RUNNER} is known"
        )
    number = integer(tactic, facts.INT)
    if number is None:
        yield wrong(name, "an integer tactic id", tactic, "wrong-type", "unknown-tactic")
    elif not 0 <= number < len(TACTICS):
        yield Finding(
            ("unknown-tactic",), name, f"there is no tactic {number}; ids run from 0 to 31"
        )
