"""Run tests that are marked with `frozen_map` on a file that nobody may change.

A test is watched from before its first fixture is set up to after the last that ends with it is
torn down, and within the hold of a GPU lock. A fixture of wider scope that was set up for an
earlier test has read the environment before this, and is another test's affair.
"""

import os
import traceback
from collections.abc import Generator
from contextlib import ExitStack
from dataclasses import dataclass, field

import pytest

from pytest_nvfp4.cache_files.reader import FLASHINFER
from pytest_nvfp4.faults import audit
from pytest_nvfp4.faults.attached import NotAttachedError, Tracer
from pytest_nvfp4.markers.frozen_map.announced import Announced
from pytest_nvfp4.markers.frozen_map.flashinfer_lookups import Lookups
from pytest_nvfp4.markers.frozen_map.frozen_summary import Frozen
from pytest_nvfp4.markers.frozen_map.map_file import (
    FrozenMap,
    MapError,
    State,
    changes,
    observe,
    read_map,
)
from pytest_nvfp4.markers.frozen_map.request import (
    MARK,
    OFF,
    Environment,
    Request,
    read_request,
    variables,
)
from pytest_nvfp4.markers.frozen_map.statistics import (
    StatisticsError,
    Told,
    read_statistics,
    violations,
)
from pytest_nvfp4.markers.frozen_map.watch import Watch
from pytest_nvfp4.markers.requests import RequestError

_HOOK = "pytest_nvfp4_plan_stats"
_SHOWN = 5


@dataclass(slots=True)
class _Current:
    """The test that runs now; `ending` undoes everything that was begun for it."""

    request: Request
    map: FrozenMap
    watch: Watch
    before: State
    tracer: Tracer | None
    lookups: Lookups
    ending: ExitStack
    outcome: str = ""
    told: list[Told] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def is_import(self) -> bool:
        """Whether FlashInfer could have read the file, so that its choices are held to it."""
        return self.map.dialect == FLASHINFER


class FrozenTests:
    """A plugin that freezes; registered where a run has tests that ask for it."""

    def __init__(self, config: pytest.Config):
        self._config = config
        self._current: _Current | None = None
        self._announced = Announced()

    def problem(self, node: pytest.Item) -> str:
        """What is wrong with a test's markers, or nothing."""
        try:
            self._request(node)
        except RequestError as error:
            return str(error)
        return ""

    def _request(self, node: pytest.Item) -> Request:
        marks = [(mark.args, mark.kwargs) for mark in node.iter_markers(MARK)]
        return read_request(marks, os.environ, self._config.rootpath)

    # --- A test

    def begin(self, item: pytest.Item) -> None:
        """Freeze the file, before any fixture of the test is set up."""
        try:
            request = self._request(item)
            frozen = read_map(request.path)
        except (RequestError, MapError) as error:
            raise pytest.fail.Exception(f"{MARK}: {error}", pytrace=False) from None
        with ExitStack() as stack:
            wanted = variables(frozen.dialect, frozen.path)
            stack.callback(Environment(os.environ, wanted).restore)
            tracer = None
            if request.trace_children:
                try:
                    tracer = Tracer()
                except NotAttachedError as error:
                    reason = f"{MARK}: trace_children needs strace: {error}"
                    raise pytest.skip.Exception(reason) from None
                stack.callback(tracer.close)
            lookups = Lookups()
            if request.stats != OFF:
                self._announced.begin(frozen.path)
                stack.callback(self._announced.end)
                stack.enter_context(audit.listening(self._announced.hear))
                stack.callback(lookups.stop)
            before = observe(frozen.path, frozen.sha256)
            watch = Watch(frozen.path, self._config.rootpath)
            stack.enter_context(audit.listening(watch.hear))
            self._current = _Current(
                request, frozen, watch, before, tracer, lookups, stack.pop_all()
            )
        self._listen()
        _show(item, self._current)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[object]
    ) -> Generator[None, object, object]:
        """Know which fixture makes a plan cache that outlives the test."""
        __tracebackhide__ = True  # a fixture's own failure is not our affair
        wide = fixturedef.scope != "function"
        with self._announced.within(fixturedef if wide else None):
            return (yield)

    def pytest_fixture_post_finalizer(self, fixturedef: pytest.FixtureDef[object]) -> None:
        """Know when that has ended."""
        self._announced.ended(fixturedef)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self) -> None:
        """Listen to what the test's fixtures have imported."""
        self._listen()

    def _listen(self) -> None:
        current = self._current
        if current is not None and current.request.stats != OFF and current.is_import:
            current.lookups.listen()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Learn whether the test has run."""
        report = yield
        if self._current is not None and call.when == "call":
            self._current.outcome = report.outcome
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None]:
        """Ask for statistics before the fixtures end, and look at the disk after that."""
        __tracebackhide__ = True  # a fixture's own failure is not our affair
        if self._current is None:
            return (yield)
        if self._current.outcome in ("passed", "failed"):
            self._ask(item, self._current)
        try:
            yield
        except BaseException:
            text = "\n".join(self._finish(item))
            if text:  # the fixture's own failure is the report's; this must not be lost beside it
                item.add_report_section("teardown", MARK, text)
            raise
        found = self._finish(item)
        if found:
            pytest.fail("\n".join(found), pytrace=False)
        return None

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """Undo what an interrupted test has left."""
        if self._current is not None:
            self._current.ending.close()
            self._current = None

    # --- What it did

    def _ask(self, item: pytest.Item, current: _Current) -> None:
        """Gather plan statistics while the test's fixtures are still there."""
        if current.request.stats == OFF:
            return
        try:
            current.told = self._statistics(item, current)
        except StatisticsError as error:
            current.problems.append(str(error))
            return
        if current.outcome == "passed" and current.request.needs_statistics:
            plans = any(one.plans is not None for one in current.told)
            if not current.told or (current.request.complete and not plans):
                current.problems.append(_nothing_told(current))

    def _statistics(self, item: pytest.Item, current: _Current) -> list[Told]:
        try:
            answer = item.ihook.pytest_nvfp4_plan_stats(item=item)
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            raise StatisticsError(
                f"the hook {_HOOK} raised {error!r} at {place.filename}:{place.lineno}"
            ) from None
        if answer is not None:
            return [read_statistics(answer, f"the hook {_HOOK}")]
        return [*self._announced.told(), *current.lookups.told()]

    def _finish(self, item: pytest.Item) -> list[str]:
        """Look at the disk, put everything back, and say what was wrong."""
        current, self._current = self._current, None
        assert current is not None
        with current.ending:
            if current.tracer is not None:
                current.watch.add_traced(current.tracer.stop())
            attempts = tuple(current.watch.attempts)
            after = observe(current.map.path)
        _show(item, current)
        found = [*current.problems]
        found += violations(
            current.told,
            current.map.plans,
            current.map.path,
            ended=current.outcome == "passed",
            complete=current.request.complete,
        )
        found += (f"FROZ-4: {attempt}" for attempt in attempts[:_SHOWN])
        if len(attempts) > _SHOWN:
            found.append(f"FROZ-4: {len(attempts) - _SHOWN} more such calls")
        found += (f"FROZ-4: {change}" for change in changes(current.before, after))
        if not attempts and current.tracer is None and after != current.before:
            found.append(
                "no Python code of this process did that; trace_children=True shows whether "
                "compiled code or a process of the test did"
            )
        return [f"{MARK}: {one}" for one in found]


def _nothing_told(current: _Current) -> str:
    option = "complete=True" if current.request.complete else "stats='required'"
    late = ""
    if current.is_import and current.lookups.too_late:
        late = " (FlashInfer was imported during the test; import it before)"
    return f"{option} needs plan statistics, and there are none{late}; implement the hook {_HOOK}"


def _show(item: pytest.Item, current: _Current) -> None:
    """Put what is known of a frozen file into the reports that are made of a test from now on."""
    frozen = Frozen(
        path=str(current.map.path),
        sha256=current.map.sha256,
        plans=str(len(current.map.plans)),
        statistics=" and ".join(_described(one) for one in current.told) or "none",
    )
    others = [pair for pair in item.user_properties if not pair[0].startswith(f"{MARK}_")]
    item.user_properties[:] = [*others, *frozen.properties()]


def _described(told: Told) -> str:
    return told.source if told.plans is None else f"{told.source}: {len(told.plans)} plans"
