"""Diagnostics of a session: counts, log lines and an audit event.

A log line is `nvfp4` and a JSON object. A session logs one line when it opens, loads, has warmed up
and has completed; one for each rejected document, with code and member; and one for each shape that
is missed for the first time after the warm-up. A request that finds its plan logs nothing, and no
line about a request contains a path or a value of the environment.

A test that requires a frozen map watches sessions that it does not create. So each session raises
the audit event `nvfp4.plan_cache` with its `Account`.
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
    """The path, the mode and the counts of a session.

    `loaded`: plans installed from documents. `tuned`: plans measured. `rejected`: documents
    rejected. `saved`: plans in the file that the last completion wrote. `lazy`: lookups after
    completion that found no plan; a lookup that waited for another's tuning is not counted.
    """

    path: str | None = None
    mode: Mode = "process-local"
    loaded: int = 0
    tuned: int = 0
    rejected: int = 0
    saved: int = 0
    lazy: int = 0


class Counters:
    """The counts of `Statistics`; each change and each reading is atomic."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = {"loaded": 0, "tuned": 0, "rejected": 0, "saved": 0, "lazy": 0}
        self._reported: set[PlanKey] = set()

    def add(self, name: Literal["loaded", "tuned", "rejected"], number: int = 1) -> None:
        """Add `number` to a count."""
        with self._lock:
            self._counts[name] += number

    def saved(self, number: int) -> None:
        """Set the number of plans in the file; 0 where it was not written."""
        with self._lock:
            self._counts["saved"] = number

    def missed(self, key: PlanKey) -> bool:
        """Count a lookup after completion without a plan; whether it is the first of its shape."""
        with self._lock:
            self._counts["lazy"] += 1
            first = key not in self._reported
            self._reported.add(key)
        return first

    def statistics(self, path: str | None, mode: Mode) -> Statistics:
        """All counts, read atomically."""
        with self._lock:
            return Statistics(path=path, mode=mode, **self._counts)


@dataclass(frozen=True, slots=True)
class Account:
    """Functions that return a session's counts and plans at any time, also after it is closed."""

    statistics: Callable[[], Statistics]
    plans: Callable[[], Plans]


def announce(account: Account) -> None:
    """Raise the audit event of a new session."""
    sys.audit("nvfp4.plan_cache", account)


def map_digest(plans: Mapping[PlanKey, int]) -> str:
    """16 hex digits over the shapes and tactics of a map; equal for equal plans."""
    rows = "".join(f"{m},{n},{k}:{tactic}\n" for (m, n, k), tactic in sorted(plans.items()))
    return hashlib.sha256(rows.encode()).hexdigest()[:16]


def log_phase(phase: Literal["open", "load", "warm-up", "complete"], **facts: object) -> None:
    """Log a phase of a session."""
    _log(logging.INFO, {"phase": phase, **facts})


def log_warnings(sentences: Iterable[str]) -> None:
    """Log warnings, such as those of the options."""
    for sentence in sentences:
        _log(logging.WARNING, {"warning": sentence})


def log_rejection(what: str, rejected: Rejected) -> None:
    """Log the rejection of a document or of its publication."""
    facts = {"code": rejected.code, "member": rejected.member, "message": rejected.message}
    _log(logging.WARNING, {"rejected": what, **facts})


def log_lazy_miss(key: PlanKey, m: int) -> None:
    """Log a request for a shape that no warm-up covered."""
    _log(logging.WARNING, {"lazy": {"m": m, "bucket": key.m, "n": key.n, "k": key.k}})


def _log(level: int, facts: Mapping[str, object]) -> None:
    if _logger.isEnabledFor(level):
        _logger.log(level, "nvfp4 %s", json.dumps(facts))
