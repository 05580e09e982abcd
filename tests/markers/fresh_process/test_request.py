"""What a marker may ask for, and which runs that is."""

import pytest

from pytest_nvfp4.markers.fresh_process.request import FreshRequest, FreshRun, read_request
from pytest_nvfp4.markers.requests import RequestError

ARMS = {"direct": {}, "fallback": {"VT_FP4_DIRECT_SF": "0"}}


def ask(*marks, timeout=None):
    return read_request([((), mark) for mark in marks], timeout)


def arms_of(request):
    return [run.arm for run in request.runs]


def test_bare_marker_is_one_run_for_ever():
    assert ask({}) == FreshRequest()
    assert ask({}).runs == (FreshRun(1),)


def test_runs_are_numbered():
    assert [run.number for run in ask({"runs": 3}).runs] == [1, 2, 3]


def test_arms_take_turns_every_second_round_the_other_way():
    request = ask({"runs": 6, "arms": ARMS})
    assert request.order == "AB/BA/AB"
    assert arms_of(request) == ["direct", "fallback", "fallback", "direct", "direct", "fallback"]
    assert [dict(run.environment) for run in request.runs[:2]] == [{}, {"VT_FP4_DIRECT_SF": "0"}]


def test_arms_alone_run_once_each():
    assert arms_of(ask({"arms": ARMS})) == ["direct", "fallback"]


def test_order_is_taken_as_written():
    assert arms_of(ask({"arms": ARMS, "order": "BAAB"})) == [
        "fallback",
        "direct",
        "direct",
        "fallback",
    ]


def test_first_arm_is_the_first_of_the_table_whoever_runs_first():
    assert ask({"arms": ARMS, "order": "BA"}).arms == ("direct", "fallback")


def test_nearer_marker_wins_and_the_runs_default_is_last():
    request = ask({"timeout": 3}, {"timeout": 5, "runs": 2}, timeout=7)
    assert (request.timeout, len(request.runs)) == (3, 2)
    assert ask({}, timeout=7).timeout == 7
    assert ask({"timeout": None}, timeout=7).timeout is None


def test_comparison_is_for_all_or_for_names():
    assert ask({"compare": "ignore"}).compare == {"": "ignore"}
    assert ask({"compare": {"text": "ignore"}}).compare == {"": "equal", "text": "ignore"}


@pytest.mark.parametrize(
    ("mark", "words"),
    [
        ({"runs": 0}, ["runs=0", "from 1 to 1000"]),
        ({"runs": True}, ["runs=True"]),
        ({"runs": 2.0}, ["runs=2.0"]),
        ({"runs": 1001}, ["runs=1001"]),
        ({"run": 3}, ["no option 'run'", "runs"]),
        ({"arms": {}}, ["arms={}"]),
        ({"arms": {"a": {"X": 1}}}, ["arms="]),
        ({"arms": {"a": {"X=": "1"}}}, ["arms="]),
        ({"arms": {"": {}}}, ["arms="]),
        ({"arms": [("a", {})]}, ["arms="]),
        ({"arms": ARMS, "runs": 3}, ["runs=3", "2 arms", "multiple of 2"]),
        ({"arms": ARMS, "order": "AAC"}, ["arm C", "2 arms"]),
        ({"order": "AB"}, ["arm B", "no arms"]),
        ({"arms": ARMS, "order": "AA"}, ["never runs arm 'fallback'"]),
        ({"arms": ARMS, "order": "ABAB", "runs": 6}, ["4 runs", "runs=6"]),
        ({"arms": ARMS, "order": "ab"}, ["order='ab'"]),
        ({"arms": ARMS, "order": "AB/"}, ["order='AB/'"]),
        ({"timeout": 0}, ["timeout=0"]),
        ({"timeout": "3"}, ["timeout='3'"]),
        ({"compare": "all"}, ["compare='all'", "within-arms"]),
        ({"compare": {"x": "all"}}, ["compare="]),
        ({"compare": "within-arms"}, ["no arm runs twice", "runs="]),
        ({"arms": ARMS, "compare": {"x": "within-arms"}}, ["no arm runs twice"]),
        ({"at_least": 1.0}, ["two arms", "there are 0"]),
        ({"arms": ARMS, "at_least": -1}, ["at_least=-1"]),
    ],
    ids=str,
)
def test_mistakes_are_one_sentence(mark, words):
    with pytest.raises(RequestError) as caught:
        ask(mark)
    text = str(caught.value)
    assert all(word in text for word in ["fresh_process", *words]), text
    assert "\n" not in text


def test_positional_options_are_refused():
    with pytest.raises(RequestError, match="named options only; write runs=6"):
        read_request([((6,), {})])
