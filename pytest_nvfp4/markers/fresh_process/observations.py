"""What a test records and measures in a fresh process, for the parent to compare over runs.

The fixture `fresh` gives an `Observer`. In an ordinary process it takes the same calls and keeps
nothing, so that a test can be tried in one.
"""

import base64
import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

Better = Literal["higher", "lower"]
Send = Callable[[str, Mapping[str, object]], None]

OBSERVED, MEASURED = "observed", "measured"


@dataclass(frozen=True, slots=True)
class Metric:
    """A measured axis: its unit, which way is better, and the value."""

    unit: str
    better: Better
    value: float


class Observer:
    """The value of the fixture `fresh`: which run this is, and methods to record what it did."""

    def __init__(self, run: int = 1, runs: int = 1, arm: str = "", send: Send | None = None):
        self.run = run
        """This run's number, from 1 on."""
        self.runs = runs
        """How many runs there are."""
        self.arm = arm
        """The name of this run's arm; empty without arms."""
        self._send = send or (lambda kind, value: None)
        self._names: set[str] = set()

    def record(self, name: str, value: object) -> None:
        """Record a value that must be equal in all runs: bytes, or anything that JSON can hold.

        Raises TypeError for another value, ValueError for a name that this run has used before.
        """
        self._claim(name)
        if isinstance(value, bytes | bytearray | memoryview):
            content = {"base64": base64.b64encode(bytes(value)).decode("ascii")}
        else:
            content = {"json": _canonical(name, value)}
        self._send(OBSERVED, {"name": name, **content})

    def measure(self, name: str, value: float, *, unit: str = "", better: Better) -> None:
        """Record a measured axis, such as tokens per second; `better` is "higher" or "lower".

        The arms are compared on it by the mean of each, and by their ratio. Raises ValueError for
        another `better`, for a value that is not a finite number above 0, and for a name that this
        run has used before.
        """
        if better not in ("higher", "lower"):
            raise ValueError(f"fresh.measure({name!r}, better={better!r}); say 'higher' or 'lower'")
        number = float(value)
        if not (math.isfinite(number) and number > 0):
            raise ValueError(
                f"fresh.measure({name!r}, {value!r}) has no ratio; give a number above 0"
            )
        self._claim(name)
        self._send(MEASURED, {"name": name, "unit": unit, "better": better, "value": number})

    def _claim(self, name: str) -> None:
        if not (isinstance(name, str) and name and name.isprintable()):
            raise ValueError(f"{name!r} is not possible as a name; use printable text")
        if name in self._names:
            raise ValueError(f"{name!r} was recorded before in this run; use another name")
        self._names.add(name)


def _canonical(name: str, value: object) -> str:
    try:
        return json.dumps(value, sort_keys=True)
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(
            f"fresh.record({name!r}, …) holds what JSON cannot ({error}); give bytes, or plain "
            "dicts, lists, text and numbers"
        ) from None


Value = bytes | str
"""Bytes as they were recorded, or the canonical JSON text of another value."""


def read_observed(message: Mapping[str, str]) -> Value:
    """The value of a message of the kind `OBSERVED`."""
    return base64.b64decode(message["base64"]) if "base64" in message else message["json"]


def describe_difference(left: Value, right: Value, names: tuple[str, str]) -> list[str]:
    """How two values differ, in lines of at most 80 columns; `names` are the two runs'."""
    if isinstance(left, bytes) or isinstance(right, bytes):
        lines = []
        for name, value in zip(names, (left, right), strict=True):
            if isinstance(value, bytes):
                digest = hashlib.sha256(value).hexdigest()[:16]
                lines.append(f"{name}: {len(value)} bytes, SHA-256 {digest}…")
            else:
                lines.append(f"{name}: {_short(value, 60)}")
        if isinstance(left, bytes) and isinstance(right, bytes):
            lines.append(f"first difference at byte {_first_difference(left, right)}")
        return lines
    changes = list(_changes(json.loads(left), json.loads(right), ""))
    width = min(36, max(len(path) for path, _, _ in changes))
    lines = [f"{'':<{width}}  {names[0]:<18}  {names[1]}"]
    lines += [
        f"{_short(path, width):<{width}}  {_short(one, 18):<18}  {_short(two, 20)}".rstrip()
        for path, one, two in changes[:_MOST_LINES]
    ]
    if len(changes) > _MOST_LINES:
        lines.append(f"and {len(changes) - _MOST_LINES} more")
    return lines


_MOST_LINES = 20
_ABSENT = "—"


def _first_difference(left: bytes, right: bytes) -> int:
    same = min(len(left), len(right))
    return next((index for index in range(same) if left[index] != right[index]), same)


def _changes(left: object, right: object, path: str) -> list[tuple[str, str, str]]:
    """(path, left, right) of every leaf at which two JSON values differ."""
    if isinstance(left, dict) and isinstance(right, dict):
        one, two = left, right
    elif isinstance(left, list) and isinstance(right, list):
        one, two = dict(enumerate(left)), dict(enumerate(right))
    else:
        change = (path or "value", _text(left), _text(right))
        return [change] if change[1] != change[2] else []
    found = []
    for key in sorted(one.keys() | two.keys()):
        below = f"{path}[{key!r}]"
        if key in one and key in two:
            found += _changes(one[key], two[key], below)
        else:
            texts = [_text(side[key]) if key in side else _ABSENT for side in (one, two)]
            found.append((below, texts[0], texts[1]))
    return found


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def _short(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
