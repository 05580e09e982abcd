"""What a session tells about itself: counts, and one line in the log for each phase.

A line is `nvfp4` and a JSON object, so that people and programs can read it. There is one when a
session opens, loads, has warmed up and has completed; one for each rejected document, with its
code and member; and one for each shape that is first missed after warm-up. A request that finds
its plan logs nothing, and no line about a request holds a path or a value of the environment.

Whoever watches the process, such as a test that requires a frozen map, need not know any session:
each one announces itself by an audit event, `nvfp4.plan_cache`, with its `Account`.
"""

import hashlib
import json
import logging
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from .errors import Rejected
from .plans import PlanKey, Plans

Mode = Literal["read-write", "frozen", "process-local", "bypass"]

_logger = logging.getLogger(__package__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """Where a session keeps its plans, and what it counted.

    `loaded` plans installed from documents, `tuned` plans measured, `rejected` documents refused,
    `saved` plans in the file that the last completion wrote, `lazy` lookups after completion that
    found nothing; a lookup that shared another's tuning is not counted again.
    """

    path: str | None = None
    mode: Mode = "process-local"
    loaded: int = 0
    tuned: int = 0
    rejected: int = 0
    saved: int = 0
    lazy: int = 0


class Counters:
    """The numbers behind `Statistics`; every change and every reading is of one moment."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = {"loaded": 0, "tuned": 0, "rejected": 0, "saved": 0, "lazy": 0}
        self._reported: set[PlanKey] = set()

    def add(self, name: Literal["loaded", "tuned", "rejected"], number: int = 1) -> None:
        """Count `number` more."""
        with self._lock:
            self._counts[name] += number

    def saved(self, number: int) -> None:
        """The file holds `number` plans as of now; 0 where it was not written."""
        with self._lock:
            self._counts["saved"] = number

    def missed(self, key: PlanKey) -> bool:
        """Count a lookup after completion that found nothing; is it the first of its shape?"""
        with self._lock:
            self._counts["lazy"] += 1
            first = key not in self._reported
            self._reported.add(key)
        return first

    def statistics(self, path: str | None, mode: Mode) -> Statistics:
        """All counts, from one moment."""
        with self._lock:
            return Statistics(path=path, mode=mode, **self._counts)


@dataclass(frozen=True, slots=True)
class Account:
    """What a session counted and which plans it serves, to be asked at any time, closed or not."""

    statistics: Callable[[], Statistics]
    plans: Callable[[], Plans]


def announce(account: Account) -> None:
    """Tell whoever listens that there is a new session."""
    sys.audit("nvfp4.plan_cache", account)


def map_digest(plans: Mapping[PlanKey, int]) -> str:
    """16 hex digits of the shapes and tactics of a map: two processes ran the same plans."""
    rows = "".join(f"{m},{n},{k}:{tactic}\n" for (m, n, k), tactic in sorted(plans.items()))
    return hashlib.sha256(rows.encode()).hexdigest()[:16]


def log_phase(phase: Literal["open", "load", "warm-up", "complete"], **facts: object) -> None:
    """One line about a phase of a session."""
    _log(logging.INFO, {"phase": phase, **facts})


def log_warnings(sentences: Iterable[str]) -> None:
    """What the options have to say."""
    for sentence in sentences:
        _log(logging.WARNING, {"warning": sentence})


def log_rejection(what: str, rejected: Rejected) -> None:
    """A document, or its publication, was refused."""
    facts = {"code": rejected.code, "member": rejected.member, "message": rejected.message}
    _log(logging.WARNING, {"rejected": what, **facts})


def log_lazy_miss(key: PlanKey, m: int) -> None:
    """A shape that no warm-up covered was asked for."""
    _log(logging.WARNING, {"lazy": {"m": m, "bucket": key.m, "n": key.n, "k": key.k}})


def _log(level: int, facts: Mapping[str, object]) -> None:
    if _logger.isEnabledFor(level):
        _logger.log(level, "nvfp4 %s", json.dumps(facts))
