"""A cache with only load and save is put behind the interface, or told in one sentence why not."""

import json
import sys
import types
from pathlib import Path

import pytest

from pytest_nvfp4.implementations.load_save import LoadSaveError
from pytest_nvfp4.implementations.loader import TargetError, load
from pytest_nvfp4.implementations.messages import Reading, Rejected, ReportedError, SubjectError
from pytest_nvfp4.implementations.smoke import examine
from pytest_nvfp4.implementations.subject import Subject
from pytest_nvfp4.implementations.transports import IN_PROCESS, JSON_LINES
from pytest_nvfp4.model import documents, judge_flashinfer, judge_native
from pytest_nvfp4.plans import PlanKey, PlanMap

PLANS = PlanMap([(PlanKey(1, 256, 128), 9), (PlanKey(512, 256, 128), 7)])


def native_plans(path):
    rows = json.loads(Path(path).read_text())["plans"]
    return {(row["m_bucket"], row["n"], row["k"]): row["tactic_id"] for row in rows}


def save_native(path, plans, metadata):
    Path(path).write_bytes(documents.native_bytes(documents.native(metadata, PlanMap(plans))))


class Strict:
    """A strict cache of both dialects, with a refusal of its own that names nothing."""

    class NoError(Exception):
        pass

    refusals = NoError

    def load(self, path, expected):
        judge = judge_native if "format" in expected else judge_flashinfer
        judgement = judge(Path(path).read_bytes(), expected)
        if not judgement.accepted:
            raise self.NoError("no")
        return [(*key, tactic) for key, tactic in judgement.plans.items()]

    def save(self, path, plans, *, environment):
        save_native(path, plans, environment)


@pytest.fixture
def made(monkeypatch):
    """``made(cache)`` is the target of a cache that lies in a module as `it`."""

    def make(cache):
        module = types.ModuleType("made_up_cache")
        module.it = cache
        monkeypatch.setitem(sys.modules, "made_up_cache", module)
        return load("made_up_cache:it")

    return make


def simple(**functions):
    return types.SimpleNamespace(**functions)


def claims(target):
    return set(target.make_adapter().describe()["capabilities"])


def test_what_is_claimed_is_what_the_functions_were_seen_to_do(made):
    assert claims(made(Strict)) == {"flashinfer-import", "native-document", "publication"}
    with_both = simple(load=native_plans, save=save_native)
    assert claims(made(with_both)) == {"native-document", "publication"}

    def imported(path):
        return judge_flashinfer(Path(path).read_bytes(), None).plans or None

    assert claims(made(simple(load=imported))) == {"flashinfer-import"}
    assert claims(made(simple(load=imported, save=save_native))) == {
        "flashinfer-import",
        "publication",
    }


@pytest.mark.parametrize(
    "rows",
    [
        [{"m": 1, "n": 256, "k": 128, "tactic": 4}, {"m": 512, "n": 256, "k": 128, "tactic": 24}],
        ((1, 256, 128, 4), (512, 256, 128, 24)),
        {(1, 256, 128): 4, (512, 256, 128): 24},
    ],
    ids=["mappings", "tuples", "a mapping"],
)
def test_plans_come_in_any_of_the_documented_forms(made, rows):
    assert claims(made(simple(load=lambda path: rows))) == {"flashinfer-import"}


@pytest.mark.parametrize(
    ("cache", "part"),
    [
        (simple(load=7, save=save_native), "'load' of 'made_up_cache:it' is not a function"),
        (simple(load=lambda: {}), "is load(); it must be load(path)"),
        (simple(load=lambda path, mode: {}), "is load(path, mode); it must be load(path)"),
        (simple(load=native_plans, save=lambda path: None), "it must be save(path, plans)"),
        (simple(load=native_plans, save=None), "'save' of 'made_up_cache:it' is not a function"),
        (simple(load=native_plans), "needs save(path, plans) too: there is no save"),
        (simple(save=save_native), "none of the adapter's operations; it needs describe, or load"),
        (simple(load=lambda path: 7), "it must return {(m, n, k): tactic}, or rows"),
        (simple(load=lambda path: ["abc"]), "load returned ['abc']"),
        (simple(load=lambda path: {}), "FlashInfer returned {}; native returned {}"),
        (simple(load=lambda path: {(1, 256, 128): 4.0}), "is not all integers"),
        (simple(load=lambda path: None), "raised TypeError: load returned None"),
        (simple(load=lambda path: 1 / 0), "native raised ZeroDivisionError"),
        (simple(load=native_plans, save=lambda path, plans: None), "save raised FileNotFoundError"),
        (
            simple(load=native_plans, save=lambda path, plans: Path(path).write_text("{}")),
            "what it saves is not a native document (missing-field",
        ),
        (simple(load=native_plans, refusals=3), "a tuple of exception types"),
        (simple(load=native_plans, import_metadata={"gpu": "x"}), "must have the fields flash"),
    ],
)
def test_useless_functions_are_told_in_one_sentence(made, cache, part):
    target = made(cache)
    with pytest.raises((TargetError, LoadSaveError)) as caught:
        target.make_adapter().describe()
    assert part in str(caught.value)
    assert "\n" not in str(caught.value)


def test_functions_that_read_nothing_are_a_broken_adapter(made):
    problem = examine(made(simple(load=lambda path: {})), IN_PROCESS, 10).problem
    assert problem.startswith("describe: ")
    assert "load of 'made_up_cache:it' reads no good document" in problem
    assert "\n" not in problem


def test_model_names_what_a_silent_refusal_is_about(made, tmp_path):
    subject = Subject(made(Strict).in_process())
    metadata = subject.describe().native_metadata
    document = documents.native(metadata, PLANS)
    path = tmp_path / "plans.json"
    path.write_bytes(documents.native_bytes(document))
    assert subject.read_native(str(path), metadata) == Reading(PLANS, 0)
    document["plans"][1]["tactic_id"] = 32
    path.write_bytes(documents.native_bytes(document))
    answer = subject.read_native(str(path), metadata)
    assert (answer.code, answer.member) == ("unknown-tactic", "plans[1].tactic_id")
    assert answer.message == "NoError: no"


def test_refusal_of_a_good_file_gets_no_reason_that_would_be_right(made, tmp_path):
    def picky(path):
        if "picky" in path:
            raise ValueError("not today")
        return native_plans(path)

    subject = Subject(made(simple(load=picky, save=save_native)).in_process())
    metadata = subject.describe().native_metadata
    path = tmp_path / "picky.json"
    path.write_bytes(documents.native_bytes(documents.native(metadata, PLANS)))
    answer = subject.read_native(str(path), metadata)
    assert isinstance(answer, Rejected)
    assert answer.code == "refused"


def test_own_code_and_member_stay(made, tmp_path):
    class NoError(ValueError):
        code, member = "syntax", "here"

    def refuse(path):
        if path == str(tmp_path):
            raise NoError("no")
        return native_plans(path)

    subject = Subject(made(simple(load=refuse, save=save_native)).in_process())
    answer = subject.read_native(str(tmp_path), {})
    assert answer == Rejected("syntax", "here", "no")


def test_any_other_exception_and_nonsense_are_breakage(made, tmp_path):
    bad = tmp_path / "bad.json"
    bad.write_text('{"plans": 7}')
    subject = Subject(made(simple(load=native_plans, save=save_native)).in_process())
    with pytest.raises(ReportedError, match="raised TypeError: 'int' object is not iterable"):
        subject.read_native(str(bad), {})

    def odd(path):
        return 7 if path == str(bad) else native_plans(path)

    subject = Subject(made(simple(load=odd, save=save_native)).in_process())
    with pytest.raises(SubjectError, match="load returned 7"):
        subject.read_native(str(bad), {})


def test_save_that_fails_is_a_failed_publication(made, tmp_path):
    def save(path, plans, metadata):
        if path.startswith(str(tmp_path)):
            raise OSError(28, "No space left on device")
        save_native(path, plans, metadata)

    subject = Subject(made(simple(load=native_plans, save=save)).in_process())
    document = documents.native(subject.describe().native_metadata, PLANS)
    answer = subject.write_native(str(tmp_path / "plans.json"), document)
    assert answer.code == "publication"
    (tmp_path / "folder").mkdir()
    assert subject.write_native(str(tmp_path / "folder"), document).code == "not-regular"


MODULE = """
import json

def load(path):
    with open(path, encoding="utf-8") as file:
        rows = json.load(file)["plans"]
    return {(row["m_bucket"], row["n"], row["k"]): row["tactic_id"] for row in rows}

def save(path, plans, metadata):
    own = {"architecture": "architecture", "device_ordinal": "device_ordinal",
        "fp4_layout": "fp4_layout", "output_dtype": "output_dtype_id",
        "scale_layout": "scale_layout", "tactic_set_version": "tactic_set_version"}
    rows = [{name: metadata[source] for name, source in own.items()} | {"m_bucket": m, "n": n,
        "k": k, "runner": "CutlassFp4GemmRunner", "tactic_id": tactic}
        for (m, n, k), tactic in sorted(plans.items())]
    with open(path, "w") as file:
        json.dump({"_metadata": metadata, "plans": rows}, file, indent=2, sort_keys=True)
        file.write("\\n")
"""


def test_module_is_named_alone_and_works_over_both_transports(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "lenient_cache_module", raising=False)
    (tmp_path / "lenient_cache_module.py").write_text(MODULE)
    target = load("lenient_cache_module")
    for transport in (IN_PROCESS, JSON_LINES):
        examined = examine(target, transport, 60)
        assert examined.problem is None
        assert examined.description.language == "Python, load and save"


@pytest.mark.parametrize("text", ["no_such_module_here", "no.such.module", "3rd", "a..b"])
def test_name_of_no_module_is_unknown(text):
    with pytest.raises(TargetError, match="unknown implementation"):
        load(text)
