"""What `@pytest.mark.fresh_process` asks for, and the runs that this means."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from pytest_nvfp4.markers.fresh_process import MARK
from pytest_nvfp4.markers.requests import Marks, RequestError, named_options

EQUAL, WITHIN_ARMS, IGNORE = "equal", "within-arms", "ignore"
COMPARISONS = (EQUAL, WITHIN_ARMS, IGNORE)
MOST_RUNS = 1000

_FORMS = {
    "runs": f"a number of runs from 1 to {MOST_RUNS}",
    "arms": "{name: {VARIABLE: value, or None to unset it}}",
    "order": "letters of the arms, such as 'ABBA' or 'AB/BA/AB': A is the first arm",
    "timeout": "a number of seconds above 0 for each run",
    "compare": "'equal', 'within-arms' or 'ignore', or one of these for each name: {name: …}",
    "at_least": "a ratio above 0, such as 1.0",
}


@dataclass(frozen=True, slots=True)
class FreshRun:
    """One run of a test: its number from 1 on, its arm's name, and that arm's environment."""

    number: int
    arm: str = ""
    environment: Mapping[str, str | None] = field(default_factory=dict, repr=False)

    @property
    def name(self) -> str:
        """Such as ``run 3 (direct)``."""
        return f"run {self.number}" + (f" ({self.arm})" if self.arm else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class FreshRequest:
    """What a test asks for; `timeout` is in seconds for each run, None for ever.

    `compare` gives for each recorded name, and under "" for all others, the runs over which it must
    be equal; `at_least` is the least ratio of the first arm over the second on every measured axis.
    """

    runs: tuple[FreshRun, ...] = (FreshRun(1),)
    timeout: float | None = None
    compare: Mapping[str, str] = field(default_factory=lambda: {"": EQUAL})
    at_least: float | None = None
    order: str = "A"

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms' names, the first one first."""
        return tuple(dict.fromkeys(run.arm for run in sorted_by_letter(self)))


def sorted_by_letter(request: FreshRequest) -> list[FreshRun]:
    """The runs, those of arm A first: by their letters in the order."""
    letters = request.order.replace("/", "")
    return [run for _, run in sorted(zip(letters, request.runs, strict=True), key=lambda p: p[0])]


def read_request(marks: Marks, timeout: float | None = None) -> FreshRequest:
    """What a test's markers ask for; raises RequestError.

    Each marker is (arguments, options); the closest that gives an option wins. `timeout` is for
    tests that give none.
    """
    options = named_options(MARK, marks, _FORMS, "write runs={} if that is meant")
    for name, value in options.items():
        if not _well_formed(name, value):
            raise RequestError(f"{MARK}({name}={value!r}) is not possible; use {_FORMS[name]}")
    arms: Mapping[str, Mapping[str, str | None]] = options.get("arms") or {}
    order = options.get("order") or _default_order(options.get("runs"), len(arms))
    runs = _runs(order, arms, options.get("runs"))
    compare = options.get("compare") or EQUAL
    rules = {"": compare} if isinstance(compare, str) else {"": EQUAL, **compare}
    if WITHIN_ARMS in rules.values() and len({run.arm for run in runs}) == len(runs):
        raise RequestError(
            f"{MARK}(compare={compare!r}) compares the runs of one arm, and no arm runs twice; "
            "give more runs="
        )
    at_least = options.get("at_least")
    if at_least is not None and len(arms) != 2:
        raise RequestError(
            f"{MARK}(at_least={at_least!r}) compares two arms, and there are {len(arms)}; "
            "give arms={…} with two"
        )
    return FreshRequest(
        runs=runs,
        timeout=options.get("timeout", timeout),
        compare=rules,
        at_least=at_least,
        order=order,
    )


def _default_order(runs: int | None, arms: int) -> str:
    """Arms in turn, every second round the other way: AB/BA/AB."""
    if not arms:
        return "A" * (runs or 1)
    letters = "".join(chr(ord("A") + index) for index in range(arms))
    rounds, left = divmod(runs or arms, arms)
    if left:
        raise RequestError(
            f"{MARK}(runs={runs}) cannot be shared evenly by {arms} arms; use a multiple of "
            f"{arms}, or give order="
        )
    return "/".join(letters[:: -1 if number % 2 else 1] for number in range(rounds))


def _runs(
    order: str, arms: Mapping[str, Mapping[str, str | None]], runs: int | None
) -> tuple[FreshRun, ...]:
    names = list(arms) or [""]
    letters = order.replace("/", "")
    for letter in letters:
        if ord(letter) - ord("A") >= len(names):
            there = f"there are {len(arms)} arms" if arms else "there are no arms"
            raise RequestError(
                f"{MARK}(order={order!r}) names arm {letter}, and {there}; give arms={{…}}"
            )
    missing = [name for index, name in enumerate(names) if chr(ord("A") + index) not in letters]
    if missing:
        raise RequestError(f"{MARK}(order={order!r}) never runs arm {missing[0]!r}; add its letter")
    if runs is not None and runs != len(letters):
        raise RequestError(
            f"{MARK}(order={order!r}) is {len(letters)} runs, but runs={runs}; leave one out"
        )
    chosen = [names[ord(letter) - ord("A")] for letter in letters]
    return tuple(
        FreshRun(number, name, MappingProxyType(dict(arms.get(name, {}))))
        for number, name in enumerate(chosen, start=1)
    )


def _well_formed(name: str, value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    match name:
        case "runs":
            return number and isinstance(value, int) and 1 <= value <= MOST_RUNS
        case "arms":
            return isinstance(value, Mapping) and 1 <= len(value) <= 26 and _are_arms(value)
        case "order":
            form = r"[A-Z]+(/[A-Z]+)*"
            return isinstance(value, str) and bool(re.fullmatch(form, value)) and len(value) < 2000
        case "timeout":
            return value is None or (number and 0 < value < 86400)
        case "compare":
            if isinstance(value, Mapping):
                return all(isinstance(n, str) and c in COMPARISONS for n, c in value.items())
            return isinstance(value, str) and value in COMPARISONS
        case _:
            return value is None or (number and 0 < value < float("inf"))


def _are_arms(arms: Mapping[object, object]) -> bool:
    return all(
        isinstance(name, str)
        and name.isprintable()
        and bool(name.strip())
        and isinstance(environment, Mapping)
        and all(_is_variable(*pair) for pair in environment.items())
        for name, environment in arms.items()
    )


def _is_variable(name: object, value: object) -> bool:
    if not isinstance(name, str) or not name or "=" in name or "\0" in name:
        return False
    return value is None or (isinstance(value, str) and "\0" not in value)


def environment_of(run: FreshRun, environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of one run: the caller's, changed as the arm says, and not interactive."""
    changed = {**environment, "PYTHONINSPECT": None, **run.environment}
    return {name: value for name, value in changed.items() if value is not None}


def side_by_side(environment: Mapping[str, str]) -> int:
    """How many runs without a lock may be started at once: this process's share of the cores."""
    workers = environment.get("PYTEST_XDIST_WORKER_COUNT", "1")
    return max(1, len(os.sched_getaffinity(0)) // max(1, int(workers)))
