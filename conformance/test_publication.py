"""PUBL: publishing a native document so that a reader sees the old one or the new one."""

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


@pytest.fixture
def folder(tmp_path):
    """The destination's directory, with nothing else in it."""
    path = tmp_path / "published"
    path.mkdir()
    return path


def newer(own):
    """The same keys with other tactics, so that merging gives exactly these plans."""
    return PlanMap([(key, (tactic + 1) % 32) for key, tactic in own.plans.items()])


@pytest.fixture
def old(own):
    return own.document()


@pytest.fixture
def new(own):
    return own.document(newer(own))


@pytest.fixture
def published(own):
    """``published(path)``: the file holds exactly the new plans (or these), in a valid form."""

    def check(path, plans=None):
        assert own.kept(path) == (newer(own) if plans is None else plans)

    return check


@pytest.fixture
def save(subject, own, published):
    """``save(path)``: the new plans (or these) are published without a hitch."""

    def write(path, plans=None, by=None):
        plans = newer(own) if plans is None else plans
        answer = (by or subject).write_native(str(path), own.document(plans))
        assert not isinstance(answer, Rejected), f"the save was rejected: {answer.message}"
        assert answer == len(plans)
        published(path, plans)

    return write


@contract("PUBL-1")
@pytest.mark.parametrize("existing", [False, True], ids=["new file", "existing file"])
def test_temporary_beside_the_destination_is_renamed_over_it(
    watch, folder, own, old, new, published, existing
):
    path = folder / "autotune_configs.json"
    if existing:
        path.write_bytes(own.text(old))
    seen = watch(path, new)
    assert seen.temporary is not None, "nothing was renamed over the destination"
    assert os.path.dirname(seen.temporary) == str(folder), "the temporary lies elsewhere"
    assert not seen.written_in_place, "the destination itself was opened for writing"
    assert not seen.removed, "for a moment there was no destination"
    published(path)


@contract("PUBL-2")
def test_open_reader_keeps_the_old_document(folder, own, save):
    path = folder / "autotune_configs.json"
    save(path, own.plans)
    with path.open("rb", buffering=0) as reader:
        before = reader.read(10)
        save(path)
        rest = reader.read()
    judgement = own.dialect.judge_kept(before + rest, own.metadata)
    assert judgement.plans == own.plans, "an open reader saw a mixture"


@contract("PUBL-2")
def test_concurrent_reader_sees_the_old_or_the_new_document(subject, folder, own, old, new, save):
    path = folder / "autotune_configs.json"
    save(path, own.plans)
    allowed = [own.plans, newer(own)]
    done = threading.Event()
    seen = []

    def read():
        while not done.is_set():
            try:
                judgement = own.dialect.judge_kept(path.read_bytes(), own.metadata)
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
def test_no_temporary_after_success(folder, own, save, existing):
    path = folder / "autotune_configs.json"
    if existing:
        save(path, own.plans)
    save(path)
    assert os.listdir(folder) == [path.name]


@contract("PUBL-3")
@pytest.mark.parametrize("failing", ["rename", "fsync", "write"])
def test_no_temporary_after_failure(watch, folder, own, old, new, failing):
    path = folder / "autotune_configs.json"
    path.write_bytes(own.text(old))
    answer = watch.failing(path, new, failing)
    assert isinstance(answer, Rejected), f"a save whose {failing} failed was reported as done"
    assert answer.code == "publication"
    assert os.listdir(folder) == [path.name]
    assert path.read_bytes() == own.text(old)


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
def test_new_file_follows_the_umask(fresh, folder, save, umask):
    path = folder / "autotune_configs.json"
    before = os.umask(umask)
    try:
        save(path, by=fresh())
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask


@contract("PUBL-10")
@pytest.mark.parametrize("mode", [0o600, 0o644, 0o664, 0o604], ids="{:03o}".format)
def test_existing_mode_is_kept(folder, own, old, save, mode):
    path = folder / "autotune_configs.json"
    path.write_bytes(own.text(old))
    path.chmod(mode)
    save(path)
    assert stat.S_IMODE(path.stat().st_mode) == mode


@contract("PUBL-11")
@pytest.mark.parametrize("kind", ["absolute", "relative", "chain"])
def test_link_is_kept_and_its_target_updated(folder, tmp_path, own, old, save, published, kind):
    target = folder / "autotune_configs.json"
    target.write_bytes(own.text(old))
    links = tmp_path / "links"
    links.mkdir()
    link = links / "plans.json"
    if kind == "chain":
        (links / "second.json").symlink_to(target)
        link.symlink_to("second.json")
    else:
        link.symlink_to(target if kind == "absolute" else os.path.relpath(target, links))
    before = os.listdir(links), os.readlink(link)
    save(link)
    assert link.is_symlink(), "the link became a plain file"
    assert (os.listdir(links), os.readlink(link)) == before
    published(target)
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
    try:
        answer = launch(timeout=PATIENCE).write_native(str(path), new)
    except NoAnswerError:
        pytest.fail(f"it waits for a {kind}")
    after = os.lstat(path)
    same = (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode)
    assert same, f"the {kind} was replaced"
    assert isinstance(answer, Rejected), f"a {kind} was written to"
    assert answer.code == "not-regular"
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
    "half a document": lambda good, _: good[: len(good) // 2],
    "NUL bytes": lambda good, _: b"\0" * len(good),
    "no JSON": lambda good, _: b"not a document",
    "bad plan": lambda good, dialect: dialect.spoil(good),
}


@pytest.fixture
def broken(own, damage):
    """A good document with some damage."""
    return BROKEN[damage](own.text(own.document()), own.dialect)


@pytest.fixture
def default_file(session):
    """The default path, with its directory made, for sessions without a given path."""
    path = Path(session(**{NATIVE_PATH: ""}).stats().path)
    path.parent.mkdir(parents=True)
    return path


@contract("PUBL-14")
@requires("warm-up")
@requires("options")
@pytest.mark.parametrize("damage", BROKEN)
def test_corrupt_default_file_is_kept_beside_and_replaced(
    session, default_file, own, damage, broken
):
    names = set()
    for _ in range(2):
        default_file.write_bytes(broken)
        opened = session(**{NATIVE_PATH: ""})
        opened.warm_up(timings=fastest(9))
        assert default_file.read_bytes() == broken, "replaced before the warm-up completed"
        opened.saved()
        assert own.kept(default_file) == opened.plans()
        kept = [p for p in default_file.parent.iterdir() if p != default_file]
        assert [p.read_bytes() for p in kept] == [broken], "the corrupt bytes are not kept once"
        names.add(kept[0].name)
    assert len(names) == 1, "the name beside it is not a fixed one"


@contract("PUBL-14")
@requires("warm-up")
@requires("options")
@pytest.mark.parametrize("value", ["", "None", "unknown"])
def test_indeterminate_default_file_is_replaced(session, default_file, own, old, value):
    old["_metadata"]["cuda_driver"] = value
    default_file.write_bytes(own.text(old))
    opened = session(**{NATIVE_PATH: ""})
    opened.warm_up(timings=fastest(9))
    opened.saved()
    again = session(**{NATIVE_PATH: ""})
    assert again.warm_up(timings=NO_CLOCK).tuned == 0, "tuning is lost at every start, for ever"


@contract("PUBL-14")
@requires("warm-up")
@pytest.mark.parametrize("damage", BROKEN)
def test_corrupt_file_at_a_given_path_is_left_alone(session, cache_file, damage, broken):
    cache_file.write_bytes(broken)
    opened = session()
    opened.warm_up(timings=fastest(9))
    assert opened.complete().failure, "a corrupt file that the user named was replaced"
    assert cache_file.read_bytes() == broken
    assert os.listdir(cache_file.parent) == [cache_file.name]


def _is_left_alone(subject, path, there, new):
    path.write_bytes(there)
    answer = subject.write_native(str(path), new)
    assert isinstance(answer, Rejected), "a file that it cannot use was replaced"
    assert path.read_bytes() == there
    assert os.listdir(path.parent) == [path.name]


@contract("PUBL-14")
@pytest.mark.parametrize("damage", BROKEN)
def test_unusable_file_is_not_saved_over(subject, folder, new, damage, broken):
    _is_left_alone(subject, folder / "autotune_configs.json", broken, new)


@contract("PUBL-14")
@pytest.mark.parametrize("field", ["gpu", pytest.param("format", marks=requires("keeps-native"))])
def test_file_of_another_environment_is_not_saved_over(subject, folder, own, old, new, field):
    old["_metadata"][field] += " of tomorrow"
    _is_left_alone(subject, folder / "autotune_configs.json", own.text(old), new)


@contract("PUBL-14")
@requires("warm-up")
def test_empty_file_at_a_given_path_is_replaced(session, cache_file, own):
    cache_file.write_bytes(b"")
    opened = session()
    opened.warm_up(timings=fastest(9))
    opened.saved()
    assert own.kept(cache_file) == opened.plans()


@contract("PUBL-14")
@requires("warm-up")
@requires("options")
@pytest.mark.parametrize("other", ["gpu", "format"])
def test_well_formed_foreign_default_file_is_never_overwritten(
    session, default_file, own, old, other
):
    old["_metadata"][other] += " of tomorrow"
    default_file.write_bytes(own.text(old))
    opened = session(**{NATIVE_PATH: ""})
    opened.warm_up(timings=fastest(9))
    assert opened.complete().failure, "a foreign file was replaced"
    assert default_file.read_bytes() == own.text(old)
