"""The binding oracle is the published document, to the byte."""

import hashlib
import importlib.resources
import json
import subprocess
import sys

import pytest
from pytest_nvfp4.fixtures import render_oracle

from pytest_nvfp4 import oracle
from pytest_nvfp4.model import documents
from pytest_nvfp4.oracle import assert_matches_oracle
from pytest_nvfp4.plans import NotPlansError, PlanKey

FOLDER = importlib.resources.files("pytest_nvfp4.fixtures") / "nvfp4_flashinfer_v025_gb10"
CHECKED_IN = "e81e9181db20d0537a43a101fe4f93aa57df9e42900e8a21c91cafa61e107edd"
ORIGINAL = "b41a8ecc18d69174b20263ee85be097d2dd5cf717efd65a03eb466c0c99cf677"


def test_both_published_digests_and_sizes():
    document = (FOLDER / "autotune_configs.json").read_bytes()
    assert (len(document), hashlib.sha256(document).hexdigest()) == (11948, CHECKED_IN)
    original = document.removesuffix(b"\n")
    assert (len(original), hashlib.sha256(original).hexdigest()) == (11947, ORIGINAL)
    assert oracle.load().sha256 == CHECKED_IN
    assert oracle.load().original_sha256 == ORIGINAL


def test_generator_renders_the_document_from_the_table():
    rendered = render_oracle.render(
        (FOLDER / "plans.csv").read_text(), dict(oracle.load().metadata)
    )
    assert hashlib.sha256(rendered).hexdigest() == ORIGINAL


def test_generator_notices_an_altered_table():
    table = (FOLDER / "plans.csv").read_text().replace("1,5120,6144,4", "1,5120,6144,5")
    assert (
        hashlib.sha256(render_oracle.render(table, dict(oracle.load().metadata))).hexdigest()
        != ORIGINAL
    )


@pytest.mark.parametrize(("arguments", "status"), [([], 0), (["--nope"], 4)])
def test_generator_as_a_command(arguments, status):
    command = [sys.executable, "-m", "pytest_nvfp4.fixtures.render_oracle", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == status, done.stderr
    if status == 0:
        assert ORIGINAL in done.stdout
        assert CHECKED_IN in done.stdout


def test_table_document_and_map_say_the_same():
    loaded = oracle.load()
    assert len(loaded.plans) == 64
    members = json.loads(loaded.document)
    assert members.pop("_metadata") == dict(loaded.metadata)
    keys = {render_oracle.plan_key(*key): tactic for key, tactic in loaded.plans.items()}
    assert {name: tactic for name, (_, tactic) in members.items()} == keys
    assert keys.keys() == {documents.plan_key(*key) for key in loaded.plans}
    assert loaded.plans[PlanKey(2048, 34816, 5120)] == 16


def test_oracle_is_immutable(nvfp4_oracle):
    assert nvfp4_oracle is oracle.load()
    with pytest.raises(TypeError):
        nvfp4_oracle.metadata["gpu"] = "another"
    with pytest.raises(AttributeError):
        nvfp4_oracle.plans = None


# --- Comparing with it


def changed(**options):
    """The oracle's plans with one other tactic, and as asked one missing, one foreign."""
    plans = dict(oracle.load().plans) | {(1, 5120, 6144): 31}
    if options.get("missing"):
        del plans[2048, 34816, 5120]
    if options.get("foreign"):
        plans[3, 5120, 6144] = 0
    return plans


def failure(plans, **options):
    with pytest.raises(AssertionError) as caught:
        assert_matches_oracle(plans, **options)
    return str(caught.value).splitlines()


def test_the_binding_plans_match():
    assert_matches_oracle(oracle.load().plans)
    assert_matches_oracle(dict(oracle.load().plans), subset=True)
    some = dict(list(oracle.load().plans.items())[:7])
    assert_matches_oracle(some, subset=True)
    oracle.load().assert_matches(some, subset=True)


def test_other_plans_are_counted_and_shown_in_80_columns():
    lines = failure(changed(missing=True, foreign=True))
    assert lines == [
        "62 of 65 plans agree with the binding oracle",
        "     N      K     M  oracle                      given",
        "  5120   6144     1   4 128x32x256 swap dp       31 128x256x128 plain sk",
        "  5120   6144     3  —                            0 128x32x128 swap dp",
        " 34816   5120  2048  16 128x128x128 swap dp      —",
    ]


def test_subset_may_lack_plans_but_not_add_or_change_any():
    assert failure(changed(missing=True), subset=True)[0].startswith("62 of 63 plans agree")
    some = {key: tactic for key, tactic in changed(foreign=True).items() if key[0] < 4}
    lines = failure(some, subset=True)
    assert lines[0] == f"{len(some) - 2} of {len(some)} plans agree with the binding oracle"
    assert len(lines) == 4


def test_nothing_matches_nothing():
    assert failure({})[0] == "0 of 64 plans agree with the binding oracle"
    with pytest.raises(NotPlansError, match="no plan to compare with the oracle; give at least"):
        assert_matches_oracle({}, subset=True)


def test_very_many_other_plans_are_cut():
    lines = failure({(m, 16, 16): 0 for m in range(1, 1001)})
    assert lines[-1] == "… and 1000 more plans differ"
    assert len(lines) == 2 + 64 + 1


def test_failure_in_a_test_shows_the_test_and_the_table(pytester):
    pytester.makepyfile(
        """
        from pytest_nvfp4.oracle import assert_matches_oracle

        def test_function(nvfp4_oracle):
            assert_matches_oracle(dict(nvfp4_oracle.plans) | {(1, 5120, 6144): 31})

        def test_method(nvfp4_oracle):
            nvfp4_oracle.assert_matches({(1, 5120, 6144): 31}, subset=True)

        def test_mistake(nvfp4_oracle):
            nvfp4_oracle.assert_matches([1])
        """
    )
    result = pytester.runpytest_subprocess("-p", "nvfp4")
    result.assert_outcomes(failed=3)
    result.stdout.fnmatch_lines(
        [
            "E*63 of 64 plans agree with the binding oracle",
            "E*5120   6144     1   4 128x32x256 swap dp       31 128x256x128 plain sk",
            "E*0 of 1 plans agree with the binding oracle",
            "E*NotPlansError: a plan map is needed here, not list; *",
        ]
    )
    result.stdout.no_fnmatch_line("*oracle.py*Error*")
