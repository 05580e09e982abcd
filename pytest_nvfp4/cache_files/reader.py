"""Look at a plan-cache file as its owner does: is it right, what does it cover, what differs?"""

import errno
import itertools
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pytest_nvfp4 import oracle
from pytest_nvfp4.model import Finding, Judgement, facts
from pytest_nvfp4.model.buckets import hybrid_bucket, profile_list
from pytest_nvfp4.model.flashinfer import judge_flashinfer_object
from pytest_nvfp4.model.json_text import Number, Object, Value
from pytest_nvfp4.model.native import judge_native_object, read_object
from pytest_nvfp4.plans import PlanMap, difference_table, differences, tactic_name

NATIVE, FLASHINFER = "native", "FlashInfer"
_ROWS = 20
_ALL = 10**9
_LONGEST = 400


@dataclass(frozen=True, slots=True)
class Checked:
    """A file that was read: its dialect (None where it has none), environment and verdict."""

    path: str
    dialect: str | None
    metadata: Mapping[str, object]
    judgement: Judgement


def check(path: str, expected: Mapping[str, object] | None = None) -> Checked:
    """Read a file of either dialect and judge it, under an environment or under its own."""
    data = read_file(path)
    if isinstance(data, Finding):
        return Checked(path, None, {}, Judgement.reject(data))
    return check_bytes(path, data, expected)


def check_bytes(path: str, data: bytes, expected: Mapping[str, object] | None = None) -> Checked:
    """The same for a file that was read already."""
    root, findings = read_object(data)
    if root is None:
        return Checked(path, None, {}, Judgement.reject(*findings))
    dialect = NATIVE if root.get("plans") else FLASHINFER
    judge = judge_native_object if dialect == NATIVE else judge_flashinfer_object
    environment = _for_dialect(expected, dialect)
    judgement = judge(root, findings, environment)  # type: ignore[arg-type]
    return Checked(path, dialect, _metadata(root), judgement)


def read_plans(path: str | os.PathLike[str]) -> PlanMap:
    """The plans of a cache file of either dialect; ValueError of one sentence where it is wrong."""
    checked = check(os.fspath(path))
    findings = checked.judgement.findings
    if findings:
        more = f" (and {len(findings) - 1} more findings)" if len(findings) > 1 else ""
        raise ValueError(f"{checked.path}: {findings[0]}{more}")
    return checked.judgement.plans


def read_file(path: str) -> bytes | Finding:
    """The bytes of a regular file, or what is wrong with the path; never blocks on a FIFO."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        code = "not-regular" if error.errno in (errno.ENXIO, errno.ENODEV) else "unreadable"
        return Finding((code,), "", f"cannot open {path}: {error.strerror}")
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        return Finding(("not-regular",), "", f"{path} is not a regular file")
    with os.fdopen(descriptor, "rb") as file:
        if status.st_size > facts.MAX_BYTES:
            return Finding(("too-large",), "", f"{path} has {status.st_size} bytes")
        try:
            return file.read(facts.MAX_BYTES + 1)
        except OSError as error:
            return Finding(("unreadable",), "", f"cannot read {path}: {error.strerror}")


def report(checked: Checked, *, everything: bool = False) -> Iterator[str]:
    """The report on a file; of long lists and long strings the beginning, unless `everything`."""
    for line in _report(checked, _ALL if everything else _ROWS):
        yield line if everything or len(line) <= _LONGEST else f"{line[:_LONGEST]} …"


def _report(checked: Checked, rows: int) -> Iterator[str]:
    judgement = checked.judgement
    dialect = f"{checked.dialect} document" if checked.dialect else "no document"
    if judgement.accepted:
        foreign = f", {judgement.ignored} foreign entries" if judgement.ignored else ""
        yield f"{checked.path}: {dialect}, accepted: {len(judgement.plans)} plans{foreign}"
    else:
        count = len(judgement.findings)
        yield f"{checked.path}: {dialect}, rejected: {count} finding{'s' * (count > 1)}"
        yield from _capped((f"  {finding}" for finding in judgement.findings), rows)
    if checked.metadata:
        yield ""
        width = max(map(len, checked.metadata))
        for name, value in checked.metadata.items():
            yield f"  {name:<{width}}  {value}"
    if judgement.plans:
        yield ""
        yield from _capped(coverage(judgement.plans), 3 * rows)
        yield ""
        yield from _capped(missing(judgement.plans), rows)
        yield from _capped(against_oracle(judgement.plans), rows)


def _capped(lines: Iterable[str], most: int) -> Iterator[str]:
    """The first lines, and how many more there are."""
    rest = iter(lines)
    yield from itertools.islice(rest, most)
    more = sum(1 for _ in rest)
    if more:
        yield f"… and {more} more lines; --all shows them"


def coverage(plans: PlanMap) -> Iterator[str]:
    """Tables of tactic ids, M buckets by shapes, and then the names of the tactics that occur."""
    shapes = sorted({(key.n, key.k) for key in plans})
    buckets = sorted({key.m for key in plans})
    for start in range(0, len(shapes), 5):
        block = shapes[start : start + 5]
        yield f"{'M | NxK':>9}" + "".join(f"{f'{n}x{k}':>14}" for n, k in block)
        for m in buckets:
            cells = (plans.get((m, n, k)) for n, k in block)  # type: ignore[call-overload]
            yield f"{m:>9}" + "".join(f"{'·' if cell is None else cell:>14}" for cell in cells)
        yield ""
    used = sorted(set(plans.values()))
    names = [f"{tactic:>3} {tactic_name(tactic)}" for tactic in used]
    half = (len(names) + 1) // 2
    for left, right in zip(names[:half], [*names[half:], ""][:half], strict=True):
        yield f"  {left:<38}{right}".rstrip()


def missing(plans: PlanMap) -> Iterator[str]:
    """One line per shape that lacks profiles which other shapes of the file have tuned."""
    largest = max(key.m for key in plans)
    profiles = sorted({hybrid_bucket(m) for m in profile_list(largest)})
    shapes = sorted({(key.n, key.k) for key in plans})
    complete = True
    for n, k in shapes:
        absent = [m for m in profiles if (m, n, k) not in plans]
        if absent:
            complete = False
            listed = ", ".join(map(str, absent[:8])) + (", …" if len(absent) > 8 else "")
            yield f"missing: N {n}, K {k} has no plan for M {listed} ({len(absent)} profiles)"
    if complete:
        yield f"complete: {len(shapes)} shapes × {len(profiles)} profiles up to M {largest}"


def against_oracle(plans: PlanMap) -> Iterator[str]:
    """How the plans differ from the binding oracle where they share keys with it."""
    binding = oracle.load().plans
    shared = plans.keys() & binding.keys()
    if not shared:
        yield "oracle: no plan in common with the binding oracle"
        return
    changes = [c for c in differences(binding, plans) if c.key in shared]
    if not changes:
        yield f"oracle: the same tactic for all {len(shared)} plans in common"
        return
    yield f"oracle: another tactic for {len(changes)} of {len(shared)} plans in common"
    yield from difference_table(changes, "oracle", "this file")


def compare(left: Checked, right: Checked, *, everything: bool = False) -> Iterator[str]:
    """How two accepted files differ: environments first, then plans; nothing where they do not."""
    return _capped(_differences(left, right), _ALL if everything else 3 * _ROWS)


def _differences(left: Checked, right: Checked) -> Iterator[str]:
    for name in sorted(left.metadata.keys() | right.metadata.keys()):
        ours, theirs = left.metadata.get(name, "—"), right.metadata.get(name, "—")
        if ours != theirs:
            yield f"{name}: {ours} | {theirs}"
    changes = differences(left.judgement.plans, right.judgement.plans)
    if changes:
        total = len(left.judgement.plans.keys() | right.judgement.plans.keys())
        yield f"plans: {len(changes)} of {total} differ"
        yield from difference_table(changes, Path(left.path).name, Path(right.path).name)


def _metadata(root: Value) -> dict[str, object]:
    """The document's metadata as far as it can be shown."""
    if not isinstance(root, Object):
        return {}
    found = next((value for value in root.get("_metadata") if isinstance(value, Object)), None)
    shown: dict[str, object] = {}
    for name, value in found.members if found else ():
        if isinstance(value, Number):
            plain = len(value.text) < 20 and value.text.lstrip("-").isdigit()
            shown[name] = int(value.text) if plain else value.text
        elif isinstance(value, str):
            shown[name] = value
    return shown


def _for_dialect(
    expected: Mapping[str, object] | None, dialect: str | None
) -> Mapping[str, object] | None:
    """The expected environment, if it is one of this dialect; ValueError if it is not."""
    if expected is None:
        return None
    fields = set(facts.NATIVE_METADATA if dialect == NATIVE else facts.FLASHINFER_METADATA)
    lacking = sorted(fields - expected.keys())
    if lacking:
        raise ValueError(
            f"the expected environment has no {lacking[0]}, which a {dialect} document needs"
        )
    return expected
