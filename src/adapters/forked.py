"""Objects that live in a process of their own, forked from this one.

FlashInfer has one tuner for a process and `autotune()` works on that one, so that two sessions
are two processes. A fork has everything imported already.
"""

import contextlib
import os
from collections.abc import Callable
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

from .rejection import Rejected


class BrokeError(Exception):
    """The implementation raised something that it does not promise to raise."""


class Forked:
    """An object in a child; `call` calls its methods. The child ends with its parent."""

    def __init__(self, make: Callable[..., object], *arguments: Any) -> None:
        self._ours, theirs = Pipe()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                self._ours.close()
                _serve(theirs, make, arguments)
            finally:
                os._exit(0)  # nothing that the parent has opened is this child's to close
        theirs.close()

    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method there; what it raises is raised here."""
        try:
            self._ours.send((method, arguments))
            kind, value = self._ours.recv()
        except (EOFError, OSError):
            raise BrokeError(f"the process of the session ended during {method}.") from None
        if kind == "rejected":
            raise Rejected(*value)
        if kind == "broke":
            raise BrokeError(value)
        return value

    def end(self) -> None:
        """End the child at once; it saves nothing."""
        self._ours.close()
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._pid, 0)


def _serve(theirs: Connection, make: Callable[..., object], arguments: tuple[Any, ...]) -> None:
    made: object = None
    while True:
        try:
            method, given = theirs.recv()
        except (EOFError, OSError):
            # The parent has ended, or closed this session. Nothing may be cleaned up here: a tuning
            # that is under way would take that for its end, and save.
            os._exit(0)
        else:
            try:
                made = make(*arguments) if made is None else made
                answer = ("ok", getattr(made, method)(*given))
            except Rejected as rejected:
                answer = ("rejected", (rejected.code, rejected.member, str(rejected)))
            except Exception as error:
                answer = ("broke", f"{type(error).__name__}: {error}")
            theirs.send(answer)
