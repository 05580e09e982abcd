"""Requests at the same moment, each in a thread, while the scripted clock stands still.

A tuning may run on once every request has been sent, the ready ones have been answered, and a load
is done. FlashInfer gives no sign of waiting, so a ready request or a load that is not through
after a while counts as one that waits for the tuning.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Any

PATIENCE_SECONDS = 3.0


class WaitedError(Exception):
    """Something waited for a tuning that was none of its business."""


class Together:
    """`ask(index)` answers one request; `ready` are the indices that need no tuning."""

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
        self._open = set(ready) | ({"load"} if load else set())
        self._tuning = threading.Event()
        self._waited = False
        self._answers: list[Any] = [None] * count
        self._error: BaseException | None = None

    def on_tuning(self) -> None:
        """Hold the first run of a tuning back until nothing that need not wait is left."""
        self._tuning.set()
        with self._changed:
            self._changed.wait_for(lambda: self._sent == self._count, 10 * PATIENCE_SECONDS)
            if not self._changed.wait_for(lambda: not self._open, PATIENCE_SECONDS):
                self._waited = True
                self._open.clear()

    def run(self) -> list[Any]:
        """Send everything at once; WaitedError where something waited that must not."""
        threads = [threading.Thread(target=self._send, args=(i,)) for i in range(self._count)]
        for thread in threads:
            thread.start()
        if self._load is not None:
            self._tuning.wait(10 * PATIENCE_SECONDS)
            self._load()
            self._close("load")
        for thread in threads:
            thread.join()
        if self._error is not None:
            raise self._error
        if self._waited:
            raise WaitedError("a ready plan or a load waited for the tuning of another plan.")
        return self._answers

    def _send(self, index: int) -> None:
        with self._changed:
            self._sent += 1
            self._changed.notify_all()
        if index in self._ready and len(self._ready) < self._count:
            # What is asked is whether a hit waits for a tuning, so one has to be under way.
            self._tuning.wait(10 * PATIENCE_SECONDS)
        try:
            self._answers[index] = self._ask(index)
        except BaseException as error:  # raised by `run`, in the caller's thread
            self._error = error
        finally:
            self._close(index)

    def _close(self, what: object) -> None:
        with self._changed:
            self._open.discard(what)
            self._changed.notify_all()
