"""Plan statistics: from the hook, from the reference, from FlashInfer; and what they must say."""

import importlib.util
import re

import pytest
from workers import WITH_WORKERS

from pytest_nvfp4.hooks import PlanStats
from pytest_nvfp4.markers.frozen_map.statistics import (
    Statistics,
    StatisticsError,
    read_statistics,
    violations,
)
from pytest_nvfp4.plans import PlanKey, PlanMap

from .conftest import PLANS

SOURCE = "the hook"


# --- What is read


@pytest.mark.parametrize(
    "answer",
    [
        {"tuned": 0, "saved": 1, "lazy": 2, "plans": dict(PLANS)},
        {"tuned": 0, "saved": 1, "lazy": 2, "plans": PLANS.rows, "rejected": 0},
        {"tuned": 0, "saved": 1, "lazy": 2, "plans": [list(row) for row in PLANS.rows]},
        PlanStats(tuned=0, saved=1, lazy=2, plans=PLANS),
    ],
)
def test_answer_is_read(answer):
    counts = {"tuned": 0, "saved": 1, "rejected": 0, "lazy": 2}
    assert read_statistics(answer, SOURCE) == Statistics(SOURCE, counts, PLANS)


GOOD = {"tuned": 0, "saved": 0, "lazy": 0}


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ([], "answered with []; return a PlanStats, a dict or None"),
        ("x" * 100, "answered with '" + "x" * 56 + "...; return a PlanStats, a dict or None"),
        ({"tuned": 0, "saved": 0}, "answered without lazy; give a count"),
        ({**GOOD, "hits": 1}, "answered with the member 'hits'; there are tuned, saved, lazy, "),
        ({**GOOD, "tuned": True}, "answered with tuned True; give a count"),
        ({**GOOD, "tuned": -1}, "answered with tuned -1; give a count"),
        ({**GOOD, "tuned": 0.0}, "answered with tuned 0.0; give a count"),
        ({**GOOD, "rejected": None}, "answered with rejected None; give a count"),
        ({**GOOD, "plans": 64}, "answered with plans 64; give a mapping"),
        ({**GOOD, "plans": "none"}, "answered with plans 'none'; give a mapping"),
        ({**GOOD, "plans": {(1, 2): 3}}, "answered with the plan ((1, 2), 3); give (M, N, K) and"),
        ({**GOOD, "plans": {"1,2,3": 3}}, "answered with the plan ('1,2,3', 3); give (M, N, K) "),
        ({**GOOD, "plans": {(1, 2, 3): "4"}}, "answered with the plan ((1, 2, 3), '4'); give (M,"),
        ({**GOOD, "plans": [(1, 2, 3)]}, "answered with the plan (1, 2, 3); give (M, N, K) and "),
        ({**GOOD, "plans": [7]}, "answered with the plan 7; give (M, N, K) and a tactic id"),
        ({**GOOD, "plans": [(1, 2, 3, 4)] * 2}, "answered with two plans for (1, 2, 3); give one"),
    ],
)
def test_nonsense_is_one_sentence(answer, sentence):
    with pytest.raises(StatisticsError) as caught:
        read_statistics(answer, SOURCE)
    assert str(caught.value).startswith(f"{SOURCE} {sentence}")
    assert "\n" not in str(caught.value)


# --- What is a violation


def told(plans=None, **counts):
    return [
        Statistics("engine", {"tuned": 0, "saved": 0, "rejected": 0, "lazy": 0} | counts, plans)
    ]


def found(told, **how):
    return list(violations(told, PLANS, "map", **how))


@pytest.mark.parametrize(
    ("name", "contract"),
    [("tuned", "FROZ-1"), ("saved", "FROZ-1"), ("rejected", "FROZ-1"), ("lazy", "FROZ-5")],
)
def test_each_count_must_be_nothing(name, contract):
    assert found(told(PLANS, **{name: 3})) == [f"{contract}: engine counted {name} = 3, not 0"]
    assert found(told(PLANS)) == []
    assert found(told(None)) == []


def test_other_plan_is_shown():
    (said,) = found(told(PlanMap({**PLANS, PlanKey(2, 64, 64): 9})))
    head, columns, row = said.splitlines()
    assert head == "FROZ-1: engine selected 1 of its 6 plans otherwise than map says:"
    assert columns.split() == ["N", "K", "M", "file", "selected"]
    assert row.split()[:4] == ["64", "64", "2", "2"]
    assert "9 128x64" in row
    assert max(map(len, said.splitlines()[1:])) <= 82


def test_plan_that_the_file_does_not_have_is_shown():
    (said,) = found(told(PlanMap({**PLANS, PlanKey(8, 64, 64): 9})))
    assert re.search(r"64 +64 +8 +— +9 128x64", said)


def test_long_table_is_cut():
    many = PlanMap({PlanKey(1, n, 16): 0 for n in range(1, 31)})
    (said,) = found(told(many))
    assert said.endswith("… and 10 more")
    assert len(said.splitlines()) == 23


def test_some_plans_are_enough_unless_all_are_wanted():
    some = PlanMap(list(PLANS.items())[:4])
    rest = PlanMap(list(PLANS.items())[4:])
    assert found(told(some)) == []
    (said,) = found(told(some), complete=True)
    assert said.startswith("FROZ-1: 2 of the 6 plans of map were not selected:")
    assert found(told(some), complete=True, ended=False) == []
    assert found([*told(some), *told(rest)], complete=True) == []


def test_none_of_the_plans_is_not_enough():
    nothing = told(PlanMap(()))
    assert found(nothing) == ["FROZ-1: none of the 6 plans of map was selected; was it loaded?"]
    assert found(nothing, ended=False) == []
    assert found([*nothing, *told(PLANS)]) == []


# --- The hook, in pytest runs


COUNTS = "'tuned': 0, 'saved': 0, 'lazy': 0"
HOOK = "the hook pytest_nvfp4_plan_stats"
ANSWERS = {
    "good": (f"{{{COUNTS}, 'plans': PLANS}}", ""),
    "tuned": (f"{{{COUNTS}, 'plans': PLANS, 'tuned': 1}}", "FROZ-1: {hook} counted tuned = 1, not"),
    "other plan": (
        f"{{{COUNTS}, 'plans': {{**PLANS, (4, 64, 64): 31}}}}",
        "FROZ-1: {hook} selected 1",
    ),
    "nonsense": ("[1, 2]", "{hook} answered with [1, 2]; return a PlanStats, a dict or None"),
    "raises": ("item.funcargs['engine']", "{hook} raised KeyError('engine') at "),
}


def hook(answer):
    return f"def pytest_nvfp4_plan_stats(item):\n    return {answer}"


def errors(output):
    """What each test was told at its teardown, by its number."""
    parts = re.split(r"^_+ ERROR at teardown of test_(\d+) _+$", output, flags=re.MULTILINE)
    texts = [text.split("short test summary")[0] for text in parts[2::2]]
    return dict(zip(map(int, parts[1::2]), texts, strict=True))


def assert_told(output, cases):
    told = errors(output)
    for number, (name, (_, part)) in enumerate(cases.items()):
        said = part.format(hook=HOOK)
        assert (number in told) == bool(part), (name, output)
        assert not part or f"\nfrozen_map: {said}" in told[number], (name, told[number])
    assert "Traceback" not in output


@WITH_WORKERS
def test_answer_of_the_hook_counts(project, run, workers):
    answers = ", ".join(f"lambda item: {answer}" for answer, _ in ANSWERS.values())
    project(
        "".join(f"@frozen(MAP)\ndef test_{n}(): pass\n" for n in range(len(ANSWERS))),
        conftest=f"ANSWERS = [{answers}]\n" + hook("ANSWERS[int(item.name[5:])](item)"),
    )
    result = run(workers, returncode=1)
    result.assert_outcomes(passed=5, errors=4)
    assert_told(result.stdout.str(), ANSWERS)
    assert result.told["test_0"]["statistics"] == f"{HOOK}: 6 plans"


def test_hook_sees_the_fixtures_of_the_test_and_stands_for_what_else_there_is(project, run):
    project(
        """
class Engine:
    closed = False
    def stats(self):
        assert not self.closed
        return dict(tuned=0, saved=0, lazy=7)
@pytest.fixture
def engine():
    start(VT_FP4_PERSISTENT_CACHE="1")
    engine = Engine()
    yield engine
    engine.closed = True
@frozen(MAP)
def test_it(engine): pass
""",
        conftest=hook("item.funcargs['engine'].stats()"),
    )
    result = run(returncode=1)
    assert "FROZ-5: the hook pytest_nvfp4_plan_stats counted lazy = 7" in result.stdout.str()
    assert "nvfp4_reference" not in result.told["test_it"]["statistics"]


def test_statistics_are_required_where_a_test_says_so(project, run):
    project(
        """
@frozen(MAP)
def test_not_required(): pass
@frozen(MAP, stats="required")
def test_required(): pass
@frozen(MAP, complete=True)
def test_complete(): pass
@frozen(MAP, complete=True)
def test_counts_only(): pass
@frozen(MAP, stats="required")
def test_counts_only_are_statistics_too(counts_only): pass
@frozen(MAP, stats="off")
def test_off(): Session(resolve({}))
@frozen(MAP, stats="required")
def test_skipped(): pytest.skip()
@pytest.mark.xfail(strict=True)
@frozen(MAP, stats="required")
def test_known(): raise RuntimeError
@frozen(MAP, stats="required", complete=True)
def test_failed(): raise RuntimeError
""",
        conftest=f"""
@pytest.fixture
def counts_only(): pass
def pytest_nvfp4_plan_stats(item):
    return {{{COUNTS}}} if "counts_only" in item.name + str(item.fixturenames) else None
""",
    )
    result = run(returncode=1)
    result.assert_outcomes(passed=6, failed=1, errors=3, skipped=1, xfailed=1)
    output = result.stdout.str()
    for test, option in (
        ("required", "stats='required'"),
        ("complete", "complete=True"),
        ("counts_only", "complete=True"),
    ):
        said = f"frozen_map: {option} needs plan statistics, and there are none; implement the hook"
        assert re.search(rf"ERROR at teardown of test_{test} _+\n{re.escape(said)}", output)


# --- The reference, by its own announcement


REFERENCE = {
    "served": ("start()", ""),
    "kept nowhere": ("start(); __import__('gc').collect()", ""),
    "closed": ("start().close()", ""),
    "tuned": (
        "tuned(VT_FP4_AUTOTUNE_CACHE_READONLY='0', VT_FP4_PERSISTENT_CACHE='0')",
        "FROZ-1: nvfp4_reference counted tuned = 1, not 0",
    ),
    "lazy": ("lazy()", "FROZ-5: nvfp4_reference counted lazy = 1, not 0"),
    "saved": (
        "tuned(VT_FP4_AUTOTUNE_CACHE_READONLY='0', VT_FP4_AUTOTUNE_CACHE_PATH='other.json')",
        "FROZ-1: nvfp4_reference counted saved = 1, not 0",
    ),
    "rejected": (
        "rejected()",
        "FROZ-1: nvfp4_reference counted rejected = 1, not 0",
    ),
    "other map": (
        "start(VT_FP4_AUTOTUNE_CACHE_PATH='other/native.json')",
        "FROZ-1: nvfp4_reference selected 1 of its 6 plans otherwise than ",
    ),
    "nothing loaded": (
        "Session(resolve(os.environ))",
        "FROZ-1: none of the 6 plans of ",
    ),
}


def test_reference_tells_by_itself(project, run, maps, pytester):
    other = pytester.mkdir("other") / "native.json"
    text = (maps / "native.json").read_text()
    other.write_text(text.replace('"tactic_id": 1,', '"tactic_id": 3,', 1))
    assert other.read_text() != text
    project(
        """
from nvfp4_reference import Rejected
from nvfp4_reference.scripted_timer import Script
def tuned(**variables):
    session = Session(resolve(dict(os.environ, **variables)), back_end=Script.from_json({}))
    session.warm_up(1, [(64, 64)])
    session.complete()
def lazy():
    session = start()
    with pytest.raises(Rejected):
        session.plan(64, 64, 64)
def rejected():
    pathlib.Path("bad").write_text("{")
    session = Session(resolve(dict(os.environ, VT_FP4_FLASHINFER_CACHE_PATH="bad")))
    with pytest.raises(Rejected):
        session.warm_up(4, [(64, 64)])
"""
        + "".join(
            f"@frozen(MAP)\ndef test_{number}(): {code}\n"
            for number, (code, _) in enumerate(REFERENCE.values())
        )
    )
    output = run(returncode=1).stdout.str()
    assert_told(output, REFERENCE)


def test_session_of_a_wider_fixture_counts_in_each_test_that_it_was_frozen_for(project, run):
    project("""
@pytest.fixture(scope="class")
def engine(): return start()
class TestIt:
    @frozen(MAP, stats="required")
    def test_first(self, engine): pass
    @frozen(MAP, stats="required")
    def test_second(self, engine): pass
    @frozen("maps/flashinfer.json", stats="required")
    def test_on_another_map(self, engine): pass
@frozen(MAP, stats="required")
def test_after_its_end(): pass
""")
    result = run(returncode=1)
    result.assert_outcomes(passed=4, errors=2)
    assert "ERROR at teardown of TestIt.test_on_another_map" in result.stdout.str()
    assert "ERROR at teardown of test_after_its_end" in result.stdout.str()


def test_session_of_one_test_is_not_the_next_ones(project, run):
    project("""
KEPT = []
def bad():
    pathlib.Path("bad").write_text("{")
    KEPT.append(Session(resolve(dict(os.environ, VT_FP4_FLASHINFER_CACHE_PATH="bad"))))
    with pytest.raises(Exception, match="not JSON"):
        KEPT[-1].warm_up(4, [(64, 64)])
@pytest.fixture
def engine(): bad()
@frozen(MAP)
def test_first(): bad()
@frozen(MAP)
def test_second(engine): start()
@frozen(MAP, stats="required")
def test_third(): start()
""")
    result = run(returncode=1)
    result.assert_outcomes(passed=3, errors=2)
    assert "test_third" not in result.stdout.str()


# --- FlashInfer

STAND_IN = '''
"""What FlashInfer 0.6.13's autotuner does for the caller of choose_one, as far as it matters."""
class AutoTuner:
    _instance = None
    def __init__(self):
        self.profiling_cache, self.is_tuning_mode, self.file = {}, False, {}
    @classmethod
    def get(cls):
        cls._instance = cls._instance or cls()
        return cls._instance
    def get_effective_map_to_tuning_buckets(self, tuning_config, spec_idx=0):
        return lambda m: 1 << max(0, m - 1).bit_length()
    def search_cache(self, custom_op, runners, input_shapes, tuning_config, inputs=None):
        for index, runner in enumerate(runners):
            key = (custom_op, type(runner).__name__, tuple(map(tuple, input_shapes[:2])))
            if key in self.profiling_cache:
                return True, index, self.profiling_cache[key], None
        return False, 0, -1, None
    def choose_one(self, custom_op, runners, tuning_config, inputs, **kwargs):
        (m, half), second = (one.shape for one in inputs)
        bucket = self.get_effective_map_to_tuning_buckets(tuning_config)(m)
        shapes = [(bucket, half), second]
        hit, index, tactic, _ = self.search_cache(
            custom_op, runners, shapes, tuning_config, inputs=inputs
        )
        if not hit and self.is_tuning_mode:
            key = (custom_op, type(runners[0]).__name__, tuple(map(tuple, shapes)))
            self.profiling_cache[key] = 17
            _, index, tactic, _ = self.search_cache(custom_op, runners, shapes, tuning_config)
        return runners[index], tactic
'''

USE = """
class Matrix:
    def __init__(self, *shape): self.shape = shape
class CutlassFp4GemmRunner: pass
class CudnnFp4GemmRunner: pass
def load(plans=PLANS, runner="CutlassFp4GemmRunner"):
    tuner = AutoTuner.get()
    tuner.is_tuning_mode = False
    tuner.profiling_cache = {
        ("fp4_gemm", runner, ((m, k // 2), (k // 2, n))): tactic
        for (m, n, k), tactic in plans.items()
    }
    return tuner
def product(m, n, k, runner=CutlassFp4GemmRunner, op="fp4_gemm"):
    inputs = [Matrix(m, k // 2), Matrix(k // 2, n)]
    return AutoTuner.get().choose_one(op, [runner()], None, inputs)
"""

FLASHINFER = {
    "good": ("load(); assert [product(*key)[1] for key in PLANS] == list(PLANS.values())", ""),
    "buckets": ("load(); product(3, 64, 64)", ""),
    "miss": ("load(); product(700, 64, 64)", "FROZ-5: flashinfer found no plan for M 700 (bucket "),
    "not loaded": (
        "load({}); product(1, 64, 64)",
        "FROZ-5: flashinfer found no plan for M 1 (buck",
    ),
    "tuned": (
        "load().is_tuning_mode = True; product(8, 64, 64)",
        "FROZ-1: flashinfer counted tuned = 1, not 0",
    ),
    "tuning mode, but nothing to tune": ("load().is_tuning_mode = True; product(4, 64, 64)", ""),
    "other tactic": (
        "load({**PLANS, (4, 64, 64): 30}); product(4, 64, 64)",
        "FROZ-1: flashinfer selected 1 of its 1 plans otherwise than ",
    ),
    "two tactics": (
        "load(); product(4, 64, 64); load({**PLANS, (4, 64, 64): 30}); product(4, 64, 64)",
        "FROZ-1: flashinfer ran both tactic 4 and 30 for M 4 (bucket 4), N 64, K 64",
    ),
    "other runner": (
        "load(runner='CudnnFp4GemmRunner'); product(4, 64, 64, CudnnFp4GemmRunner)",
        "FROZ-1: flashinfer ran CudnnFp4GemmRunner for M 4 (bucket 4), N 64, K 64, not a plan of ",
    ),
    "other operation": ("product(4, 64, 64, op='bf16_gemm')", ""),
}


@pytest.fixture
def flashinfer(pytester):
    folder = pytester.mkpydir("flashinfer")
    (folder / "autotuner.py").write_text(STAND_IN)


@pytest.mark.usefixtures("flashinfer")
def test_flashinfer_is_heard(project, run):
    project(
        "from flashinfer.autotuner import AutoTuner\n"
        "BEFORE = AutoTuner.choose_one, AutoTuner.search_cache\n"
        + USE
        + "".join(
            f"@frozen('maps/flashinfer.json')\ndef test_{number}(): {code}\n"
            for number, (code, _) in enumerate(FLASHINFER.values())
        )
        + "def test_after(): assert BEFORE == (AutoTuner.choose_one, AutoTuner.search_cache)\n"
        + "@frozen(MAP)\ndef test_native(): load({}); product(1, 64, 64)\n"
    )
    result = run(returncode=1)
    bad = sum(bool(part) for _, part in FLASHINFER.values())
    result.assert_outcomes(passed=len(FLASHINFER) + 2, errors=bad)
    output = result.stdout.str()
    assert_told(output, FLASHINFER)
    assert "counted" not in errors(output)[2]  # a miss while nothing is tuned is no tuning
    assert result.told["test_0"]["statistics"] == "flashinfer: 6 plans"


@pytest.mark.usefixtures("flashinfer")
def test_flashinfer_that_a_fixture_imports_is_heard_and_later_it_is_too_late(project, run):
    project(
        USE
        + """
@frozen("maps/flashinfer.json", stats="required")
def test_late():
    global AutoTuner
    from flashinfer.autotuner import AutoTuner
    load(); product(1, 64, 64)
""",
    )
    result = run(returncode=1)
    result.assert_outcomes(passed=1, errors=1)
    assert (
        "there are none (FlashInfer was imported during the test; import it before)"
        in result.stdout.str()
    )
    project(
        USE
        + """
@pytest.fixture
def tuner():
    global AutoTuner
    from flashinfer.autotuner import AutoTuner
    return load()
@frozen("maps/flashinfer.json", stats="required")
def test_it(tuner): product(1, 64, 64)
"""
    )
    run().assert_outcomes(passed=1)


@pytest.mark.usefixtures("flashinfer")
def test_call_that_is_not_understood_disturbs_nobody(project, run):
    project(
        "from flashinfer.autotuner import AutoTuner\n"
        + USE
        + """
@frozen("maps/flashinfer.json")
def test_it():
    load()
    inputs = [Matrix(4, 32), Matrix(32, 64)]
    class Tuner(AutoTuner):
        def get_effective_map_to_tuning_buckets(self, config): return lambda m: "many"
    tuner = Tuner()
    AutoTuner.search_cache = lambda *arguments, **more: (True, 0, 4, None)
    assert tuner.choose_one("fp4_gemm", ["runner"], None, inputs)[1] == 4
"""
    )
    result = run(returncode=1)
    result.assert_outcomes(passed=1, errors=1)
    assert "FROZ-1: flashinfer was called in an unknown way (" in result.stdout.str()


REAL = all(importlib.util.find_spec(name) for name in ("flashinfer", "torch"))


@pytest.mark.skipif(not REAL, reason="needs FlashInfer and torch")
def test_real_flashinfer_is_heard(project, run, monkeypatch, tmp_path):
    monkeypatch.setenv("FLASHINFER_WORKSPACE_BASE", str(tmp_path))
    project("""
import torch  # noqa: E402
from flashinfer.autotuner import AutoTuner, TunableRunner, autotune
from flashinfer.gemm.gemm_base import _MM_FP4_TUNING_CONFIG_128x4 as CONFIG
class CutlassFp4GemmRunner(TunableRunner):
    def get_valid_tactics(self, inputs, profile): return [0, 1]
    def forward(self, inputs, tactic=-1, do_preparation=False, **more): pass
def product(m, n, k):
    def empty(*shape): return torch.empty(shape, dtype=torch.uint8, device="meta")
    inputs = [empty(m, k // 2), empty(k // 2, n), empty(m, k // 16), empty(k // 16, n)]
    inputs += [torch.empty(()), torch.bfloat16, empty(m, n), 16, True, empty(1024)]
    return AutoTuner.get().choose_one("fp4_gemm", [CutlassFp4GemmRunner()], CONFIG, inputs)[1]
pytestmark = frozen("maps/flashinfer.json")
PATH = "maps/flashinfer.json"
@frozen(complete=True)
def test_good():
    with autotune(False, cache=os.environ["VT_FP4_FLASHINFER_CACHE_PATH"]):
        assert [product(*key) for key in PLANS] == list(PLANS.values())
def test_miss():
    with autotune(False, cache=PATH):
        assert product(4000, 64, 64) == -1
def test_tuned(monkeypatch):
    monkeypatch.setattr(AutoTuner, "_profile_single_kernel", lambda *a, **more: 1.0)
    with autotune(True, cache=PATH):
        product(4, 256, 64)
""")
    result = run("-W", "default", returncode=1)
    result.assert_outcomes(passed=3, errors=2)
    output = result.stdout.str()
    assert "FROZ-5: flashinfer found no plan for M 4000 (bucket 4096), N 64, K 64" in output
    assert "FROZ-1: flashinfer counted tuned = 3, not 0" in output
    assert "autotuner.py:" in output
    assert result.told["test_good"]["statistics"] == "flashinfer: 6 plans"
