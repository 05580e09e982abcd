"""PUBL: publishing a native document so that a reader sees the old one or the new one."""

import contextlib
import os
import stat
import threading
from pathlib import Path

import pytest

from pytest_nvfp4.faults import devices, namespaces
from pytest_nvfp4.implementations.messages import NoAnswerError, Rejected
from pytest_nvfp4.implementations.transports import JSON_LINES
from pytest_nvfp4.plans import PlanMap
from pytest_nvfp4.suite import contract, over, requires
from pytest_nvfp4.suite.sessions import NATIVE_PATH, NO_CLOCK, fastest

PATIENCE = 20
"""Seconds after which a write that waits for somebody is given up."""


def newer(own):
    """The same keys with other tactics, so that merging gives exactly these plans."""
    return PlanMap([(key, (tactic + 1) % 32) for key, tactic in own.plans.items()])


def old_document(nvfp4):
    return nvfp4.own.document()


def new_document(nvfp4):
    return nvfp4.own.document(newer(nvfp4.own))


def assert_published(nvfp4, path, plans=None):
    """The file holds exactly the new plans (or these), in a valid form."""
    assert nvfp4.own.kept(path) == (newer(nvfp4.own) if plans is None else plans)


def save(nvfp4, path, plans=None, by=None):
    """Publish the new plans (or these), which must succeed."""
    plans = newer(nvfp4.own) if plans is None else plans
    answer = (by or nvfp4.subject).write_native(str(path), nvfp4.own.document(plans))
    assert not isinstance(answer, Rejected), f"the save was rejected: {answer.message}"
    assert answer == len(plans)
    assert_published(nvfp4, path, plans)


@contract("PUBL-1")
@pytest.mark.parametrize("existing", [False, True], ids=["new file", "existing file"])
def test_temporary_beside_the_destination_is_renamed_over_it(nvfp4, existing):
    path = nvfp4.cache_file
    if existing:
        path.write_bytes(nvfp4.own.text(old_document(nvfp4)))
    seen = nvfp4.watch(path, new_document(nvfp4))
    assert seen.temporary is not None, "nothing was renamed over the destination"
    assert os.path.dirname(seen.temporary) == str(path.parent), "the temporary lies elsewhere"
    assert not seen.written_in_place, "the destination itself was opened for writing"
    assert not seen.removed, "for a moment there was no destination"
    assert_published(nvfp4, path)


@contract("PUBL-2")
def test_open_reader_keeps_the_old_document(nvfp4):
    path = nvfp4.cache_file
    save(nvfp4, path, nvfp4.own.plans)
    with path.open("rb", buffering=0) as reader:
        before = reader.read(10)
        save(nvfp4, path)
        rest = reader.read()
    judgement = nvfp4.own.dialect.judge_kept(before + rest, nvfp4.own.metadata)
    assert judgement.plans == nvfp4.own.plans, "an open reader saw a mixture"


@contract("PUBL-2")
def test_concurrent_reader_sees_the_old_or_the_new_document(nvfp4):
    path = nvfp4.cache_file
    save(nvfp4, path, nvfp4.own.plans)
    allowed = [nvfp4.own.plans, newer(nvfp4.own)]
    done = threading.Event()
    seen = []

    def read():
        while not done.is_set():
            try:
                judgement = nvfp4.own.dialect.judge_kept(path.read_bytes(), nvfp4.own.metadata)
            except OSError:
                seen.append(False)  # there was no file
            else:
                seen.append(judgement.accepted and judgement.plans in allowed)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for _ in range(25):
            nvfp4.subject.write_native(str(path), new_document(nvfp4))
            nvfp4.subject.write_native(str(path), old_document(nvfp4))
    finally:
        done.set()
        reader.join()
    assert seen
    assert all(seen), f"{seen.count(False)} of {len(seen)} reads saw no complete document"


@contract("PUBL-3")
@pytest.mark.parametrize("existing", [False, True], ids=["new file", "existing file"])
def test_no_temporary_after_success(nvfp4, existing):
    path = nvfp4.cache_file
    if existing:
        save(nvfp4, path, nvfp4.own.plans)
    save(nvfp4, path)
    assert os.listdir(path.parent) == [path.name]


@contract("PUBL-3")
@pytest.mark.parametrize("failing", ["rename", "fsync", "write"])
def test_no_temporary_after_failure(nvfp4, failing):
    path = nvfp4.cache_file
    path.write_bytes(nvfp4.own.text(old_document(nvfp4)))
    answer = nvfp4.watch.failing(path, new_document(nvfp4), failing)
    assert isinstance(answer, Rejected), f"a save whose {failing} failed was reported as done"
    assert answer.code == "publication"
    assert os.listdir(path.parent) == [path.name]
    assert path.read_bytes() == nvfp4.own.text(old_document(nvfp4))


@contract("PUBL-4")
def test_temporary_is_synced_before_the_rename(nvfp4):
    seen = nvfp4.watch(nvfp4.cache_file, new_document(nvfp4))
    assert seen.temporary is not None, "nothing was renamed over the destination"
    assert seen.synced_before


@contract("PUBL-5")
def test_directory_is_synced_after_the_rename(nvfp4):
    seen = nvfp4.watch(nvfp4.cache_file, new_document(nvfp4))
    assert seen.temporary is not None, "nothing was renamed over the destination"
    assert seen.directory_synced_after


@contract("PUBL-10")
@pytest.mark.parametrize("umask", [0o022, 0o027, 0o077, 0o002], ids="{:03o}".format)
def test_new_file_follows_the_umask(nvfp4, umask):
    path = nvfp4.cache_file
    before = os.umask(umask)
    try:
        save(nvfp4, path, by=nvfp4.inheriting_subject())
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask


@contract("PUBL-10")
@pytest.mark.parametrize("mode", [0o600, 0o644, 0o664, 0o604], ids="{:03o}".format)
def test_existing_mode_is_kept(nvfp4, mode):
    path = nvfp4.cache_file
    path.write_bytes(nvfp4.own.text(old_document(nvfp4)))
    path.chmod(mode)
    save(nvfp4, path)
    assert stat.S_IMODE(path.stat().st_mode) == mode


@contract("PUBL-11")
@pytest.mark.parametrize("kind", ["absolute", "relative", "chain"])
def test_link_is_kept_and_its_target_updated(nvfp4, kind):
    target = nvfp4.cache_file
    target.write_bytes(nvfp4.own.text(old_document(nvfp4)))
    links = nvfp4.folder / "links"
    links.mkdir()
    link = links / "plans.json"
    if kind == "chain":
        (links / "second.json").symlink_to(target)
        link.symlink_to("second.json")
    else:
        link.symlink_to(target if kind == "absolute" else os.path.relpath(target, links))
    before = os.listdir(links), os.readlink(link)
    save(nvfp4, link)
    assert link.is_symlink(), "the link became a plain file"
    assert (os.listdir(links), os.readlink(link)) == before
    assert_published(nvfp4, target)
    assert os.listdir(target.parent) == [target.name]


NOT_REGULAR = {
    "directory": lambda path: path.mkdir(),
    "FIFO": os.mkfifo,
    "socket": devices.place_socket,
    "device": lambda path: devices.place(path, "null"),
    "dangling link": lambda path: path.symlink_to("nowhere"),
}


@contract("PUBL-12")
@over(JSON_LINES)
@pytest.mark.parametrize("kind", NOT_REGULAR)
def test_destination_that_is_no_regular_file_is_left_alone(nvfp4, kind):
    path = nvfp4.cache_file
    with contextlib.chdir(path.parent):
        NOT_REGULAR[kind](path)
    before = os.lstat(path)
    try:
        answer = nvfp4.launch(timeout=PATIENCE).write_native(str(path), new_document(nvfp4))
    except NoAnswerError:
        pytest.fail(f"it waits for a {kind}")
    after = os.lstat(path)
    same = (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode)
    assert same, f"the {kind} was replaced"
    assert isinstance(answer, Rejected), f"a {kind} was written to"
    assert answer.code == "not-regular"
    assert os.listdir(path.parent) == [path.name]


@contract("PUBL-13")
@over(JSON_LINES)
def test_temporary_names_differ_between_equal_process_ids(nvfp4):
    names = [
        nvfp4.watch(nvfp4.cache_file, new_document(nvfp4), namespaces.own_process_ids()).temporary
        for _ in range(3)
    ]
    assert None not in names, "nothing was renamed over the destination"
    assert len(set(names)) == 3, f"three containers chose the names {sorted(set(names))}"


BROKEN = {
    "half a document": lambda good, _: good[: len(good) // 2],
    "NUL bytes": lambda good, _: b"\0" * len(good),
    "no JSON": lambda good, _: b"not a document",
    "bad plan": lambda good, dialect: dialect.spoil(good),
}


def broken_document(nvfp4, damage):
    """A good document with some damage."""
    own = nvfp4.own
    return BROKEN[damage](own.text(own.document()), own.dialect)


def default_file(nvfp4):
    """The default path, with its directory made, for sessions without a given path."""
    path = Path(nvfp4.session(**{NATIVE_PATH: ""}).stats().path)
    path.parent.mkdir(parents=True)
    return path


@contract("PUBL-14")
@requires("warm-up")
@requires("options")
@pytest.mark.parametrize("damage", BROKEN)
def test_corrupt_default_file_is_kept_beside_and_replaced(nvfp4, damage):
    path, broken, names = default_file(nvfp4), broken_document(nvfp4, damage), set()
    for _ in range(2):
        path.write_bytes(broken)
        opened = nvfp4.session(**{NATIVE_PATH: ""})
        opened.warm_up(timings=fastest(9))
        assert path.read_bytes() == broken, "replaced before the warm-up completed"
        opened.saved()
        assert nvfp4.own.kept(path) == opened.plans()
        kept = [p for p in path.parent.iterdir() if p != path]
        assert [p.read_bytes() for p in kept] == [broken], "the corrupt bytes are not kept once"
        names.add(kept[0].name)
    assert len(names) == 1, "the name beside it is not a fixed one"


@contract("PUBL-14")
@requires("warm-up")
@requires("options")
@pytest.mark.parametrize("value", ["", "None", "unknown"])
def test_indeterminate_default_file_is_replaced(nvfp4, value):
    old = old_document(nvfp4)
    old["_metadata"]["cuda_driver"] = value
    default_file(nvfp4).write_bytes(nvfp4.own.text(old))
    opened = nvfp4.session(**{NATIVE_PATH: ""})
    opened.warm_up(timings=fastest(9))
    opened.saved()
    again = nvfp4.session(**{NATIVE_PATH: ""})
    assert again.warm_up(timings=NO_CLOCK).tuned == 0, "tuning is lost at every start, for ever"


@contract("PUBL-14")
@requires("warm-up")
@pytest.mark.parametrize("damage", BROKEN)
def test_corrupt_file_at_a_given_path_is_left_alone(nvfp4, damage):
    broken = broken_document(nvfp4, damage)
    nvfp4.cache_file.write_bytes(broken)
    opened = nvfp4.session()
    opened.warm_up(timings=fastest(9))
    assert opened.complete().failure, "a corrupt file that the user named was replaced"
    assert nvfp4.cache_file.read_bytes() == broken
    assert os.listdir(nvfp4.cache_file.parent) == [nvfp4.cache_file.name]


def assert_not_saved_over(nvfp4, there):
    path = nvfp4.cache_file
    path.write_bytes(there)
    answer = nvfp4.subject.write_native(str(path), new_document(nvfp4))
    assert isinstance(answer, Rejected), "a file that it cannot use was replaced"
    assert path.read_bytes() == there
    assert os.listdir(path.parent) == [path.name]


@contract("PUBL-14")
@pytest.mark.parametrize("damage", BROKEN)
def test_unusable_file_is_not_saved_over(nvfp4, damage):
    assert_not_saved_over(nvfp4, broken_document(nvfp4, damage))


@contract("PUBL-14")
@pytest.mark.parametrize("field", ["gpu", pytest.param("format", marks=requires("keeps-native"))])
def test_file_of_another_environment_is_not_saved_over(nvfp4, field):
    old = old_document(nvfp4)
    old["_metadata"][field] += " of tomorrow"
    assert_not_saved_over(nvfp4, nvfp4.own.text(old))


@contract("PUBL-14")
@requires("warm-up")
def test_empty_file_at_a_given_path_is_replaced(nvfp4):
    nvfp4.cache_file.write_bytes(b"")
    opened = nvfp4.session()
    opened.warm_up(timings=fastest(9))
    opened.saved()
    assert nvfp4.own.kept(nvfp4.cache_file) == opened.plans()


@contract("PUBL-14")
@requires("warm-up")
@requires("options")
@pytest.mark.parametrize("other", ["gpu", "format"])
def test_well_formed_foreign_default_file_is_never_overwritten(nvfp4, other):
    path, old = default_file(nvfp4), old_document(nvfp4)
    old["_metadata"][other] += " of tomorrow"
    path.write_bytes(nvfp4.own.text(old))
    opened = nvfp4.session(**{NATIVE_PATH: ""})
    opened.warm_up(timings=fastest(9))
    assert opened.complete().failure, "a foreign file was replaced"
    assert path.read_bytes() == nvfp4.own.text(old)
