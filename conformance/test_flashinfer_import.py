"""FIMP: importing FlashInfer 0.6.13 autotune documents."""

import contextlib
import json

import pytest

from pytest_nvfp4.fuzz.byte_edits import (
    all_substitutions,
    sampled_substitutions,
    structural_offsets,
)
from pytest_nvfp4.implementations.messages import Reading, Rejected, ReportedError
from pytest_nvfp4.implementations.transports import IN_PROCESS
from pytest_nvfp4.model import documents, facts
from pytest_nvfp4.suite import contract, over, requires
from pytest_nvfp4.suite.probe import near_misses

CHUNKS = 8

KEY = (
    "('fp4_gemm', 'CutlassFp4GemmRunner', ((512, 3072), (3072, 5120), (-1, 384), (384, 5120), "
    "(), (0,), (-1, 5120), (0,), (0,), (-1,)), ())"
)
BAD_KEYS = {
    "other K/2 in the weight": KEY.replace("(3072,", "(3073,"),
    "other K/16 in the weight scales": KEY.replace("(384,", "(385,"),
    "K/16 not K/2 over 8": KEY.replace("384", "768"),
    "other N in the weight": KEY.replace("(3072, 5120)", "(3072, 5136)"),
    "other N in the weight scales": KEY.replace("(384, 5120)", "(384, 5136)"),
    "other N in the output": KEY.replace("(-1, 5120)", "(-1, 5136)"),
    "M no bucket": KEY.replace("(512,", "(513,"),
    "M no bucket between powers of two": KEY.replace("(512,", "(24576,"),
    "M no bucket far up": KEY.replace("(512,", "(1048577,"),
    "M zero": KEY.replace("(512,", "(0,"),
    "M negative": KEY.replace("(512,", "(-512,"),
    "M 2^31": KEY.replace("(512,", "(2147483648,"),
    "M beyond 64 bits": KEY.replace("(512,", "(18446744073709552128,"),
    "N zero": KEY.replace("5120", "0"),
    "N 2^31": KEY.replace("5120", "2147483648"),
    "K 2^31": KEY.replace("3072", "1073741824").replace("384", "134217728"),
    "K zero": KEY.replace("3072", "0").replace("384", "0"),
    "extras": KEY.removesuffix("())") + "(1,))",
    "extras None": KEY.removesuffix("())") + "None)",
    "trailing text": KEY + " ",
    "trailing line feed": KEY + "\n",
    "trailing NUL": KEY + "\0",
    "trailing call": KEY + ".__class__",
    "missing bracket": KEY.removesuffix(")"),
    "missing comma": KEY.replace("(0,), (-1, 5120)", "(0,) (-1, 5120)"),
    "missing comma in a one-tuple": KEY.replace("(0,)", "(0)", 1),
    "comma too many": KEY.replace("5120)", "5120,)", 1),
    "hexadecimal": KEY.replace("(512,", "(0x200,"),
    "underscore": KEY.replace("(512,", "(5_12,"),
    "plus sign": KEY.replace("(512,", "(+512,"),
    "leading zero": KEY.replace("(512,", "(0512,"),
    "float": KEY.replace("(512,", "(512.0,"),
    "boolean": KEY.replace("(512,", "(True,"),
    "Arabic digits": KEY.replace("(512,", "(\u0665\u0661\u0662,"),
    "fullwidth digits": KEY.replace("(512,", "(\uff15\uff11\uff12,"),
    "superscript": KEY.replace("(512,", "(51\u00b2,"),
    "numpy integer": KEY.replace("(512,", "(np.int64(512),"),
    "torch size": KEY.replace("(512, 3072)", "torch.Size([512, 3072])"),
    "list": KEY.replace("(512, 3072)", "[512, 3072]"),
    "arithmetic": KEY.replace("(512,", "(2**9,"),
    "code": KEY.replace("(512,", "(__import__('os').getpid(),"),
    "escape in the runner": KEY.replace("CutlassFp4", "Cutlass\\x46p4"),
    "double quotes": KEY.replace("'", '"'),
    "double quotes around the operation": KEY.replace("'fp4_gemm'", '"fp4_gemm"'),
    "no space": KEY.replace(", ", ","),
    "two spaces": KEY.replace(", ", ",  ", 1),
    "leading space": " " + KEY,
    "space after the bracket": "( " + KEY[1:],
    "line feed": KEY.replace(", ", ",\n", 1),
    "other runner": KEY.replace("CutlassFp4GemmRunner", "TrtllmFp4GemmRunner"),
    "no quotes": KEY.replace("'fp4_gemm'", "fp4_gemm"),
    "no bracket": KEY[1:],
    "the bare operation": "fp4_gemm",
    "the operation somewhere": "plans of fp4_gemm",
    "half a key": KEY[:40],
    "bytes literal": KEY.replace("'fp4_gemm'", "b'fp4_gemm'"),
}
RUNNER = facts.RUNNER
BAD_VALUES = {
    "string": ("RX", "wrong-type"),
    "null": (None, "wrong-type"),
    "number": (7, "wrong-type"),
    "object": ({RUNNER: 7}, "wrong-type"),
    "empty": ([], "wrong-type"),
    "one element": ([RUNNER], "wrong-type"),
    "three elements": ([RUNNER, 7, 1.5], "wrong-type"),
    "swapped": ([7, RUNNER], "wrong-type"),
    "other runner": (["TrtllmFp4GemmRunner", 7], "unknown-runner"),
    "empty runner": (["", 7], "unknown-runner"),
    "runner null": ([None, 7], "wrong-type"),
    "tactic float": ([RUNNER, 7.0], "wrong-type"),
    "tactic 7.9": ([RUNNER, 7.9], "wrong-type"),
    "tactic true": ([RUNNER, True], "wrong-type"),
    "tactic null": ([RUNNER, None], "wrong-type"),
    "tactic string": ([RUNNER, "7"], "wrong-type"),
    "tactic list": ([RUNNER, [7]], "wrong-type"),
    "tactic -7": ([RUNNER, -7], "unknown-tactic"),
    "tactic -1": ([RUNNER, -1], "unknown-tactic"),
    "tactic 32": ([RUNNER, 32], "unknown-tactic"),
    "tactic 4294967300": ([RUNNER, 4294967300], "unknown-tactic"),
}
FOREIGN_KEYS = (
    "('mm_bf16', 'CutlassGemmRunner', ((1, 2), (2, 3)), ())",
    '("trtllm_fp8_gemm", "R", (), ())',
    "( 'fp4_gemm_2', ())",
    "('FP4_GEMM', 'CutlassFp4GemmRunner', ())",
    "some_op",
    "",
    "()",
)


def first_key(document) -> str:
    return min(name for name in document if name != "_metadata")


@contract("FIMP-1")
def test_binding_oracle_imports_to_its_64_plans(nvfp4):
    nvfp4.binding.accepts(nvfp4.binding_text, nvfp4.oracle.plans)
    nvfp4.binding.accepts(nvfp4.binding_text.removesuffix(b"\n"), nvfp4.oracle.plans)
    assert len(nvfp4.oracle.plans) == 64


@contract("FIMP-2")
@requires("native-document")
def test_oracle_survives_conversion_to_a_native_document(nvfp4):
    imported = nvfp4.binding.read(nvfp4.binding.write(nvfp4.binding_text))
    assert isinstance(imported, Reading), f"rejected the oracle: {imported.message}"
    text = nvfp4.subject.serialize(documents.native(nvfp4.native.metadata, imported.plans))
    assert not isinstance(text, Rejected), f"rejected its native form: {text.message}"
    nvfp4.native.accepts(text.encode(), nvfp4.oracle.plans)


@contract("FIMP-3")
@pytest.mark.parametrize("field", [*facts.FLASHINFER_METADATA, "all of them"])
def test_star_is_a_wildcard(nvfp4, field):
    document = nvfp4.flashinfer.document()
    for name in facts.FLASHINFER_METADATA:
        if field in (name, "all of them"):
            document["_metadata"][name] = "*"
    nvfp4.flashinfer.accepts(document)


@contract("FIMP-3")
@pytest.mark.parametrize(
    "value",
    ["**", " *", "* ", "*x", "?", ".*", "NVIDIA*", "", None, ["*"], {"*": 1}],
    ids=json.dumps,
)
def test_nothing_else_is_a_wildcard(nvfp4, value):
    document = nvfp4.flashinfer.document()
    field = nvfp4.rng.choice(facts.FLASHINFER_METADATA)
    document["_metadata"][field] = value
    code = "foreign-environment" if isinstance(value, str) else "wrong-type"
    nvfp4.flashinfer.rejects(document, code, f"_metadata.{field}")


@contract("FIMP-4")
@pytest.mark.parametrize("how", ["missing", "number", "null", "list"])
@pytest.mark.parametrize("field", facts.FLASHINFER_METADATA)
def test_metadata_field_that_is_no_string(nvfp4, field, how):
    document = nvfp4.flashinfer.document()
    document["_metadata"][field] = {"number": 13, "null": None, "list": []}.get(how)
    code = "missing-field" if how == "missing" else "wrong-type"
    if how == "missing":
        del document["_metadata"][field]
    nvfp4.flashinfer.rejects(document, code, f"_metadata.{field}")


@contract("FIMP-4")
@pytest.mark.parametrize("field", facts.FLASHINFER_METADATA)
def test_any_other_environment_is_foreign(nvfp4, field):
    expected = dict(nvfp4.flashinfer.metadata)
    if not nvfp4.flashinfer.fixed:
        expected[field] = "NVIDIA GB10 rev.a"
    for other in near_misses(expected[field]):
        document = nvfp4.flashinfer.document()
        document["_metadata"] = expected | {field: other}
        nvfp4.flashinfer.rejects(
            document, "foreign-environment", f"_metadata.{field}", expected=expected
        )


@contract("FIMP-4")
@pytest.mark.parametrize("value", ["absent", None, {}, [], "x", 1], ids=json.dumps)
def test_metadata_as_a_whole(nvfp4, value):
    document = nvfp4.flashinfer.document()
    document["_metadata"] = value
    if value == "absent":
        del document["_metadata"]
    nvfp4.flashinfer.rejects(
        document, "missing-field" if value in ("absent", {}) else "wrong-type", "_metadata"
    )


@contract("FIMP-5")
@pytest.mark.parametrize(
    "value", [["R", 1], None, "x", 7.5, [], {"a": [1, {"b": 2}]}], ids=json.dumps
)
def test_foreign_operations_are_ignored_and_counted(nvfp4, value):
    document = nvfp4.flashinfer.document()
    document |= dict.fromkeys(FOREIGN_KEYS, value)
    nvfp4.flashinfer.accepts(document, ignored=len(FOREIGN_KEYS))


@contract("FIMP-5")
@pytest.mark.parametrize("name", ["_generation", "_records", "_", "_fp4_gemm", "__metadata__"])
@pytest.mark.parametrize("value", ["17", {"a": 1}, [facts.RUNNER, 3], None], ids=json.dumps)
def test_bookkeeping_members_are_never_plans(nvfp4, name, value):
    nvfp4.flashinfer.accepts(nvfp4.flashinfer.document() | {name: value})


@contract("FIMP-5")
def test_newer_metadata_fields_are_ignored(nvfp4):
    document = nvfp4.flashinfer.document()
    newer = {"cutlass_dsl_version": "4.5.0", "some_later_version": "1.0"}
    document["_metadata"] = newer | document["_metadata"]
    nvfp4.flashinfer.accepts(document)


@contract("FIMP-6")
def test_good_key_is_good(nvfp4):
    document = nvfp4.flashinfer.document() | {KEY: [RUNNER, 9]}
    expected = dict(nvfp4.flashinfer.plans) | {(512, 5120, 6144): 9}
    nvfp4.flashinfer.accepts(document, type(nvfp4.flashinfer.plans)(expected))


@contract("FIMP-6")
@pytest.mark.parametrize("name", BAD_KEYS)
def test_key_that_breaks_the_grammar(nvfp4, name):
    key = BAD_KEYS[name]
    assert key != KEY
    nvfp4.flashinfer.rejects(nvfp4.flashinfer.document() | {key: [RUNNER, 9]}, "bad-plan", key)


@contract("FIMP-6")
def test_keys_are_never_evaluated(nvfp4):
    trace = nvfp4.folder / "evaluated"
    code = f"open({str(trace)!r}, 'w').close()"
    for key in (KEY.replace("(512,", f"({code},"), f"('fp4_gemm', {code})", code + " # fp4_gemm"):
        nvfp4.flashinfer.rejects(nvfp4.flashinfer.document() | {key: [RUNNER, 9]}, "bad-plan", key)
    assert not trace.exists(), "the key was evaluated"


@contract("FIMP-7")
@requires("session")
@pytest.mark.parametrize("value", ["RX", None, [], [RUNNER], 1], ids=json.dumps)
def test_bad_value_in_the_middle_installs_nothing(nvfp4, value):
    session = nvfp4.subject.open({})
    assert nvfp4.subject.plans(session) == {}
    document = nvfp4.flashinfer.document()
    keys = sorted(name for name in document if name != "_metadata")
    document[keys[len(keys) // 2]] = value
    path = nvfp4.flashinfer.write(document)
    with contextlib.suppress(ReportedError):  # whether it may break is another case's business
        nvfp4.flashinfer.read(path, session=session)
    assert nvfp4.subject.plans(session) == {}, "a part of a bad document was installed"
    nvfp4.subject.close(session)


@contract("FIMP-7")
@pytest.mark.parametrize("name", BAD_VALUES)
def test_malformed_value(nvfp4, name):
    document = nvfp4.flashinfer.document()
    value, code = BAD_VALUES[name]
    document[first_key(document)] = value
    nvfp4.flashinfer.rejects(document, code, first_key(document))


@contract("FIMP-7")
@pytest.mark.parametrize("literal", ["NaN", "Infinity", "7e0", "7.0", "1" + "0" * 400])
def test_malformed_tactic_literal(nvfp4, literal):
    document = nvfp4.flashinfer.document()
    key = first_key(document)
    document[key][1] = "@"
    data = documents.native_bytes(document).replace(b'"@"', literal.encode())
    code, member = ("syntax", "") if literal[0] in "NI" else ("wrong-type", key)
    nvfp4.flashinfer.rejects(data, code, member)


@contract("FIMP-8")
@pytest.mark.parametrize("tactic", ["equal", "different"])
@pytest.mark.parametrize(
    "spelling", ["the same", "a JSON escape", "double quotes", "spaces", "no spaces"]
)
def test_two_spellings_of_one_plan(nvfp4, spelling, tactic):
    document = nvfp4.flashinfer.document() | {KEY: [RUNNER, 9]}
    other = {
        "double quotes": KEY.replace("'", '"'),
        "spaces": f"{KEY} ",
        "no spaces": KEY.replace(" ", ""),
    }
    key = other.get(spelling, KEY)
    written = json.dumps(key)
    if spelling == "a JSON escape":
        written = written.replace("fp4_gemm", "fp4\\u005fgemm")
    value = json.dumps([RUNNER, 9 if tactic == "equal" else 10])
    data = (
        documents.native_bytes(document).rstrip().removesuffix(b"}")
        + f", {written}: {value}}}".encode()
    )
    nvfp4.flashinfer.rejects(data, "bad-plan" if spelling in other else "duplicate-member", key)


@contract("FIMP-9")
@pytest.mark.parametrize("chunk", range(CHUNKS))
@over(IN_PROCESS)
def test_every_substitution_at_a_structural_byte(nvfp4, chunk):
    document = nvfp4.binding_text
    for offset in structural_offsets(document)[chunk::CHUNKS]:
        nvfp4.binding.agrees_on_each(document, all_substitutions(document, offset))


@contract("FIMP-9")
@pytest.mark.parametrize("chunk", range(2))
def test_sampled_substitutions(nvfp4, chunk):
    document = nvfp4.binding_text
    nvfp4.binding.agrees_on_each(document, sampled_substitutions(document, 2000, nvfp4.rng))


@contract("FIMP-10")
def test_importing_never_changes_the_source(nvfp4):
    for content in (
        nvfp4.flashinfer.document(),
        nvfp4.flashinfer.document() | {"fp4_gemm": 1},
        b"",
        b"\0",
    ):
        path = nvfp4.flashinfer.write(content)
        before = (
            path.read_bytes(),
            path.stat().st_ino,
            path.stat().st_mtime_ns,
            path.stat().st_ctime_ns,
        )
        listing = sorted(nvfp4.folder.iterdir()), nvfp4.folder.stat().st_mtime_ns
        with contextlib.suppress(ReportedError):  # whatever the outcome
            nvfp4.flashinfer.read(path)
        assert path.exists(), "importing removed the file"
        after = (
            path.read_bytes(),
            path.stat().st_ino,
            path.stat().st_mtime_ns,
            path.stat().st_ctime_ns,
        )
        assert after == before
        assert (sorted(nvfp4.folder.iterdir()), nvfp4.folder.stat().st_mtime_ns) == listing


@contract("FIMP-11")
def test_document_that_flashinfer_itself_wrote(nvfp4):
    if (
        nvfp4.flashinfer.fixed
        and dict(nvfp4.flashinfer.metadata) != nvfp4.flashinfer_document.metadata
    ):
        pytest.skip("needs to be told another environment: FlashInfer 0.6.13 wrote for its own")
    nvfp4.flashinfer.accepts(
        nvfp4.flashinfer_document.text,
        nvfp4.flashinfer_document.plans,
        expected=nvfp4.flashinfer_document.metadata,
    )
