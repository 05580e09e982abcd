"""The FlashInfer import: its grammar, to the character."""

import json
import random
from dataclasses import fields
from typing import Any

import pytest
from nvfp4_reference import (
    Document,
    ImportMetadata,
    PlanKey,
    Rejected,
    flashinfer_import,
    native_document,
)
from nvfp4_reference.buckets import HYBRID_BUCKETS

from .documents import GB10, ORACLE, ORACLE_METADATA, encoded, verdict

RUNNER = "CutlassFp4GemmRunner"
NO_TEXTS: list[object] = [None, ["*"], 13, {}, True]
NAMES = [field.name for field in fields(ImportMetadata)]


def key(m: object = 16, n: object = 5120, k: int = 6144) -> str:
    half, blocks = k // 2, k // 16
    return (
        f"('fp4_gemm', '{RUNNER}', (({m}, {half}), ({half}, {n}), (-1, {blocks}), "
        f"({blocks}, {n}), (), (0,), (-1, {n}), (0,), (0,), (-1,)), ())"
    )


def document(**members: object) -> dict[str, Any]:
    return {"_metadata": ORACLE_METADATA.as_json(), **members}


def load(root: object) -> flashinfer_import.Import:
    return flashinfer_import.parse(encoded(root), ORACLE_METADATA)


def rejection(root: object) -> tuple[str, str]:
    return verdict(flashinfer_import.parse, encoded(root), ORACLE_METADATA)


def test_the_oracle() -> None:
    found = flashinfer_import.parse(ORACLE, ORACLE_METADATA)
    assert found.ignored == 0
    assert len(found.plans) == 64
    expected = {}
    for text, value in json.loads(ORACLE).items():
        if text != "_metadata":
            numbers = text.split("((")[1].replace("(", "").replace(")", "").split(", ")
            expected[PlanKey(int(numbers[0]), int(numbers[3]), 2 * int(numbers[1]))] = value[1]
    assert found.plans == expected
    native = Document(GB10, found.plans).render().encode()
    assert native_document.parse(native, GB10).plans == expected


def test_random_shapes(rng: random.Random) -> None:
    shapes = {
        PlanKey(rng.choice(sorted(HYBRID_BUCKETS)), rng.randrange(1, 2**31), 16 * blocks): (
            rng.randrange(32)
        )
        for blocks in (rng.randrange(1, 2**27) for _ in range(200))
    }
    root = document(**{key(*shape): [RUNNER, tactic] for shape, tactic in shapes.items()})
    assert load(root) == flashinfer_import.Import(shapes, 0)


@pytest.mark.parametrize("name", NAMES)
def test_each_metadata_field(name: str) -> None:
    member = f"_metadata.{name}"
    root = document()
    root["_metadata"][name] = "*"
    assert load(root).plans == {}
    for value in ("**", "* ", "NVIDIA*", "other"):
        root["_metadata"][name] = value
        assert rejection(root) == ("foreign-environment", member)
    for wrong in NO_TEXTS:
        root["_metadata"][name] = wrong
        assert rejection(root) == ("wrong-type", member)
    del root["_metadata"][name]
    assert rejection(root) == ("missing-field", member)


def test_metadata_as_a_whole() -> None:
    assert load({"_metadata": dict.fromkeys(NAMES, "*")}).plans == {}
    assert rejection({}) == ("missing-field", "_metadata")
    assert rejection({"_metadata": {}})[0] == "missing-field"
    for wrong in (None, ["x"], "*", 1):
        assert rejection({"_metadata": wrong}) == ("wrong-type", "_metadata")


def test_the_import_compares_and_judges_no_value() -> None:
    vague = ImportMetadata(**{**ORACLE_METADATA.as_json(), "gpu": "None"})  # type: ignore[arg-type]
    document = {"_metadata": vague.as_json()}
    assert flashinfer_import.parse(encoded(document), vague).plans == {}


@pytest.mark.parametrize(
    "foreign",
    [
        "('trtllm::fused_moe', 'Runner', ((1, 2),), ())",
        '("other", 1)',
        " \t( 'x')",
        "('fp4_gemm2', 'CutlassFp4GemmRunner')",
        "('', 1)",
        "('fp4_gemm\\'', 1)",
        "something else",
        "",
    ],
)
def test_foreign_operations_are_counted(foreign: str) -> None:
    for value in (None, [], 7, "RX", [RUNNER, 4], {"fp4_gemm": 1}):
        found = load(document(**{foreign: value, key(): [RUNNER, 4], "_generation": "7"}))
        assert found == flashinfer_import.Import({PlanKey(16, 5120, 6144): 4}, 1)


def test_members_with_an_underscore_are_no_plans() -> None:
    assert load(document(_records={"fp4_gemm": 1}, _fp4_gemm=[], **{"_": None})).ignored == 0


@pytest.mark.parametrize(
    "change",
    [
        ("(16, ", "(3, "),
        ("(16, ", "(0, "),
        ("(16, ", "(-16, "),
        ("(16, ", "(016, "),
        ("(16, ", "(+16, "),
        ("(16, ", "(1_6, "),
        ("(16, ", "(0x10, "),
        ("(16, ", "(16.0, "),
        ("(16, ", "(\u0661\u0666, "),
        ("(16, ", "(True, "),
        ("(16, ", "(np.int64(16), "),
        ("(16, ", "(2147483648, "),
        ("(16, ", "(16,  "),
        ("(16, ", "(16,"),
        ("((16, 3072)", "(torch.Size([16, 3072])"),
        ("((16, 3072)", "((16, 3080)"),
        ("(3072, 5120)", "(3073, 5120)"),
        ("(3072, 5120)", "(3072, 5121)"),
        ("(-1, 384)", "(-1, 385)"),
        ("(-1, 384)", "(-2, 384)"),
        ("(-1, 384)", "(16, 384)"),
        ("(384, 5120)", "(384, 5136)"),
        ("(384, 5120)", "(385, 5120)"),
        ("(-1, 5120)", "(-1, 5121)"),
        (", (), (0,)", ", (0,)"),
        ("(0,), (0,), (-1,)", "(0), (0,), (-1,)"),
        ("(0,), (0,), (-1,)", "(0,), (1,), (-1,)"),
        ("(-1,)), ())", "(-1,)), (1,))"),
        ("(-1,)), ())", "(-1,)), (),)"),
        ("(-1,)), ())", "(-1,)))"),
        ("(-1,)), ())", "(-1,)), ()) "),
        ("(-1,)), ())", "(-1,)), ())\n"),
        ("(-1,)), ())", "(-1,)), ())#"),
        ("('fp4_gemm'", '("fp4_gemm"'),
        ("('fp4_gemm'", " ('fp4_gemm'"),
        ("('fp4_gemm'", "( 'fp4_gemm'"),
        ("('fp4_gemm'", "(u'fp4_gemm'"),
        ("('fp4_gemm'", "('fp4_gemm' "),
        ("('fp4_gemm'", "fp4_gemm'"),
        ("('fp4_gemm'", "['fp4_gemm'"),
        ("('fp4_gemm', ", "('fp4_gemm' "),
        (RUNNER, "CutlassFp4GemmRunner2"),
        (RUNNER, "Cutlass\\x46p4GemmRunner"),
        ("(16, ", "(__import__('os').getpid(), "),
    ],
    ids=lambda change: change[1],
)
def test_every_deviation_of_a_key_rejects(change: tuple[str, str]) -> None:
    wrong = key().replace(*change, 1)
    assert wrong != key()
    # Beside a good plan of the same weight, whose rest of the key was matched already.
    root = document(**{key(32): [RUNNER, 4], wrong: [RUNNER, 4]})
    assert rejection(root) == ("bad-plan", wrong)
    assert rejection(document(**{wrong: [RUNNER, 4]})) == ("bad-plan", wrong)


@pytest.mark.parametrize("shape", [(16, 0, 6144), (16, 2**31, 6144), (16, 5120, 2**31), (16, 1, 0)])
def test_numbers_are_positive_and_within_32_bits(shape: tuple[int, int, int]) -> None:
    assert rejection(document(**{key(*shape): [RUNNER, 4]})) == ("bad-plan", key(*shape))


def test_k_is_a_multiple_of_the_scale_block() -> None:
    wrong = key().replace("3072", "3076")
    assert rejection(document(**{wrong: [RUNNER, 4]})) == ("bad-plan", wrong)


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("RX", "wrong-type"),
        (None, "wrong-type"),
        (4, "wrong-type"),
        ([], "wrong-type"),
        ([RUNNER], "wrong-type"),
        ([RUNNER, 4, 0], "wrong-type"),
        ([RUNNER, 4, 0, None], "wrong-type"),
        ({RUNNER: 4, "x": 1}, "wrong-type"),
        ([0, 4], "wrong-type"),
        ([None, 4], "wrong-type"),
        ([[RUNNER], 4], "wrong-type"),
        (["R", 4], "unknown-runner"),
        (["", 4], "unknown-runner"),
        ([RUNNER, "4"], "wrong-type"),
        ([RUNNER, None], "wrong-type"),
        ([RUNNER, True], "wrong-type"),
        ([RUNNER, 4.0], "wrong-type"),
        ([RUNNER, [4]], "wrong-type"),
        ([RUNNER, -1], "unknown-tactic"),
        ([RUNNER, -7], "unknown-tactic"),
        ([RUNNER, 32], "unknown-tactic"),
    ],
)
def test_every_malformed_value_rejects(value: object, code: str) -> None:
    root = document(**{key(1): [RUNNER, 0], key(2): value, key(4): [RUNNER, 0]})
    assert rejection(root) == (code, key(2))


def test_two_spellings_of_one_plan_reject() -> None:
    text = json.dumps(document(**{key(): [RUNNER, 4]}))
    text = text[:-1] + ", " + json.dumps(key()).replace("fp4", "\\u0066p4") + ': ["R", 1]}'
    assert verdict(flashinfer_import.parse, text.encode(), ORACLE_METADATA) == (
        "duplicate-member",
        key(),
    )


def test_one_byte_inside_the_operation_makes_a_foreign_entry() -> None:
    for index in range(len("fp4_gemm")):
        changed = key()[: 2 + index] + "X" + key()[3 + index :]
        assert load(document(**{changed: [RUNNER, 4]})) == flashinfer_import.Import({}, 1)


def test_substituted_bytes_of_the_oracle_never_add_or_change_a_shape(rng: random.Random) -> None:
    shapes = set(flashinfer_import.parse(ORACLE, ORACLE_METADATA).plans)
    for _ in range(3000):
        position = rng.randrange(len(ORACLE))
        data = bytearray(ORACLE)
        data[position] = rng.randrange(256)
        try:
            found = flashinfer_import.parse(bytes(data), ORACLE_METADATA)
        except Rejected:
            continue
        # A key whose first character became "_" is a record of FlashInfer, which is not counted.
        became_bookkeeping = data.count(b'"_') - ORACLE.count(b'"_')
        assert len(found.plans) + found.ignored + became_bookkeeping == 64
        # One digit of a tactic, or of an M where the result is a bucket that was not there: all
        # else is foreign or rejected.
        assert len(set(found.plans) - shapes) <= 1
