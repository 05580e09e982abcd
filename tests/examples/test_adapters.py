"""The example adapters in other languages do what their pages say."""

import random
import re
import shutil
import stat

import pytest

from pytest_nvfp4.faults import strace
from pytest_nvfp4.fuzz.byte_edits import sampled_substitutions
from pytest_nvfp4.implementations.loader import load
from pytest_nvfp4.implementations.messages import Reading, Rejected
from pytest_nvfp4.implementations.subject import Subject
from pytest_nvfp4.model import documents, judge_native
from pytest_nvfp4.suite.tools import random_plans

from .conftest import ADAPTERS

UNREACHED = {"FIMP-11", "MERG-4", "MERG-5", "RANK-1"}
"""What an adapter without sessions, and without FlashInfer beside it, cannot be asked."""

CLAIMED = {"BUCK", "TACT", "NDOC", "FIMP", "MERG", "PUBL"}


@pytest.fixture
def cpp(compiled):
    return compiled(ADAPTERS / "cpp")


def test_cpp_adapter_passes_whatever_it_claims(cpp, command):
    result = command(cpp, "run", "exec:./adapter")
    assert result.status == 0, result.output
    ran = {id_ for id_, verdict in result.verdicts.items() if verdict != "not_claimed"}
    assert {id_.partition("-")[0] for id_ in ran} == CLAIMED | {"RANK"}
    passed = {id_ for id_ in ran if result.verdicts[id_] == "passed"}
    skipped = {id_ for id_ in ran - passed if result.verdicts[id_] == "skipped"}
    assert ran == passed | skipped, "something fails"
    if not strace.unavailable():
        assert skipped <= UNREACHED, "something was skipped that can be proven here"
    assert "Badge: reader" in result.output
    assert "(yellow)" in result.output


def test_cpp_adapter_reads_damaged_documents_as_the_model_does(cpp):
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    transport = load(f"exec:{cpp}/adapter").json_lines(timeout=60)
    try:
        subject = Subject(transport)
        metadata = subject.describe().native_metadata
        good = documents.native_bytes(documents.native(metadata, random_plans(rng, 2)))
        path = cpp / "damaged.json"
        accepted = 0
        for edit in sampled_substitutions(good, 1500, rng):
            data = edit.apply(good)
            path.write_bytes(data)
            judgement = judge_native(data, metadata)
            answer = subject.read_native(str(path), metadata)
            if judgement.accepted:
                accepted += 1
                assert answer == Reading(judgement.plans, 0), edit
            else:
                assert isinstance(answer, Rejected), edit
                assert judgement.allows(answer.code, answer.member), (edit, answer)
        assert 0 < accepted < 1500
    finally:
        transport.close()


@pytest.fixture(params=["mawk", "gawk"])
def shell_reader(request, tmp_path):
    """The shell reader, and a PATH on which `awk` is the one of the parameter."""
    found = shutil.which(request.param)
    if found is None:
        pytest.skip(f"needs {request.param} for the shell adapter under it")
    folder, tools = tmp_path / "adapters", tmp_path / "tools"
    shutil.copytree(ADAPTERS, folder, ignore=shutil.ignore_patterns("cpp"))
    tools.mkdir()
    (tools / "awk").symlink_to(found)
    return folder, {"PATH": f"{tools}:/usr/bin:/bin"}


def test_shell_adapter_imports_the_oracle_and_fails_in_the_ways_it_is_known_to(
    shell_reader, command
):
    folder, variables = shell_reader
    smoke = command(folder, "smoke", "exec:./reader.sh", **variables)
    assert smoke.status == 0, smoke.output
    result = command(
        folder, "run", "exec:./reader.sh", "--deviations", "reader.sh.deviations.toml", **variables
    )
    assert result.status == 0, result.output
    of = {id_: v for id_, v in result.verdicts.items() if id_.startswith("FIMP")}
    assert of["FIMP-1"] == of["FIMP-10"] == "passed"
    assert sorted(of.values()).count("known_deviation") == 7
    assert re.search(r"Badge: FIMP · MUST 2/11 · .*\(orange\)", result.output), result.output
    bare = command(folder, "run", "exec:./reader.sh", "--contract", "FIMP-7,FIMP-8", **variables)
    assert bare.status == 1, "without the file they are failures"


def test_shell_adapter_is_short_and_executable():
    path = ADAPTERS / "reader.sh"
    assert path.stat().st_mode & stat.S_IXUSR
    assert len(path.read_text().splitlines()) <= 30
