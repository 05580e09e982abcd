"""The binding oracle is the published document, to the byte."""

import hashlib
import importlib.resources
import json
import subprocess
import sys

import pytest
from pytest_nvfp4.fixtures import render_oracle

from pytest_nvfp4 import oracle
from pytest_nvfp4.plans import PlanKey

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
    assert loaded.plans[PlanKey(2048, 34816, 5120)] == 16


def test_oracle_is_immutable(nvfp4_oracle):
    assert nvfp4_oracle is oracle.load()
    with pytest.raises(TypeError):
        nvfp4_oracle.metadata["gpu"] = "another"
    with pytest.raises(AttributeError):
        nvfp4_oracle.plans = None
