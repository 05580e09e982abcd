"""PUBL: publishing a native document so that a reader sees the old one or the new one."""

import os
import stat
import threading
from pathlib import Path

import pytest

from pytest_nvfp4.faults import devices, namespaces
from pytest_nvfp4.implementations.interface import Rejected
from pytest_nvfp4.implementations.transports import JSON_LINES
from pytest_nvfp4.model import documents, judge_native
from pytest_nvfp4.plans import PlanMap
from pytest_nvfp4.suite import contract, over, requires
from pytest_nvfp4.suite.sessions import NATIVE_PATH, NO_CLOCK, fastest


@pytest.fixture
def folder(tmp_path):
    """The destination's directory, with nothing else in it."""
    path = tmp_path / "published"
    path.mkdir()
    return path


@pytest.fixture
def old(native):
    return native.document()


@pytest.fixture
def new(native):
    """The same keys with other tactics, so that merging gives exactly this document."""
    return native.document(PlanMap([(key, (t + 1) % 32) for key, t in native.plans.items()]))


def published(path, document) -> None:
    """The file holds exactly the plans of this document, in a valid form."""
    judgement = judge_native(path.read_bytes(), document["_metadata"])
    assert judgement.accepted, f"the published file is bad: {judgement.findings[0]}"
    assert judgement.plans == documents.native_plans(document)


def save(subject, path, document) -> None:
    answer = subject.write_native(str(path), document)
    assert not isinstance(answer, Rejected), f"the save was rejected: {answer.message}"
    assert answer == len(document["plans"])
    published(path, document)


@contract("PUBL-1")
@pytest.mark.parametrize("existing", [False, True], ids=["new file", "existing file"])
def test_temporary_beside_the_destination_is_renamed_over_it(watch, folder, old, new, existing):
    path = folder / "autotune_configs.json"
    if existing:
        path.write_bytes(documents.native_bytes(old))
    seen = watch(path, new)
    assert seen.temporary is not None, "nothing was renamed over the destination"
    assert os.path.dirname(seen.temporary) == str(folder), "the temporary lies elsewhere"
    assert not seen.written_in_place, "the destination itself was opened for writing"
    assert not seen.removed, "for a moment there was no destination"
    published(path, new)


@contract("PUBL-2")
def test_open_reader_keeps_the_old_document(subject, folder, old, new):
    path = folder / "autotune_configs.json"
    save(subject, path, old)
    with path.open("rb", buffering=0) as reader:
        before = reader.read(10)
        save(subject, path, new)
        rest = reader.read()
    judgement = judge_native(before + rest, old["_metadata"])
    assert judgement.plans == documents.native_plans(old), "an open reader saw a mixture"


@contract("PUBL-2")
def test_concurrent_reader_sees_the_old_or_the_new_document(subject, folder, old, new):
    path = folder / "autotune_configs.json"
    save(subject, path, old)
    allowed = [documents.native_plans(old), documents.native_plans(new)]
    done = threading.Event()
    seen = []

    def read():
        while not done.is_set():
            try:
                judgement = judge_native(path.read_bytes(), old["_metadata"])
            except OSError:
                seen.append(False)  # there was no file
            else:
                seen.append(judgement.accepted and judgement.plans in allowed)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for _ in range(25):
            subject.write_native(str(path), new)
            subject.write_native(str(path), old)
    finally:
        done.set()
        reader.join()
    assert seen
    assert all(seen), f"{seen.count(False)} of {len(seen)} reads saw no complete document"


@contract("PUBL-3")
@pytest.mark.parametrize("existing", [False, True], ids=["new file", "existing file"])
def test_no_temporary_after_success(subject, folder, old, new, existing):
    path = folder / "autotune_configs.json"
    if existing:
        save(subject, path, old)
    save(subject, path, new)
    assert os.listdir(folder) == [path.name]


@contract("PUBL-3")
@pytest.mark.parametrize("failing", ["rename", "fsync", "write"])
def test_no_temporary_after_failure(watch, folder, old, new, failing):
    path = folder / "autotune_configs.json"
    path.write_bytes(documents.native_bytes(old))
    answer = watch.failing(path, new, failing)
    assert isinstance(answer, Rejected), f"a save whose {failing} failed was reported as done"
    assert answer.code == "publication"
    assert os.listdir(folder) == [path.name]
    assert path.read_bytes() == documents.native_bytes(old)


@contract("PUBL-4")
def test_temporary_is_synced_before_the_rename(watch, folder, new):
    seen = watch(folder / "autotune_configs.json", new)
    assert seen.temporary is not None, "nothing was renamed over the destination"
    assert seen.synced_before


@contract("PUBL-5")
def test_directory_is_synced_after_the_rename(watch, folder, new):
    seen = watch(folder / "autotune_configs.json", new)
    assert seen.temporary is not None, "nothing was renamed over the destination"
    assert seen.directory_synced_after


@contract("PUBL-10")
@pytest.mark.parametrize("umask", [0o022, 0o027, 0o077, 0o002], ids="{:03o}".format)
def test_new_file_follows_the_umask(fresh, folder, new, umask):
    path = folder / "autotune_configs.json"
    before = os.umask(umask)
    try:
        save(fresh(), path, new)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask


@contract("PUBL-10")
@pytest.mark.parametrize("mode", [0o600, 0o644, 0o664, 0o604], ids="{:03o}".format)
def test_existing_mode_is_kept(subject, folder, old, new, mode):
    path = folder / "autotune_configs.json"
    path.write_bytes(documents.native_bytes(old))
    path.chmod(mode)
    save(subject, path, new)
    assert stat.S_IMODE(path.stat().st_mode) == mode


@contract("PUBL-11")
@pytest.mark.parametrize("kind", ["absolute", "relative", "chain"])
def test_link_is_kept_and_its_target_updated(subject, folder, tmp_path, old, new, kind):
    target = folder / "autotune_configs.json"
    target.write_bytes(documents.native_bytes(old))
    links = tmp_path / "links"
    links.mkdir()
    link = links / "plans.json"
    if kind == "chain":
        (links / "second.json").symlink_to(target)
        link.symlink_to("second.json")
    else:
        link.symlink_to(target if kind == "absolute" else os.path.relpath(target, links))
    before = os.listdir(links), os.readlink(link)
    save(subject, link, new)
    assert link.is_symlink(), "the link became a plain file"
    assert (os.listdir(links), os.readlink(link)) == before
    published(target, new)
    assert os.listdir(folder) == [target.name]


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
def test_destination_that_is_no_regular_file_is_left_alone(
    subject, launch, folder, new, monkeypatch, kind
):
    monkeypatch.chdir(folder)
    path = folder / "autotune_configs.json"
    NOT_REGULAR[kind](path)
    before = os.lstat(path)
    answer = launch(timeout=20).write_native(str(path), new)
    assert isinstance(answer, Rejected), f"a {kind} was written to"
    assert answer.code == "not-regular"
    after = os.lstat(path)
    assert (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode)
    assert os.listdir(folder) == [path.name]


@contract("PUBL-13")
@over(JSON_LINES)
def test_temporary_names_differ_between_equal_process_ids(watch, subject, folder, new):
    names = [
        watch(folder / "autotune_configs.json", new, namespaces.own_process_ids()).temporary
        for _ in range(3)
    ]
    assert None not in names, "nothing was renamed over the destination"
    assert len(set(names)) == 3, f"three containers chose the names {sorted(set(names))}"


BROKEN = {
    "half a document": lambda good: good[: len(good) // 2],
    "NUL bytes": lambda good: b"\0" * len(good),
    "no JSON": lambda good: b"not a document",
    "bad plan": lambda good: good.replace(b'"tactic_id": ', b'"tactic_id": 9'),
}


@pytest.fixture
def default_file(session):
    """The default path, with its directory made, for sessions without a given path."""
    path = Path(session(**{NATIVE_PATH: ""}).stats().path)
    path.parent.mkdir(parents=True)
    return path


@contract("PUBL-14")
@requires("warm-up")
@pytest.mark.parametrize("damage", BROKEN)
def test_corrupt_default_file_is_kept_beside_and_replaced(session, default_file, old, damage):
    broken = BROKEN[damage](documents.native_bytes(old))
    names = set()
    for _ in range(2):
        default_file.write_bytes(broken)
        opened = session(**{NATIVE_PATH: ""})
        opened.warm_up(timings=fastest(9))
        assert default_file.read_bytes() == broken, "replaced before the warm-up completed"
        opened.saved()
        assert judge_native(default_file.read_bytes(), old["_metadata"]).plans == opened.plans()
        kept = [p for p in default_file.parent.iterdir() if p != default_file]
        assert [p.read_bytes() for p in kept] == [broken], "the corrupt bytes are not kept once"
        names.add(kept[0].name)
    assert len(names) == 1, "the name beside it is not a fixed one"


@contract("PUBL-14")
@requires("warm-up")
@pytest.mark.parametrize("value", ["", "None", "unknown"])
def test_indeterminate_default_file_is_replaced(session, default_file, old, value):
    old["_metadata"]["cuda_driver"] = value
    default_file.write_bytes(documents.native_bytes(old))
    opened = session(**{NATIVE_PATH: ""})
    opened.warm_up(timings=fastest(9))
    opened.saved()
    again = session(**{NATIVE_PATH: ""})
    assert again.warm_up(timings=NO_CLOCK).tuned == 0, "tuning is lost at every start, for ever"


@contract("PUBL-14")
@requires("warm-up")
@pytest.mark.parametrize("damage", BROKEN)
def test_corrupt_file_at_a_given_path_is_left_alone(session, cache_file, old, damage):
    broken = BROKEN[damage](documents.native_bytes(old))
    cache_file.write_bytes(broken)
    opened = session()
    opened.warm_up(timings=fastest(9))
    assert opened.complete().failure, "a corrupt file that the user named was replaced"
    assert cache_file.read_bytes() == broken
    assert os.listdir(cache_file.parent) == [cache_file.name]


@contract("PUBL-14")
@pytest.mark.parametrize("damage", [*BROKEN, "another gpu", "another format"])
def test_unusable_file_is_not_saved_over(subject, folder, old, new, damage):
    path = folder / "autotune_configs.json"
    if damage in BROKEN:
        there = BROKEN[damage](documents.native_bytes(old))
    else:
        old["_metadata"][damage.removeprefix("another ")] += " of tomorrow"
        there = documents.native_bytes(old)
    path.write_bytes(there)
    answer = subject.write_native(str(path), new)
    assert isinstance(answer, Rejected), "a file that it cannot use was replaced"
    assert path.read_bytes() == there
    assert os.listdir(folder) == [path.name]


@contract("PUBL-14")
@requires("warm-up")
def test_empty_file_at_a_given_path_is_replaced(session, cache_file, old):
    cache_file.write_bytes(b"")
    opened = session()
    opened.warm_up(timings=fastest(9))
    opened.saved()
    assert judge_native(cache_file.read_bytes(), old["_metadata"]).plans == opened.plans()


@contract("PUBL-14")
@requires("warm-up")
@pytest.mark.parametrize("other", ["gpu", "format"])
def test_well_formed_foreign_default_file_is_never_overwritten(session, default_file, old, other):
    old["_metadata"][other] += " of tomorrow"
    default_file.write_bytes(documents.native_bytes(old))
    opened = session(**{NATIVE_PATH: ""})
    opened.warm_up(timings=fastest(9))
    assert opened.complete().failure, "a foreign file was replaced"
    assert default_file.read_bytes() == documents.native_bytes(old)
