"""A session in a process of its own, forked from this one.

FlashInfer has one tuner per process, on which `autotune()` works, so two sessions need two
processes. A forked process has already imported everything.
"""

import contextlib
import os
from collections.abc import Callable
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

from .errors import ImplementationError, Rejected


class SessionProcess:
    """An object in a child process, made by `make(*arguments)` at the first call.

    The child process ends when this process ends or calls `end`.
    """

    def __init__(self, make: Callable[..., object], *arguments: Any) -> None:
        self._connection, child_connection = Pipe()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                self._connection.close()
                _serve(child_connection, make, arguments)
            finally:
                os._exit(0)  # skip the parent's exit handlers and buffers
        child_connection.close()

    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method of the object and return its result.

        Raises `Rejected` where the method raises it, and `ImplementationError` for any other error
        and where the child process has ended.
        """
        try:
            self._connection.send((method, arguments))
            kind, value = self._connection.recv()
        except (EOFError, OSError):
            raise ImplementationError(
                f"the process of the session ended during {method}; open another session."
            ) from None
        if kind == "rejected":
            raise Rejected(*value)
        if kind == "error":
            raise ImplementationError(value)
        return value

    def end(self) -> None:
        """End the child process at once; nothing is saved."""
        self._connection.close()
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._pid, 0)


def _serve(connection: Connection, make: Callable[..., object], arguments: tuple[Any, ...]) -> None:
    made: object = None
    while True:
        try:
            method, given = connection.recv()
        except (EOFError, OSError):
            # The parent has ended or has closed this session. Exit without cleanup: leaving a
            # running `autotune()` context normally would save.
            os._exit(0)
        else:
            try:
                made = make(*arguments) if made is None else made
                answer = ("ok", getattr(made, method)(*given))
            except Rejected as rejected:
                answer = ("rejected", (rejected.code, rejected.member, str(rejected)))
            except Exception as error:
                answer = ("error", f"{type(error).__name__}: {error}")
            connection.send(answer)
