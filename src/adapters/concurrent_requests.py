"""Concurrent requests, one thread each, while the scripted device holds every tuning.

A tuning continues once all requests are sent, the requests whose plans are ready are answered, and
the load is done. FlashInfer does not report that a call is waiting, so a ready request or a load
that has not finished after `PATIENCE_SECONDS` counts as one that waits for the tuning.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Any

from .errors import BlockedRequestError

PATIENCE_SECONDS = 3.0


class ConcurrentRequests:
    """`count` requests and perhaps a load.

    `ask(index)` answers one request; `ready` holds the indices of the requests that need no tuning.
    """

    def __init__(
        self,
        ask: Callable[[int], Any],
        count: int,
        ready: Sequence[int],
        load: Callable[[], None] | None,
    ) -> None:
        self._ask = ask
        self._load = load
        self._count = count
        self._ready = set(ready)
        self._changed = threading.Condition()
        self._sent = 0
        self._pending: set[object] = set(ready) | ({"load"} if load else set())
        self._tuning = threading.Event()
        self._blocked = False
        self._answers: list[Any] = [None] * count
        self._error: BaseException | None = None

    def on_tuning(self) -> None:
        """Hold the first run of a tuning until the ready requests and the load are done."""
        self._tuning.set()
        with self._changed:
            self._changed.wait_for(lambda: self._sent == self._count, 10 * PATIENCE_SECONDS)
            if not self._changed.wait_for(lambda: not self._pending, PATIENCE_SECONDS):
                self._blocked = True
                self._pending.clear()

    def run(self) -> list[Any]:
        """Send all requests at once and return their answers in order.

        Raises `BlockedRequestError` where a ready request or the load waited for a tuning, and the
        error of a request that failed.
        """
        threads = [threading.Thread(target=self._send, args=(i,)) for i in range(self._count)]
        for thread in threads:
            thread.start()
        if self._load is not None:
            self._tuning.wait(10 * PATIENCE_SECONDS)
            self._load()
            self._done("load")
        for thread in threads:
            thread.join()
        if self._error is not None:
            raise self._error
        if self._blocked:
            raise BlockedRequestError(
                "a ready plan or a load waited for the tuning of another plan."
            )
        return self._answers

    def _send(self, index: int) -> None:
        with self._changed:
            self._sent += 1
            self._changed.notify_all()
        if index in self._ready and len(self._ready) < self._count:
            # The question is whether a hit waits for a tuning, so wait until one is running.
            self._tuning.wait(10 * PATIENCE_SECONDS)
        try:
            self._answers[index] = self._ask(index)
        except BaseException as error:  # raised by `run`, in the caller's thread
            self._error = error
        finally:
            self._done(index)

    def _done(self, what: object) -> None:
        with self._changed:
            self._pending.discard(what)
            self._changed.notify_all()
