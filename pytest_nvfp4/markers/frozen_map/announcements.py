"""Plan caches in Python that announce themselves, as the reference does, without this package.

A cache raises the audit event ``nvfp4.plan_cache`` with one object when it is made. The object's
``statistics()`` has the attributes tuned, saved, lazy and rejected, and its ``plans()`` is the map
from (M bucket, N, K) to tactic; both can be called for as long as the object exists, even after the
cache was closed.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pytest_nvfp4.markers.frozen_map.statistics import (
    Statistics,
    StatisticsError,
    read_statistics,
)

EVENT = "nvfp4.plan_cache"
_COUNTS = ("tuned", "saved", "lazy", "rejected")


class Announcements:
    """The caches that were made for tests on frozen files.

    A cache belongs to the test in which it was made. One that a fixture of wider scope made, while
    it was set up, belongs to all tests on that file until the fixture ends.
    """

    def __init__(self) -> None:
        self._path: Path | None = None
        self._now: list[Any] = []
        self._kept: dict[object, list[tuple[Path, Any]]] = {}
        self._fixture: object = None

    def begin(self, path: Path) -> None:
        """A test begins in which a file is frozen."""
        self._path = path
        kept = [pair for pairs in self._kept.values() for pair in pairs]
        self._now = [one for frozen, one in kept if frozen == path]

    def receive(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Take an audit event; add the cache that it announces, if it does."""
        if event != EVENT or len(arguments) != 1 or self._path is None:
            return
        self._now.append(arguments[0])
        if self._fixture is not None:
            self._kept.setdefault(self._fixture, []).append((self._path, arguments[0]))

    @contextmanager
    def within(self, fixture: object) -> Iterator[None]:
        """While a fixture is set up; None where it ends with the test."""
        outer, self._fixture = self._fixture, fixture
        try:
            yield
        finally:
            self._fixture = outer

    def ended(self, fixture: object) -> None:
        """A fixture has ended, and its caches with it."""
        self._kept.pop(fixture, None)

    def statistics(self) -> list[Statistics]:
        """The statistics of this test's caches; raises StatisticsError."""
        return list(self._read())

    def end(self) -> None:
        """The test is over."""
        self._path, self._now = None, []

    def _read(self) -> Iterator[Statistics]:
        for one in tuple(self._now):
            source = type(one).__module__.partition(".")[0]
            try:
                counts = one.statistics()
                members = {name: getattr(counts, name) for name in _COUNTS}
                members["plans"] = one.plans()
            except Exception as error:
                raise StatisticsError(
                    f"the plan cache that {source} announced does not answer ({error!r}); "
                    f"see {EVENT} in the documentation of frozen_map"
                ) from None
            yield read_statistics(members, source)
