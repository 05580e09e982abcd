"""The model finds everything that is wrong, and agrees with the reference about any document."""

import copy
import json
import random

import pytest
from nvfp4_reference.adapter import make

from pytest_nvfp4 import oracle
from pytest_nvfp4.fuzz.byte_edits import sampled_substitutions
from pytest_nvfp4.implementations.messages import Rejected
from pytest_nvfp4.implementations.subject import Subject
from pytest_nvfp4.implementations.transports import InProcess
from pytest_nvfp4.model import (
    documents,
    hybrid_bucket,
    judge_flashinfer,
    judge_native,
    profile_list,
)
from pytest_nvfp4.plans import PlanMap

ORACLE = oracle.load()


@pytest.fixture
def rng():
    seed = random.SystemRandom().randrange(2**32)
    print("seed", seed)
    return random.Random(seed)


@pytest.fixture
def reference():
    return Subject(InProcess(make()))


@pytest.fixture
def metadata(reference):
    return dict(reference.describe().native_metadata)


SMALL = PlanMap(list(ORACLE.plans.items())[:3])


def test_buckets_and_profiles_of_the_specification():
    counts = {2048: 16, 4096: 20, 8192: 21, 3000: 18, 300: 10}
    assert {maximum: len(profile_list(maximum)) for maximum in counts} == counts
    assert profile_list(3) == [1, 2, 3]
    assert profile_list(3000)[-2:] == [2560, 3000]
    assert [hybrid_bucket(m) for m in (-1, 0, 1, 3, 257, 2049, 4097)] == [
        1,
        1,
        1,
        4,
        512,
        2560,
        8192,
    ]


def test_all_findings_are_listed(metadata):
    document = documents.native(metadata, SMALL)
    document["_metadata"]["gpu"] = None
    del document["_metadata"]["warmups"]
    document["plans"][0]["k"] = 17
    document["plans"][1]["tactic_id"] = 40
    document["plans"][2] = {**document["plans"][1], "runner": "another"}
    judgement = judge_native(documents.native_bytes(document), metadata)
    found = {(finding.codes[0], finding.member) for finding in judgement.findings}
    assert found == {
        ("wrong-type", "_metadata.gpu"),
        ("missing-field", "_metadata.warmups"),
        ("bad-plan", "plans[0].k"),
        ("unknown-tactic", "plans[1].tactic_id"),
        ("unknown-tactic", "plans[2].tactic_id"),
        ("unknown-runner", "plans[2].runner"),
        ("duplicate-plan", "plans[2]"),
    }
    assert judgement.plans == {}
    assert judgement.allows("bad-plan", "plans[0].k")
    assert not judgement.allows("bad-plan", "plans[1].k")
    assert not judgement.allows("syntax", "plans[0].k")


def test_without_an_environment_a_document_is_its_own(metadata):
    data = documents.native_bytes(documents.native(metadata | {"gpu": "another"}, SMALL))
    assert judge_native(data, None).accepted
    assert not judge_native(data, metadata).accepted


def edits(document, rng):
    """The document with one to three values replaced, removed, repeated or moved."""
    document = copy.deepcopy(document)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        places = []

        def walk(value, places=places):
            for key, child in list(value.items() if isinstance(value, dict) else enumerate(value)):
                places.append((value, key))
                if isinstance(child, dict | list):
                    walk(child, places)

        walk(document)
        if not places:
            break
        owner, key = rng.choice(places)
        odd = (None, True, 0, 1, -1, 31, 32, 16, 4.0, 2**31, 2**31 - 1, "", "*", "unknown", [], {})
        kind = rng.randrange(4)
        if kind == 0:
            del owner[key]
        elif kind == 1:
            owner[key] = rng.choice(odd)
        elif kind == 2:
            owner[key] = copy.deepcopy(rng.choice(places)[0])
        elif isinstance(owner, dict):
            value = owner.pop(key)
            owner[f"{key}{rng.choice(['', ' ', '2', '_'])}"] = value
        else:
            owner.append(copy.deepcopy(owner[key]))
    return document


def agree(subject, dialect, path, data, metadata):
    """Model and subject say the same about these bytes; whether they accept them."""
    path.write_bytes(data)
    if dialect == "native":
        judgement, answer = judge_native(data, metadata), subject.read_native(str(path), metadata)
    else:
        judgement = judge_flashinfer(data, ORACLE.metadata)
        answer = subject.read_flashinfer(str(path), ORACLE.metadata)
    findings = list(map(str, judgement.findings))[:5]
    if isinstance(answer, Rejected):
        said = (answer.code, answer.member)
        assert judgement.allows(*said), (said, findings, data[:3000])
    else:
        assert judgement.accepted, (findings, data[:3000])
        assert (answer.plans, answer.ignored) == (judgement.plans, judgement.ignored)
    return judgement.accepted


@pytest.mark.parametrize("dialect", ["native", "FlashInfer"])
def test_model_and_reference_agree_about_structural_damage(
    reference, metadata, rng, tmp_path, dialect
):
    good = (
        documents.native(metadata, SMALL)
        if dialect == "native"
        else documents.flashinfer(ORACLE.metadata, SMALL)
    )
    accepted = 0
    for _ in range(1500):
        data = json.dumps(edits(good, rng)).encode()
        accepted += agree(reference, dialect, tmp_path / "document.json", data, metadata)
    assert 0 < accepted < 1500, "the edits broke all or nothing"


@pytest.mark.parametrize("dialect", ["native", "FlashInfer"])
def test_model_and_reference_agree_about_damaged_bytes(reference, metadata, rng, tmp_path, dialect):
    good = (
        documents.native_bytes(documents.native(metadata, SMALL))
        if dialect == "native"
        else documents.flashinfer_bytes(ORACLE.metadata, SMALL)
    )
    for substitution in sampled_substitutions(good, 3000, rng):
        data = substitution.apply(good)
        agree(reference, dialect, tmp_path / "document.json", data, metadata)
