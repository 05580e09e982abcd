"""NDOC: the native document, read strictly and written deterministically."""

import contextlib
import copy
import json
import os

import pytest

from pytest_nvfp4.faults import devices, memory
from pytest_nvfp4.fuzz.byte_edits import truncations
from pytest_nvfp4.implementations.messages import NoAnswerError, Reading, Rejected
from pytest_nvfp4.implementations.transports import JSON_LINES
from pytest_nvfp4.model import documents, facts
from pytest_nvfp4.plans import PlanMap
from pytest_nvfp4.suite import contract, over, requires
from pytest_nvfp4.suite.probe import near_misses
from pytest_nvfp4.suite.tools import random_plans

STRINGS = [name for name, kind in facts.NATIVE_METADATA.items() if kind == facts.STR]
INTEGERS = [name for name, kind in facts.NATIVE_METADATA.items() if kind != facts.STR]
PLAN_INTEGERS = [name for name, kind in facts.NATIVE_PLAN.items() if kind != facts.STR]
MIDDLE = 3

# How a number may be misspelled so that a lenient reader still takes it for the right one.
SPELLINGS = {
    "v.0": lambda v, bits: f"{v}.0",
    "v.9": lambda v, bits: f"{v}.9",
    "ve0": lambda v, bits: f"{v}e0",
    "string": lambda v, bits: f'"{v}"',
    "true": lambda v, bits: "true",
    "wraps above": lambda v, bits: str(v + 2**bits),
    "wraps below": lambda v, bits: str(v - 2**bits),
    "wraps 64 bits": lambda v, bits: str(v + 2**64),
    "10^400": lambda v, bits: "1" + "0" * 400,
}

OTHER_TYPES = [None, True, [], {}]
"""Values of no mandatory field's type; strings and numbers are added where they are wrong too."""


def spoil(owner, field, how):
    """Take a mandatory field away, or make it null or something of another type."""
    if how == "absent":
        del owner[field]
    elif how == "null":
        owner[field] = None
    else:
        owner[field] = "1" if isinstance(owner[field], int) else 1


def with_literal(document, owner, field, literal):
    """The document's bytes with one value replaced by a JSON literal as it is spelled."""
    owner[field] = "@literal@"
    return documents.native_bytes(document).replace(b'"@literal@"', literal.encode())


def text_of(document) -> str:
    return documents.native_bytes(document).decode()


# --- Writing and reading back


@contract("NDOC-1")
@pytest.mark.parametrize("count", [0, 1, 2, 64, 500])
def test_write_then_read_is_the_identity(nvfp4, count):
    plans = random_plans(nvfp4.rng, count)
    text = nvfp4.subject.serialize(nvfp4.native.document(plans))
    assert not isinstance(text, Rejected), f"a good document was rejected: {text.message}"
    nvfp4.native.accepts(text.encode(), plans)


@contract("NDOC-1")
@pytest.mark.parametrize(
    "name", ["Ω µ", "\U0001f600", 'a"b\\c', "tab\there", "", "nul\0"], ids=ascii
)
def test_any_device_name_survives(nvfp4, name):
    nvfp4.native.metadata["gpu"] = f"x{name}"
    text = nvfp4.subject.serialize(nvfp4.native.document())
    assert not isinstance(text, Rejected), f"a good document was rejected: {text.message}"
    nvfp4.native.accepts(text.encode())


@contract("NDOC-2")
def test_bytes_do_not_depend_on_insertion_order(nvfp4):
    document = nvfp4.native.document()
    expected = nvfp4.subject.serialize(document)
    for _ in range(5):
        shuffled = {
            "plans": [dict(nvfp4.rng.sample(sorted(p.items()), len(p))) for p in document["plans"]],
            "_metadata": dict(nvfp4.rng.sample(sorted(document["_metadata"].items()), 18)),
        }
        nvfp4.rng.shuffle(shuffled["plans"])
        assert nvfp4.subject.serialize(shuffled) == expected


@contract("NDOC-2")
def test_bytes_do_not_depend_on_the_process(nvfp4):
    expected = nvfp4.subject.serialize(nvfp4.native.document())
    for seed in ("0", "1", "77"):
        other = nvfp4.launch(variables={"PYTHONHASHSEED": seed}, folder="/")
        assert other.serialize(nvfp4.native.document()) == expected
    assert json.loads(expected) == nvfp4.native.document(), "something was added or left out"


@contract("NDOC-2")
def test_text_is_sorted_and_ends_with_one_line_feed(nvfp4):
    text = nvfp4.subject.serialize(nvfp4.native.document())
    assert text.endswith("}\n")
    assert not text.endswith("\n\n")
    orders = []
    read = json.loads(
        text, object_pairs_hook=lambda pairs: orders.append([k for k, _ in pairs]) or dict(pairs)
    )
    assert all(order == sorted(order) for order in orders), "members are not sorted"
    rows = [(plan["m_bucket"], plan["n"], plan["k"]) for plan in read["plans"]]
    assert rows == sorted(rows), "plans are not sorted"
    assert text.startswith('{\n  "_metadata": {\n    "architecture"'), "the indent is two spaces"


# --- Members


@contract("NDOC-3")
@pytest.mark.parametrize("value", [None, 1, "x", [[]], {"deep": {"er": [1.5e300]}}], ids=json.dumps)
@pytest.mark.parametrize("where", ["root", "metadata", "plan"])
def test_unknown_members_are_ignored(nvfp4, where, value):
    document = nvfp4.native.document()
    owners = {
        "root": document,
        "metadata": document["_metadata"],
        "plan": document["plans"][MIDDLE],
    }
    owners[where]["zz_new"] = value
    nvfp4.native.accepts(document)


@contract("NDOC-4")
@pytest.mark.parametrize("how", ["absent", "null", "wrong type"])
@pytest.mark.parametrize("field", facts.NATIVE_METADATA)
def test_mandatory_metadata(nvfp4, field, how):
    document = nvfp4.native.document()
    spoil(document["_metadata"], field, how)
    code = "missing-field" if how == "absent" else "wrong-type"
    nvfp4.native.rejects(document, code, f"_metadata.{field}")


@contract("NDOC-4")
@pytest.mark.parametrize("member", ["_metadata", "plans"])
@pytest.mark.parametrize("value", ["absent", None, 1, "x", True], ids=json.dumps)
def test_mandatory_root_members(nvfp4, member, value):
    document = nvfp4.native.document()
    document[member] = value
    if value == "absent":
        del document[member]
    nvfp4.native.rejects(document, "missing-field" if value == "absent" else "wrong-type", member)


@contract("NDOC-5")
@pytest.mark.parametrize("field", facts.NATIVE_METADATA)
def test_any_other_environment_is_foreign(nvfp4, field):
    expected = dict(nvfp4.native.metadata)
    if field != "format":
        expected[field] = 11 if isinstance(expected[field], int) else "NVIDIA GB10 rev.a"
    for other in near_misses(expected[field]):
        document = documents.native(expected | {field: other}, nvfp4.native.plans)
        nvfp4.native.rejects(
            document, "foreign-environment", f"_metadata.{field}", expected=expected
        )


@contract("NDOC-6")
@pytest.mark.parametrize("value", ["", "unknown", "None"])
@pytest.mark.parametrize("field", [f for f in STRINGS if f != "format"])
def test_indeterminate_value_rejects_though_both_sides_agree(nvfp4, field, value):
    agreed = dict(nvfp4.native.metadata) | {field: value}
    document = documents.native(agreed, nvfp4.native.plans)
    nvfp4.native.rejects(
        document, "indeterminate-environment", f"_metadata.{field}", expected=agreed
    )


@contract("NDOC-6")
@pytest.mark.parametrize("value", ["not-applicable", "none", "Unknown device 7"])
def test_definite_value_is_accepted(nvfp4, value):
    agreed = dict(nvfp4.native.metadata) | {"cuda_driver": value}
    nvfp4.native.accepts(documents.native(agreed, nvfp4.native.plans), expected=agreed)


@contract("NDOC-7")
@pytest.mark.parametrize("how", ["absent", "null", "wrong type"])
@pytest.mark.parametrize("field", facts.NATIVE_PLAN)
def test_mandatory_plan_fields(nvfp4, field, how):
    document = nvfp4.native.document()
    spoil(document["plans"][MIDDLE], field, how)
    code = "missing-field" if how == "absent" else "wrong-type"
    nvfp4.native.rejects(document, code, f"plans[{MIDDLE}].{field}")


@contract("NDOC-7")
@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("m_bucket", m) for m in (0, -1, 3, 255, 257, 300, 2049, 2304, 4097, 5120)),
        *(("m_bucket", m) for m in (12288, 24576, 2**20 + 1, 2**30 + 1, 2**31 - 1)),
        *(("n", n) for n in (0, -1, -5120)),
        *(("k", k) for k in (0, -16, 1, 8, 17, 6152)),
    ],
)
def test_impossible_plan(nvfp4, field, value):
    document = nvfp4.native.document()
    document["plans"][MIDDLE][field] = value
    nvfp4.native.rejects(document, "bad-plan", f"plans[{MIDDLE}].{field}")


@contract("NDOC-7")
@pytest.mark.parametrize("value", [None, 1, "x", [], True], ids=json.dumps)
def test_plan_that_is_no_object(nvfp4, value):
    document = nvfp4.native.document()
    document["plans"][MIDDLE] = value
    nvfp4.native.rejects(document, "wrong-type", f"plans[{MIDDLE}]")


@contract("NDOC-8")
@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("field", INTEGERS)
def test_metadata_integer_is_a_json_integer_in_range(nvfp4, field, spelling):
    bits = 8 if facts.NATIVE_METADATA[field] == facts.UINT8 else 32
    document = nvfp4.native.document()
    literal = SPELLINGS[spelling](document["_metadata"][field], bits)
    data = with_literal(document, document["_metadata"], field, literal)
    nvfp4.native.rejects(data, "wrong-type", f"_metadata.{field}")


@contract("NDOC-8")
@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("field", PLAN_INTEGERS)
def test_plan_integer_is_a_json_integer_in_range(nvfp4, field, spelling):
    bits = 8 if facts.NATIVE_PLAN[field] == facts.UINT8 else 32
    document = nvfp4.native.document()
    plan = document["plans"][MIDDLE]
    data = with_literal(document, plan, field, SPELLINGS[spelling](plan[field], bits))
    nvfp4.native.rejects(data, "wrong-type", f"plans[{MIDDLE}].{field}")


@contract("NDOC-9")
@pytest.mark.parametrize("tactic", ["equal", "different"])
@pytest.mark.parametrize("at", [0, MIDDLE + 1, 6], ids=["first", "middle", "last"])
def test_plan_key_twice(nvfp4, at, tactic):
    document = nvfp4.native.document()
    twin = copy.deepcopy(document["plans"][MIDDLE])
    if tactic == "different":
        twin["tactic_id"] = (twin["tactic_id"] + 1) % 32
    document["plans"].insert(at, twin)
    later = max(at, MIDDLE + (at <= MIDDLE))
    nvfp4.native.rejects(document, "duplicate-plan", f"plans[{later}]")


@contract("NDOC-9")
@pytest.mark.parametrize(
    ("before", "repeated", "path"),
    [
        ('"_metadata": {', '"_metadata": {}, ', "_metadata"),
        ('"plans": [', '"plans": [], ', "plans"),
        ('"gpu"', '"gpu": "another", ', "_metadata.gpu"),
        ('"gpu"', '"g\\u0070u": "spelled with an escape", ', "_metadata.gpu"),
        ('"warmups"', '"warmups": 3, ', "_metadata.warmups"),
        ('"tactic_id"', '"tactic_id": 31, ', "plans[0].tactic_id"),
        ('"_metadata": {', '"new": 1, "new": 1, ', "new"),
        ('"_metadata": {', '"new": [{"a": 1, "a": 2}], ', "new[0].a"),
    ],
)
def test_member_name_repeated(nvfp4, before, repeated, path):
    text = text_of(nvfp4.native.document())
    nvfp4.native.rejects(
        text.replace(before, repeated + before, 1).encode(), "duplicate-member", path
    )


@contract("NDOC-10")
@pytest.mark.parametrize("runner", ["", "cutlassfp4gemmrunner", "TrtllmFp4GemmRunner", "*"])
def test_unknown_runner(nvfp4, runner):
    document = nvfp4.native.document()
    document["plans"][MIDDLE]["runner"] = runner
    nvfp4.native.rejects(document, "unknown-runner", f"plans[{MIDDLE}].runner")


@contract("NDOC-10")
@pytest.mark.parametrize("tactic", [32, -1, 1000])
def test_unknown_tactic(nvfp4, tactic):
    document = nvfp4.native.document()
    document["plans"][MIDDLE]["tactic_id"] = tactic
    nvfp4.native.rejects(document, "unknown-tactic", f"plans[{MIDDLE}].tactic_id")


@contract("NDOC-11")
@pytest.mark.parametrize("field", facts.PLAN_FROM_METADATA)
def test_plan_that_disagrees_with_the_metadata(nvfp4, field):
    for other in near_misses(nvfp4.native.document()["plans"][MIDDLE][field]):
        document = nvfp4.native.document()
        document["plans"][MIDDLE][field] = other
        nvfp4.native.rejects(document, "bad-plan", f"plans[{MIDDLE}].{field}")


# --- Anything but one strict UTF-8 JSON document


@contract("NDOC-12")
def test_every_truncation(nvfp4):
    document = nvfp4.native.document(PlanMap(list(nvfp4.plans.items())[:2]))
    for prefix in truncations(documents.native_bytes(document).rstrip()):
        nvfp4.native.agrees(prefix)


NOT_ONE_DOCUMENT = {
    "nothing": lambda text: b"",
    "white space": lambda text: b" \n\t ",
    "trailing brace": lambda text: (text + "}").encode(),
    "trailing text": lambda text: (text + "x").encode(),
    "two documents": lambda text: (text + text).encode(),
    "NUL fill": lambda text: b"\0" * len(text),
    "NUL at the end": lambda text: text.encode() + b"\0",
    "second half NUL": lambda text: text.encode()[: len(text) // 2].ljust(len(text), b"\0"),
    "line comment": lambda text: ("// plans\n" + text).encode(),
    "block comment": lambda text: text.replace("{", "{ /* plans */", 1).encode(),
    "hash comment": lambda text: (text + "# end\n").encode(),
    "single quotes": lambda text: text.replace('"', "'").encode(),
    "bare names": lambda text: text.replace('"plans"', "plans", 1).encode(),
    "trailing comma in the array": lambda text: text.replace("}\n  ]", "},\n  ]").encode(),
    "trailing comma in the object": lambda text: text.replace("]\n}", "],\n}").encode(),
    "missing comma": lambda text: text.replace("},", "}", 1).encode(),
    "missing colon": lambda text: text.replace('"plans":', '"plans"', 1).encode(),
    "control character": lambda text: text.replace('"gpu": "', '"gpu": "\n', 1).encode(),
    "bad escape": lambda text: text.replace('"_metadata"', '"\\x5fmetadata"', 1).encode(),
    "form feed": lambda text: ("\f" + text).encode(),
    "trailing form feed": lambda text: (text + "\f").encode(),
    "trailing no-break space": lambda text: (text + "\N{NO-BREAK SPACE}").encode(),
    "no-break space": lambda text: ("\N{NO-BREAK SPACE}" + text).encode(),
}
NUMBERS = (
    "NaN",
    "Infinity",
    "-Infinity",
    "nan",
    "01",
    "+1",
    ".5",
    "1.",
    "0x1",
    "1_0",
    "--1",
    "1e",
    "\uff11",
)
ENCODINGS = {
    "byte order mark": lambda text: text.encode("utf-8-sig"),
    "UTF-16": lambda text: text.encode("utf-16"),
    "UTF-16 without a mark": lambda text: text.encode("utf-16-be"),
    "UTF-32": lambda text: text.encode("utf-32"),
    "Latin-1": lambda text: text.replace("@", "\u00b5").encode("latin-1"),
    "overlong": lambda text: text.encode().replace(b"@", b"\xc0\xaf"),
    "surrogate bytes": lambda text: text.encode().replace(b"@", b"\xed\xa0\x80"),
    "cut sequence": lambda text: text.encode().replace(b"@", b"\xe2\x82"),
    "half a surrogate pair": lambda text: text.encode().replace(b"@", b"\\ud800"),
}


@contract("NDOC-12")
@pytest.mark.parametrize("damage", NOT_ONE_DOCUMENT)
def test_not_one_json_document(nvfp4, damage):
    nvfp4.native.rejects(NOT_ONE_DOCUMENT[damage](text_of(nvfp4.native.document())), "syntax")


@contract("NDOC-12")
@pytest.mark.parametrize("literal", NUMBERS, ids=ascii)
@pytest.mark.parametrize("where", ["a plan", "an unknown member"])
def test_not_a_json_number(nvfp4, literal, where):
    document = nvfp4.native.document()
    owner, field = (document["plans"][0], "n") if where == "a plan" else (document, "zz_new")
    nvfp4.native.rejects(with_literal(document, owner, field, literal), "syntax")


@contract("NDOC-12")
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_not_utf8(nvfp4, encoding):
    document = nvfp4.native.document()
    document["zz_new"] = "@"
    data = ENCODINGS[encoding](text_of(document))
    nvfp4.native.rejects(data, "syntax" if encoding.endswith("without a mark") else "encoding")


@contract("NDOC-12")
@pytest.mark.parametrize(
    "literal", ["[" * 100_000 + "]" * 100_000, "1" * 5_000, "-1." + "0" * 5_000]
)
@pytest.mark.parametrize("where", ["a plan", "an unknown member"])
def test_absurd_value(nvfp4, literal, where):
    document = nvfp4.native.document()
    owner, field = (document["plans"][0], "n") if where == "a plan" else (document, "zz_new")
    nvfp4.native.rejects(with_literal(document, owner, field, literal), "syntax")


@contract("NDOC-12")
@pytest.mark.parametrize(
    "literal", ["[" * 127 + "]" * 127, '{"a":' * 127 + "1" + "}" * 127, "1" * 1000]
)
def test_what_is_just_within_the_limits_is_read(nvfp4, literal):
    document = nvfp4.native.document()
    nvfp4.native.accepts(with_literal(document, document, "zz_new", literal))


@contract("NDOC-12")
@pytest.mark.parametrize("opening", ["[", '{"a":', "[[", '[{"a":'])
def test_endless_opening(nvfp4, opening):
    nvfp4.native.rejects((opening * 100_000).encode(), "syntax")


@contract("NDOC-12")
@pytest.mark.parametrize("root", ["[]", "null", "1", '"x"', "true", "[{}]"])
def test_root_that_is_no_object(nvfp4, root):
    nvfp4.native.rejects(root.encode(), "shape")


# --- The file itself


def place_directory(path):
    path.mkdir()


NOT_REGULAR = {
    "directory": place_directory,
    "FIFO": os.mkfifo,
    "socket": devices.place_socket,
    "endless device": lambda path: devices.place(path, "zero"),
    "empty device": lambda path: devices.place(path, "null"),
}
NO_FILE = {
    "missing": lambda path: None,
    "dangling link": lambda path: path.symlink_to("nowhere"),
    "link loop": lambda path: path.symlink_to(path.name),
}


@contract("NDOC-13")
@over(JSON_LINES)
@pytest.mark.parametrize("kind", [*NOT_REGULAR, *NO_FILE])
def test_path_that_is_no_regular_file(nvfp4, kind):
    path = nvfp4.folder / "plans.json"
    with contextlib.chdir(path.parent):
        (NOT_REGULAR | NO_FILE)[kind](path)
    try:
        answer = nvfp4.launch(timeout=20).read_native(str(path), nvfp4.native.metadata)
    except NoAnswerError:
        pytest.fail(f"it waits for a {kind}")
    assert isinstance(answer, Rejected), f"accepted a {kind}"
    assert answer.code == ("not-regular" if kind in NOT_REGULAR else "unreadable")
    assert answer.member == ""


@contract("NDOC-13")
def test_link_to_a_regular_file_is_read(nvfp4):
    target = nvfp4.native.write(nvfp4.native.document())
    link = nvfp4.folder / "link.json"
    link.symlink_to(target.name)
    assert nvfp4.native.read(link) == Reading(nvfp4.native.plans, 0)


@contract("NDOC-14")
@over(JSON_LINES)
@pytest.mark.parametrize(
    "kind", ["64 MiB of white space", "200 MB of white space", "a million plans"]
)
def test_hostile_size_ends_in_bounded_memory(nvfp4, kind):
    path = nvfp4.folder / "large.json"
    if kind == "a million plans":
        documents.write_many_plans(path, nvfp4.native.metadata, 1_000_000)
    else:
        size = 64 * 2**20 if kind.startswith("64 MiB") else 200_000_000
        text = documents.native_bytes(nvfp4.native.document())
        path.write_bytes(text + b" " * (size - len(text)))
    large = nvfp4.launch()
    answer = large.read_native(str(path), nvfp4.native.metadata)
    if isinstance(answer, Rejected):
        assert answer.code == "too-large"
        assert not kind.startswith("64 MiB"), "64 MiB must be read"
    else:
        assert len(answer.plans) == (
            1_000_000 if kind == "a million plans" else len(nvfp4.native.plans)
        )
    assert memory.peak_bytes(large.transport.pid) < 4 * path.stat().st_size + 2**30
    path.unlink()


@contract("NDOC-15")
@pytest.mark.parametrize("at", [0, MIDDLE, 5], ids=["first", "middle", "last"])
@pytest.mark.parametrize("value", [None, [], 1, {}], ids=json.dumps)
def test_one_bad_plan_installs_nothing(nvfp4, at, value):
    document = nvfp4.native.document()
    document["plans"][at] = value
    code, member = ("missing-field", ".k") if value == {} else ("wrong-type", "")
    nvfp4.native.rejects(document, code, f"plans[{at}]{member}")
    nvfp4.native.accepts(nvfp4.native.document())


@contract("NDOC-15")
@requires("session")
def test_rejected_document_leaves_the_ready_map_alone(nvfp4):
    session = nvfp4.subject.open({})
    first = random_plans(nvfp4.rng, 10)
    bad = nvfp4.native.document(random_plans(nvfp4.rng, 10))
    bad["plans"][5]["tactic_id"] = 32
    assert isinstance(
        nvfp4.native.read(nvfp4.native.write(nvfp4.native.document(first)), session=session),
        Reading,
    )
    loaded = nvfp4.subject.stats(session)
    for rejected in (1, 2):
        assert isinstance(nvfp4.native.read(nvfp4.native.write(bad), session=session), Rejected)
        assert nvfp4.subject.plans(session) == first, "a rejected document changed the ready map"
        assert nvfp4.subject.stats(session).rejected == loaded.rejected + rejected
        assert nvfp4.subject.stats(session).loaded == loaded.loaded == len(first)
    nvfp4.subject.close(session)


@contract("NDOC-15")
@requires("session")
def test_loading_never_replaces_a_plan(nvfp4):
    session = nvfp4.subject.open({})
    first = random_plans(nvfp4.rng, 8)
    again = {key: (tactic + 1) % 32 for key, tactic in list(first.items())[:4]}
    more = dict(random_plans(nvfp4.rng, 3)) | again
    for plans in (first, PlanMap(more)):
        assert isinstance(
            nvfp4.native.read(nvfp4.native.write(nvfp4.native.document(plans)), session=session),
            Reading,
        )
    assert nvfp4.subject.plans(session) == more | dict(first)
    assert nvfp4.subject.stats(session).loaded == len(more | dict(first))
    nvfp4.subject.close(session)


@contract("NDOC-16")
@pytest.mark.parametrize("field", ["fp4_layout", "runner", "scale_layout"])
def test_star_is_no_wildcard_in_a_plan(nvfp4, field):
    document = nvfp4.native.document()
    document["plans"][MIDDLE][field] = "*"
    code = "unknown-runner" if field == "runner" else "bad-plan"
    nvfp4.native.rejects(document, code, f"plans[{MIDDLE}].{field}")


@contract("NDOC-16")
@pytest.mark.parametrize("field", STRINGS)
def test_star_is_no_wildcard(nvfp4, field):
    other = dict(nvfp4.native.metadata) | {field: "*"}
    document = documents.native(other, nvfp4.native.plans)
    nvfp4.native.rejects(document, "foreign-environment", f"_metadata.{field}")


@contract("NDOC-17")
@pytest.mark.parametrize("content", ["good", "bad", "empty", "no JSON"])
def test_reading_changes_neither_file_nor_folder(nvfp4, content):
    path = nvfp4.native.write(nvfp4.native.document())
    if content != "good":
        path.write_bytes({"bad": b"{}", "empty": b"", "no JSON": b"\0\0"}[content])
    before = path.read_bytes(), path.stat()[:4], path.stat().st_mtime_ns, path.stat().st_ctime_ns
    listing = sorted(os.listdir(nvfp4.folder)), nvfp4.folder.stat().st_mtime_ns
    nvfp4.native.read(path)
    assert path.exists(), "reading removed the file"
    after = path.read_bytes(), path.stat()[:4], path.stat().st_mtime_ns, path.stat().st_ctime_ns
    assert after == before
    assert (sorted(os.listdir(nvfp4.folder)), nvfp4.folder.stat().st_mtime_ns) == listing
