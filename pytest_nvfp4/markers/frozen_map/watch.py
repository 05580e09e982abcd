"""Attempts to change the directory of a frozen file, even where a change is undone later.

Python code of this process raises audit events, before it acts, and its place in the source is
recorded. Compiled code, and the programs that a test starts, are traced by strace where the marker
asks for it; otherwise they are found by what they leave changed.
"""

import inspect
import os
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from pytest_nvfp4.faults import audit
from pytest_nvfp4.faults.attached import Traced
from pytest_nvfp4.faults.calls import Call
from pytest_nvfp4.markers.frozen_map.map_file import folders

_STANDARD = sysconfig.get_path("stdlib")
_SITES = tuple({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})
_OURS = (audit.__file__, __file__)
_OPENED = "open for writing"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One call that changes something in a watched directory, or could, and its caller."""

    what: str
    call: Call
    caller: str

    def __str__(self) -> str:
        call = self.call
        paths = f"{call.path} to {call.target}" if call.path and call.target else ""
        return f"{self.what} of {paths or call.path or call.target} {self.caller}"


@dataclass(slots=True)
class Watch:
    """Attempts on the directories that a file is in; `root` shortens places in the source."""

    path: Path
    root: Path
    attempts: list[Attempt] = field(default_factory=list)
    _folders: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self._folders = folders(self.path)

    def receive(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Take an audit event, which comes before its call; add it if it is about the directory."""
        call = audit.call_of(event, arguments)
        if call is not None and self._concerns(call) and _can_succeed(event, call):
            name = (
                _OPENED
                if event == "open"
                else event.removeprefix("os.").replace("remove", "unlink")
            )
            self._note(Attempt(name, call, f"at {self._place()}"))

    def add_traced(self, calls: Iterable[Traced]) -> None:
        """Add the calls of a trace, without those that were audit events."""
        audited = {
            path for one in self.attempts for path in (one.call.path, one.call.target) if path
        }
        for one in calls:
            call = one.call
            known = one.pid is None and (call.path in audited or call.target in audited)
            if not known and self._concerns(call):
                name = _OPENED if call.name == "open" else one.name
                who = f"(pid {one.pid})" if one.pid else "in compiled code"
                self._note(Attempt(name, call, f"by {one.program} {who}"))

    def _note(self, attempt: Attempt) -> None:
        """Add an attempt, once: a file object made of a descriptor raises a second event."""
        known = {(one.what, one.call.path, one.call.target) for one in self.attempts}
        if (attempt.what, attempt.call.path, attempt.call.target) not in known:
            self.attempts.append(attempt)

    def _concerns(self, call: Call) -> bool:
        if call.name == "fsync" or (call.name == "open" and not (call.writes or call.creates)):
            return False
        follows = call.name in ("open", "write")
        moves = call.name in ("rename", "unlink")
        return any(
            self._is_here(path, follows=follows, moves=moves)
            for path in (call.path, call.target)
            if path
        )

    def _is_here(self, path: str, *, follows: bool, moves: bool) -> bool:
        """Whether a path is in a watched directory, or is one, or moves one with it."""
        parent, name = os.path.split(path)
        found = {os.path.join(os.path.realpath(parent), name)}
        if follows:
            found.add(os.path.realpath(path))
        return any(
            one == folder
            or os.path.dirname(one) == folder
            or (moves and folder.startswith(f"{one}{os.sep}"))
            for one in found
            for folder in self._folders
        )

    def _place(self) -> str:
        """Where the call is made: the innermost frame outside the standard library."""
        frame = inspect.currentframe()
        while frame is not None and _is_passed_over(frame):
            frame = frame.f_back
        if frame is None:
            return "an unknown place"
        code = frame.f_code
        name = code.co_filename
        if name.startswith(f"{self.root}{os.sep}"):
            name = os.path.relpath(name, self.root)
        return f"{name}:{frame.f_lineno} in {code.co_name}"


def _can_succeed(event: str, call: Call) -> bool:
    """False for a call that can only fail, such as making a directory that exists."""
    if event in ("os.mkdir", "os.link", "os.symlink"):
        return not os.path.lexists(call.target or call.path)
    return call.creates or os.path.lexists(call.path)


def _is_passed_over(frame: FrameType) -> bool:
    name = frame.f_code.co_filename
    standard = name.startswith((f"{_STANDARD}{os.sep}", "<frozen "))
    return name in _OURS or (standard and not name.startswith(_SITES))
