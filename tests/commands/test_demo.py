"""The demo's arithmetic: agreement, what a choice costs, and a table that fits a terminal."""

import io
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_nvfp4.commands import demo, tuning
from pytest_nvfp4.implementations.messages import Planned
from pytest_nvfp4.plans import PlanKey, PlanMap

KEYS = [PlanKey(m, 64, 128) for m in (1, 2, 4)]


def plan_map(*tactics):
    return PlanMap(list(zip(KEYS, tactics, strict=True)))


def test_agreement_counts_all_and_pairs():
    found = tuning.agreement([plan_map(1, 2, 3), plan_map(1, 2, 4), plan_map(1, 5, 4)])
    assert (found.profiles, found.in_all, found.pairs) == (3, 1, (2, 1, 2))


def test_regret_is_judged_by_the_median_of_others():
    judges = [{key: {0: 10.0, 1: time} for key in KEYS} for time in (11.0, 12.0, 40.0)]
    assert tuning.regrets(plan_map(0, 1, 0), judges) == pytest.approx([0, 0.2, 0])


def test_a_choice_that_no_judge_timed_has_no_regret():
    judges = [{key: {0: 10.0} for key in KEYS}]
    assert tuning.regrets(plan_map(0, 7, 0), judges) == [0, 0]


@pytest.mark.parametrize("times", [{0: 0.0, 1: 1.0}, {0: float("inf"), 1: float("inf")}, {}, None])
def test_times_that_no_clock_gave_show_no_regret(times):
    key, *others = KEYS
    judge = {other: {0: 10.0, 1: 20.0} for other in others}
    if times is not None:
        judge[key] = times
    assert tuning.regrets(plan_map(0, 0, 1), [judge]) == [0, 1]
    nothing = [tuning.Tuned(plan_map(0, 1, 2), {} if times is None else {key: times}, 1.0)] * 2
    lines = list(demo.table(nothing, nothing, [plan_map(0, 1, 2)] * 2))
    assert not any("regret" in line for line in lines)


def test_times_of_a_plan_that_was_not_tuned_are_not_taken_for_its_own():
    asked = []
    process = tuning._Process.__new__(tuning._Process)
    process._session = "session"
    process._workload = tuning.Workload(4, [(64, 128)])
    process.warm_up = lambda: None
    process.plans = lambda: plan_map(0, 0, 0)
    process._subject = SimpleNamespace(
        plan=lambda session, m, n, k: Planned(0, "live", tuned=m == 1, lazy=False),
        times=lambda session: asked.append(session) or {0: 1.0},
        complete=lambda session: SimpleNamespace(failure=None),
    )
    found = process.tune(SimpleNamespace(step=lambda: None))
    assert found.times == {KEYS[0]: {0: 1.0}}
    assert asked == ["session"]


@pytest.mark.parametrize(("architecture", "largest"), [(90, 34816), (0, 34816 // 16)])
def test_a_gpu_gets_the_oracle_itself(architecture, largest):
    workload = tuning.workload_for(SimpleNamespace(native_metadata={"architecture": architecture}))
    assert max(n for n, _ in workload.shapes) == largest
    assert len(workload.keys) == len(set(workload.keys)) == (64 if architecture else 32)


@pytest.mark.parametrize("timed", [True, False])
def test_the_table_fits_eighty_columns(timed):
    times = {key: dict.fromkeys(range(32), 1.0) | {3: 1.5} for key in KEYS} if timed else None
    alone = [tuning.Tuned(plan_map(1, 2, number), times, 100.0) for number in range(64)]
    lines = list(demo.table(alone, alone[2:4], [plan_map(1, 2, 3)] * 64))
    assert max(map(len, lines)) <= 80
    assert ("regret" in "\n".join(lines)) == timed
    assert any(line.startswith("64 with one map") and " 3 of 3 " in line for line in lines)
    assert any("50.0%" in line for line in lines) == timed


def test_progress_off_a_terminal_is_two_lines():
    out = io.StringIO()
    with demo.Progress(out, "tuning", 2) as progress:
        progress.step()
        progress.step()
    first, last = out.getvalue().splitlines()
    assert first == "tuning: 2 to do"
    assert last.startswith("tuning: 2 of 2 in ")


@pytest.mark.parametrize("stage", ["tuning alone", "two at a time"])
def test_an_interrupt_ends_it_in_every_stage(stage):
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest_nvfp4.cli", "demo", "faulty.partial:Quick"],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while not process.stdout.readline().startswith(stage):
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode == 130
    assert errors == ""
