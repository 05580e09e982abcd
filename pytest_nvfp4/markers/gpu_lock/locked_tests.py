"""Hold the lock around tests that are marked with `gpu_lock`.

A function's hold spans its setup, call and teardown, so every rerun of it is a hold of its own. The
session's hold begins with the first locked test and ends with the session; it takes the locks of
all locked tests at once, since a lock that was added later could precede those that are held in the
order in which all runs lock.
"""

import contextlib
import os
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace

import pytest

from pytest_nvfp4.markers.gpu_lock import MARK, idle, nvml
from pytest_nvfp4.markers.gpu_lock.devices import VISIBLE, Card, DeviceError, Physical, resolve
from pytest_nvfp4.markers.gpu_lock.hold_summary import Hold, HoldSummary
from pytest_nvfp4.markers.gpu_lock.holding import (
    HOLDS_VARIABLE,
    Holding,
    Lock,
    merge,
    plan_locks,
    take,
)
from pytest_nvfp4.markers.gpu_lock.kernel_locks import chain
from pytest_nvfp4.markers.gpu_lock.lock_file import LockError
from pytest_nvfp4.markers.gpu_lock.request import SESSION, LockRequest, read_request
from pytest_nvfp4.markers.requests import RequestError


@dataclass(slots=True)
class _Current:
    """The running test: its hold, whether that ends with it, and its cards' load before it."""

    holding: Holding
    ends: bool
    loads: dict[str, idle.Load]


class LockedTests:
    """A plugin that locks; registered where a run has tests to lock.

    `defaults` is what a marker without options asks for.
    """

    def __init__(self, config: pytest.Config, defaults: LockRequest, summary: HoldSummary):
        self._config = config
        self._summary = summary
        self._defaults = defaults
        # Nothing is captured yet, so this is where the user reads, from workers too.
        self._stderr = os.dup(2)
        self._count = 0
        self._cards: tuple[Card, ...] | None = None
        self._everything: tuple[Lock, ...] = ()
        self._session: Holding | None = None
        self._session_problem = ""
        self._run: Holding | None = None
        self._current: _Current | None = None

    # --- What tests ask for

    def problem(self, node: pytest.Item) -> str:
        """What is wrong with a test's markers, or ""."""
        try:
            self.plan(node)
        except RequestError as error:
            return str(error)
        return ""

    def plan(self, node: pytest.Item) -> tuple[LockRequest, tuple[Lock, ...]]:
        """What a test asks for, and the locks that this means; raises RequestError."""
        marks = [(mark.args, mark.kwargs) for mark in node.iter_markers(MARK)]
        request = read_request(marks, self._defaults)
        folder = self._config.rootpath
        return request, plan_locks(request, os.environ, folder, self._inventory)

    def _inventory(self) -> tuple[Card, ...]:
        if self._cards is None:
            try:
                self._cards = nvml.cards()
            except nvml.NvmlError:
                self._cards = ()  # no driver: locks are named as the marker names devices
        return self._cards

    def choose(self, items: Sequence[pytest.Item]) -> None:
        """Plan the session's hold, where one of these tests wants it."""
        plans = []
        for item in items:
            if item.get_closest_marker(MARK) is not None:
                with contextlib.suppress(RequestError):  # reported by its setup
                    plans.append(self.plan(item))
        if any(request.scope == SESSION for request, _ in plans):
            self._everything = merge(lock for _, locks in plans for lock in locks)

    # --- Holding

    def hold_run(self) -> None:
        """Hold the default lock until the session ends; raises pytest.UsageError."""
        locks = plan_locks(self._defaults, os.environ, self._config.rootpath, self._inventory)
        try:
            self._run = self._take(locks, self._defaults.timeout)
        except LockError as error:
            raise pytest.UsageError(f"{MARK}: {error}") from None

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Take the lock, after pytest has evaluated skip marks and before any fixture."""
        if item.get_closest_marker(MARK) is not None:
            self.begin(item)

    def begin(self, item: pytest.Item) -> None:
        """Take the lock of a marked test, or fail the test."""
        try:
            request, locks = self.plan(item)
            holding = self._session_hold(request) if self._everything else None
            ends = holding is None
            holding = holding or self._take(locks, request.timeout)
            self._current = _Current(holding, ends, {})
            _show(item, holding.record)
            if request.require_idle:
                self._current.loads = self._idle_loads(request)
        except (LockError, RequestError, nvml.NvmlError) as error:
            raise pytest.fail.Exception(f"{MARK}: {error}", pytrace=False) from None

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None]:
        """Release the lock, after every fixture that ends with this test."""
        __tracebackhide__ = True  # where a fixture fails, its own traceback is enough
        try:
            yield
        finally:
            problem = self.finish(item)
        if problem:
            pytest.fail(problem, pytrace=False)

    def finish(self, item: pytest.Item) -> str:
        """Release the test's lock, if it has one; return what was wrong, as a message, or ""."""
        current, self._current = self._current, None
        if current is None:
            return ""
        problem = ""
        if current.loads:
            try:
                after = {card: nvml.load(card) for card in current.loads}
                problem = idle.busy_after(current.loads, after, _own_processes())
            except nvml.NvmlError as error:
                problem = str(error)
        if current.ends:
            problem = self._release(current.holding) or problem
        _show(item, current.holding.record)
        return f"{MARK}: {problem}" if problem else ""

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """Release what was held longer than one test."""
        if self._current is not None and self._current.ends:  # the test was interrupted
            self._release(self._current.holding)
        self._current = None
        for holding in filter(None, (self._session, self._run)):
            problem = self._release(holding)
            self._summary.send(holding.record)
            if problem:
                self._notify(problem)
        self._session = self._run = None

    def pytest_unconfigure(self) -> None:
        os.close(self._stderr)

    def _session_hold(self, request: LockRequest) -> Holding:
        if self._session_problem:
            raise LockError(self._session_problem)  # every test would wait for the whole timeout
        if self._session is None:
            try:
                self._session = self._take(self._everything, request.timeout)
            except LockError as error:
                self._session_problem = str(error)
                raise
        return self._session

    def _take(self, locks: Sequence[Lock], timeout: float | None) -> Holding:
        self._count += 1
        holding = take(
            locks,
            timeout=timeout,
            number=self._count,
            environment=os.environ,
            notice=self._notify,
        )
        holds = f"{os.environ.get(HOLDS_VARIABLE, '')} {holding.environment()}"
        os.environ[HOLDS_VARIABLE] = holds.strip()
        return holding

    def _release(self, holding: Holding) -> str:
        mine = holding.environment().split()
        holds = os.environ.get(HOLDS_VARIABLE, "").split()
        os.environ[HOLDS_VARIABLE] = " ".join(one for one in holds if one not in mine)
        if not os.environ[HOLDS_VARIABLE]:
            del os.environ[HOLDS_VARIABLE]
        return holding.release()

    def _notify(self, sentence: str) -> None:
        """Write to the user at once, past any capturing, on a line of its own."""
        with contextlib.suppress(OSError):
            os.write(self._stderr, f"\n{MARK}: {sentence}\n".encode("utf-8", "backslashreplace"))

    # --- Idle cards

    def _idle_loads(self, request: LockRequest) -> dict[str, idle.Load]:
        cards = nvml.cards()  # raises NvmlError where there is no driver
        loads = {one: nvml.load(one) for one in _names(request, cards)}
        problem = idle.busy_before(loads, _own_processes())
        if problem:
            raise LockError(problem)
        return loads


def _names(request: LockRequest, cards: tuple[Card, ...]) -> Iterator[str]:
    try:
        found: tuple[Physical, ...] = resolve(request.devices or VISIBLE, os.environ, lambda: cards)
    except DeviceError as error:
        raise RequestError(str(error)) from None
    for device in found:
        yield device.part or device.card


def _own_processes() -> frozenset[int]:
    """This process and its ancestors, whose contexts on a card are allowed."""
    return frozenset(one.pid for one in chain(os.getpid()))


def _show(item: pytest.Item, hold: Hold) -> None:
    """Put a hold into the reports of a test that are made from now on."""
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker:
        hold = replace(hold, owner=f"{hold.owner}, {worker}")
    others = [pair for pair in item.user_properties if not pair[0].startswith(f"{MARK}_")]
    item.user_properties[:] = [*others, *hold.properties()]
