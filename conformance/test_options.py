"""PATH: options and the location of the default file."""

import itertools
import os
from pathlib import Path

import pytest

from pytest_nvfp4.faults import denial
from pytest_nvfp4.implementations.messages import Options, Reading, Rejected
from pytest_nvfp4.implementations.transports import JSON_LINES
from pytest_nvfp4.model import documents, facts
from pytest_nvfp4.suite import contract, over, requires
from pytest_nvfp4.suite.sessions import SHAPES, fastest, full_map

PERSISTENT = "VT_FP4_PERSISTENT_CACHE"
NATIVE_PATH = "VT_FP4_AUTOTUNE_CACHE_PATH"
IMPORT_PATH = "VT_FP4_FLASHINFER_CACHE_PATH"
FROZEN = "VT_FP4_AUTOTUNE_CACHE_READONLY"
DELAY = "VT_FP4_AUTOTUNE_DELAY_US"
PLAN_CACHE = "VT_FP4_PLAN_CACHE"
DIRECT_SF = "VT_FP4_DIRECT_SF"

DEVICE_NAMES = (
    *("NVIDIA GB10", "NVIDIA_GB10", "NVIDIA-GB10", "NVIDIA/GB10", "nvidia gb10", "NVIDIA GB10 "),
    *(
        ".",
        "..",
        "/",
        "a/../../b",
        "x\0y",
        "x" * 300,
        "x" * 301,
        "\N{GREEK SMALL LETTER MU}P",
        "%20",
        " ",
    ),
)


def resolved(subject, environment, metadata=None) -> Options:
    options = subject.resolve(environment, metadata)
    assert not isinstance(options, Rejected), f"configuration was rejected: {options.message}"
    return options


def default_file(subject, environment, metadata=None) -> Path:
    path = resolved(subject, environment, metadata).native_path
    assert path is not None, "there is no default file, although the cache root is usable"
    return Path(path)


@contract("PATH-1")
@pytest.mark.parametrize("root", ["XDG_CACHE_HOME and HOME", "XDG_CACHE_HOME", "HOME"])
def test_default_file_lies_under_the_cache_root(nvfp4, root):
    environment, cache = {}, nvfp4.folder / "home" / ".cache"
    if root.endswith("HOME") and root != "XDG_CACHE_HOME":
        environment["HOME"] = str(nvfp4.folder / "home")
    if root.startswith("XDG"):
        environment["XDG_CACHE_HOME"] = str(cache := nvfp4.folder / "cache")
    parts = default_file(nvfp4.subject, environment).relative_to(cache).parts
    assert len(parts) >= 5, "below the root: product, nvfp4_autotune, format, environment, file"
    assert parts[1:3] == ("nvfp4_autotune", facts.NATIVE_FORMAT)
    assert parts[-1] == "autotune_configs.json"


@contract("PATH-1")
def test_default_file_is_the_same_in_every_process(nvfp4):
    environment = {"HOME": str(nvfp4.folder)}
    here = default_file(nvfp4.subject, environment)
    for seed in ("0", "1", "4294967295"):
        assert default_file(nvfp4.launch(variables={"PYTHONHASHSEED": seed}), environment) == here


@contract("PATH-2")
@requires("native-document")
@pytest.mark.parametrize("field", [f for f in facts.NATIVE_METADATA if f != "delay_microseconds"])
def test_metadata_field_changes_the_directory(nvfp4, field):
    metadata = dict(nvfp4.description.native_metadata)
    environment = {"HOME": str(nvfp4.folder)}
    before = default_file(nvfp4.subject, environment, metadata)
    metadata[field] = metadata[field] + (1 if isinstance(metadata[field], int) else "x")
    assert default_file(nvfp4.subject, environment, metadata).parent != before.parent


@contract("PATH-2")
@pytest.mark.parametrize("delay", ["0", "1000", "4999", "1000000"])
def test_resolved_delay_changes_the_directory(nvfp4, delay):
    environment = {"HOME": str(nvfp4.folder)}
    default = default_file(nvfp4.subject, environment)
    assert default_file(nvfp4.subject, environment | {DELAY: delay}).parent != default.parent
    assert default_file(nvfp4.subject, environment | {DELAY: "5000"}) == default, (
        "5000 is the default"
    )


@contract("PATH-2")
@pytest.mark.parametrize(
    "other",
    [
        *({"LOG_LEVEL": "debug"}, {"LANG": "de_DE"}, {"PWD": "/"}, {"USER": "somebody"}),
        *({FROZEN: "1"}, {DIRECT_SF: "0"}, {IMPORT_PATH: "/some/import.json"}),
    ],
    ids=lambda other: next(iter(other)),
)
def test_other_variables_do_not_change_the_file(nvfp4, other):
    environment = {"HOME": str(nvfp4.folder)}
    assert default_file(nvfp4.subject, environment | other) == default_file(
        nvfp4.subject, environment
    )


@contract("PATH-2")
def test_working_directory_does_not_change_the_file(nvfp4):
    environment = {"HOME": str(nvfp4.folder)}
    elsewhere = nvfp4.launch(folder=str(nvfp4.folder))
    assert default_file(elsewhere, environment) == default_file(nvfp4.subject, environment)


@contract("PATH-3")
@requires("native-document")
def test_environments_never_share_a_directory(nvfp4):
    folders = {}
    for name in DEVICE_NAMES:
        metadata = dict(nvfp4.description.native_metadata) | {"gpu": name}
        path = default_file(nvfp4.subject, {"HOME": str(nvfp4.folder)}, metadata)
        folders.setdefault(path.parent, []).append(name)
    assert [names for names in folders.values() if len(names) > 1] == []


@contract("PATH-3")
@requires("native-document")
def test_fields_do_not_run_into_each_other(nvfp4):
    def folder(**fields):
        metadata = dict(nvfp4.description.native_metadata) | fields
        return default_file(nvfp4.subject, {"HOME": str(nvfp4.folder)}, metadata).parent

    names = [name for name in facts.NATIVE_METADATA if name not in ("format", "delay_microseconds")]
    for kind in (facts.STR, facts.INT):
        same_kind = [name for name in names if facts.NATIVE_METADATA[name] == kind]
        one, two = (1, 21), (12, 1)
        if kind == facts.STR:
            one, two = ("1", "21"), ("12", "1")
        for first, second in itertools.pairwise(same_kind):
            assert folder(**{first: one[0], second: one[1]}) != folder(
                **{first: two[0], second: two[1]}
            )


@contract("PATH-3")
@requires("native-document")
@pytest.mark.parametrize("name", DEVICE_NAMES, ids=ascii)
def test_every_component_is_a_file_name(nvfp4, name):
    metadata = dict(nvfp4.description.native_metadata) | {"gpu": name}
    options = resolved(nvfp4.subject, {"HOME": str(nvfp4.folder)}, metadata)
    below = str(options.native_path).removeprefix(f"{nvfp4.folder}/")
    for component in below.split("/"):
        assert component not in ("", ".", ".."), f"component {component!r} of {below!r}"
        assert len(os.fsencode(component)) <= 255
        assert "\0" not in component


@contract("PATH-4")
@pytest.mark.parametrize(
    "override",
    ["/opt/plans/a b.json", "plans.json", "/x/./y//z", "~/p.json", "$HOME/p.json", " p.json "],
)
def test_native_path_is_used_verbatim(nvfp4, override):
    environment = {"HOME": str(nvfp4.folder), NATIVE_PATH: override}
    assert resolved(nvfp4.subject, environment).native_path == override


@contract("PATH-5")
def test_resolving_leaves_the_import_path_alone(nvfp4):
    missing = nvfp4.folder / "import" / "autotune_configs.json"
    options = resolved(nvfp4.subject, {"HOME": str(nvfp4.folder), IMPORT_PATH: str(missing)})
    assert options.import_path == str(missing)
    assert list(nvfp4.folder.iterdir()) == []


@contract("PATH-5")
@requires("flashinfer-import")
def test_reading_a_missing_import_does_not_create_it(nvfp4):
    assert isinstance(nvfp4.flashinfer.read(nvfp4.folder / "absent" / "import.json"), Rejected)
    assert isinstance(nvfp4.flashinfer.read(nvfp4.folder / "import.json"), Rejected)
    assert list(nvfp4.folder.iterdir()) == []


@contract("PATH-5")
@requires("flashinfer-import")
@requires("publication")
@requires("native-document")
def test_importing_and_saving_leave_the_import_alone(nvfp4):
    folder = nvfp4.folder / "import"
    folder.mkdir()
    path = folder / "autotune_configs.json"
    path.write_bytes(documents.native_bytes(nvfp4.flashinfer.document()))
    before = path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_ctime_ns, os.listdir(folder)
    assert isinstance(nvfp4.flashinfer.read(path), Reading)
    assert nvfp4.subject.write_native(
        str(nvfp4.folder / "native.json"), nvfp4.native.document()
    ) == len(nvfp4.native.plans)
    after = path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_ctime_ns, os.listdir(folder)
    assert after == before


@contract("PATH-5")
@requires("flashinfer-import")
@requires("warm-up")
@pytest.mark.parametrize("existing", [True, False], ids=["existing", "absent"])
def test_completing_a_warm_up_leaves_the_import_alone(nvfp4, existing):
    folder = nvfp4.folder / "import"
    folder.mkdir()
    path = folder / "autotune_configs.json"
    if existing:
        path.write_bytes(documents.native_bytes(nvfp4.flashinfer.document()))
    files = [folder, *folder.iterdir()]
    before = [(f.stat().st_mtime_ns, f.stat().st_ctime_ns) for f in files], os.listdir(folder)
    opened = nvfp4.session(**{IMPORT_PATH: str(path)})
    opened.warm_up(timings=fastest(9))
    opened.saved()
    after = [(f.stat().st_mtime_ns, f.stat().st_ctime_ns) for f in files], os.listdir(folder)
    assert after == before, "the import was written"


@contract("PATH-6")
@pytest.mark.parametrize(
    "environment",
    [{}, {"HOME": ""}, {"HOME": "relative"}, {"XDG_CACHE_HOME": "relative"}],
    ids=["nothing set", "HOME empty", "HOME relative", "XDG relative"],
)
def test_without_a_cache_root_there_is_one_warning(nvfp4, environment):
    options = resolved(nvfp4.subject, environment | {IMPORT_PATH: "/some/import.json"})
    assert options.native_path is None
    assert options.import_path == "/some/import.json", "an import needs no cache root"
    assert not options.bypass
    assert len(options.warnings) == 1
    assert options.warnings[0].strip()


@contract("PATH-6")
def test_with_a_cache_root_there_is_no_warning(nvfp4):
    assert resolved(nvfp4.subject, {"HOME": str(nvfp4.folder)}).warnings == ()


@contract("PATH-6")
def test_frozen_without_a_cache_root_is_a_configuration_error(nvfp4):
    answer = nvfp4.subject.resolve({FROZEN: "1"})
    assert isinstance(answer, Rejected), "a frozen map that lies nowhere was accepted"
    assert answer.code == "configuration"


@contract("PATH-7")
@pytest.mark.parametrize(
    "variable",
    [PERSISTENT, NATIVE_PATH, IMPORT_PATH, FROZEN, DELAY, PLAN_CACHE, "XDG_CACHE_HOME"],
)
def test_empty_variable_counts_as_unset(nvfp4, variable):
    environment = {"HOME": str(nvfp4.folder)}
    assert resolved(nvfp4.subject, environment | {variable: ""}) == resolved(
        nvfp4.subject, environment
    )


@contract("PATH-7")
@pytest.mark.parametrize("root", ["cache", "./cache", "../cache", "~/cache"])
def test_relative_xdg_root_is_ignored(nvfp4, root):
    environment = {"HOME": str(nvfp4.folder)}
    options = resolved(nvfp4.subject, environment | {"XDG_CACHE_HOME": root})
    assert options.native_path == resolved(nvfp4.subject, environment).native_path


@contract("PATH-8")
@pytest.mark.parametrize("home_exists", [False, True])
def test_resolving_creates_nothing(nvfp4, home_exists):
    home = nvfp4.folder / "home"
    if home_exists:
        (home / ".cache").mkdir(parents=True)
    before = [
        (str(p), p.stat().st_mtime_ns) for p in (nvfp4.folder, *sorted(nvfp4.folder.rglob("*")))
    ]
    for extra in ({}, {"XDG_CACHE_HOME": str(nvfp4.folder / "x")}, {FROZEN: "1"}):
        resolved(nvfp4.subject, {"HOME": str(home)} | extra)
    resolved(nvfp4.subject, {"HOME": str(home), NATIVE_PATH: str(nvfp4.folder / "a" / "b.json")})
    after = [
        (str(p), p.stat().st_mtime_ns) for p in (nvfp4.folder, *sorted(nvfp4.folder.rglob("*")))
    ]
    assert after == before, "something was created, or created and deleted"


@contract("PATH-8")
@requires("session")
def test_opening_a_session_creates_nothing(nvfp4):
    nvfp4.session(**{NATIVE_PATH: ""})
    nvfp4.session(**{NATIVE_PATH: str(nvfp4.folder / "a" / "b.json")})
    assert list(nvfp4.folder.rglob("*")) == [nvfp4.cache_file.parent], "beside what the test made"


@contract("PATH-9")
@pytest.mark.parametrize("off", ["0", "false", "off"])
def test_persistence_off_uses_no_file_and_asks_for_nothing(nvfp4, off):
    invalid = {DELAY: "soon", FROZEN: "perhaps", PLAN_CACHE: "maybe", DIRECT_SF: "maybe"}
    invalid |= {NATIVE_PATH: str(nvfp4.folder / "n"), IMPORT_PATH: "i"}
    options = resolved(nvfp4.subject, {PERSISTENT: off} | invalid)
    assert not options.enabled
    assert (options.native_path, options.import_path) == (None, None)
    assert options.warnings == ()


@contract("PATH-9")
@pytest.mark.parametrize("on", ["1", "true", "on"])
def test_persistence_on_is_the_default(nvfp4, on):
    environment = {"HOME": str(nvfp4.folder)}
    assert resolved(nvfp4.subject, environment | {PERSISTENT: on}) == resolved(
        nvfp4.subject, environment
    )
    assert resolved(nvfp4.subject, environment).enabled


@contract("PATH-9")
@requires("warm-up")
@requires("scripted-timer")
@requires("native-document")
def test_persistence_off_neither_loads_nor_saves(nvfp4):
    nvfp4.write_cache_file(full_map())
    before = nvfp4.cache_file.read_bytes(), os.listdir(nvfp4.cache_file.parent)
    opened = nvfp4.session(**{PERSISTENT: "0"})
    done = opened.warm_up(timings=fastest(9))
    assert (done.loaded, done.tuned) == (0, len(full_map())), "a file was loaded"
    assert opened.complete().saved == 0
    assert (nvfp4.cache_file.read_bytes(), os.listdir(nvfp4.cache_file.parent)) == before


@contract("PATH-10")
@pytest.mark.parametrize("word", ["1", "true", "on", "0", "false", "off"])
def test_valid_booleans_are_taken(nvfp4, word):
    environment, value = {"HOME": str(nvfp4.folder)}, word in ("1", "true", "on")
    assert resolved(nvfp4.subject, environment | {FROZEN: word}).frozen is value
    assert resolved(nvfp4.subject, environment | {PLAN_CACHE: word}).bypass is not value
    assert resolved(nvfp4.subject, environment | {PERSISTENT: word}).enabled is value


@contract("PATH-10")
@pytest.mark.parametrize(
    "value",
    [
        *("2", "-1", "+1", " 1", "1 ", "1\n", "yes", "tru", "TRUE", "On", "1.0", "01"),
        *("\uff11", "null", "\0", "1\0"),
    ],
    ids=ascii,
)
@pytest.mark.parametrize("variable", [PERSISTENT, FROZEN, PLAN_CACHE, DIRECT_SF])
def test_invalid_boolean_names_its_variable(nvfp4, variable, value):
    _is_refused(nvfp4.subject.resolve({"HOME": str(nvfp4.folder), variable: value}), variable)


@contract("PATH-10")
@pytest.mark.parametrize(
    "value",
    [
        *("+1", "-1", " 5", "5 ", "1_000", "1e3", "5.0", "0x10", "soon", "\u0665", "\uff15", "5\n"),
        *("1000001", "4294967296", "18446744073709551616", "9" * 400),
    ],
    ids=lambda value: ascii(value)[1:20],
)
def test_invalid_delay_names_its_variable(nvfp4, value):
    _is_refused(nvfp4.subject.resolve({"HOME": str(nvfp4.folder), DELAY: value}), DELAY)


@contract("PATH-10")
@pytest.mark.parametrize("value", ["0", "1", "5000", "1000000"])
def test_valid_delay_is_taken(nvfp4, value):
    options = resolved(nvfp4.subject, {"HOME": str(nvfp4.folder), DELAY: value})
    assert options.delay_microseconds == int(value)


def _is_refused(answer, variable):
    assert isinstance(answer, Rejected), f"accepted, as {answer}"
    assert (answer.code, answer.member) == ("configuration", variable)
    assert variable in answer.message, "the sentence does not name the variable"


@contract("PATH-11")
@over(JSON_LINES)
@requires("native-document")
def test_good_file_in_an_unwritable_directory_loads(nvfp4):
    with denial.unwritable(nvfp4.folder / "sealed") as sealed:
        sealed.fill("autotune_configs.json", documents.native_bytes(nvfp4.native.document()))
        path = sealed.folder / "autotune_configs.json"
        denied = nvfp4.launch(prefix=sealed.prefix)
        answer = denied.read_native(str(path), nvfp4.native.metadata)
        assert isinstance(answer, Reading), f"the good file was rejected: {answer}"
        assert answer.plans == nvfp4.native.plans


@contract("PATH-11")
@over(JSON_LINES)
@requires("native-document")
@requires("publication")
def test_save_into_an_unwritable_directory_is_reported(nvfp4):
    with denial.unwritable(nvfp4.folder / "sealed") as sealed:
        denied = nvfp4.launch(prefix=sealed.prefix)
        path = sealed.folder / "autotune_configs.json"
        answer = denied.write_native(str(path), nvfp4.native.document())
        assert isinstance(answer, Rejected), "a save that cannot have happened was reported as done"
        assert answer.code == "publication"
        assert os.listdir(sealed.folder) == []


@contract("PATH-12")
@pytest.mark.parametrize("off", ["0", "false", "off"])
def test_bypass_uses_no_file(nvfp4, off):
    files = {NATIVE_PATH: str(nvfp4.folder / "n.json"), IMPORT_PATH: str(nvfp4.folder / "i.json")}
    options = resolved(nvfp4.subject, {"HOME": str(nvfp4.folder), PLAN_CACHE: off} | files)
    assert options.bypass
    assert not options.enabled
    assert (options.native_path, options.import_path) == (None, None)


@contract("PATH-12")
@requires("plan-map")
@requires("scripted-timer")
@requires("native-document")
@requires("warm-up")
def test_bypassed_cache_tunes_every_lookup_and_keeps_nothing(nvfp4):
    nvfp4.write_cache_file(full_map())
    before = nvfp4.cache_file.read_bytes(), os.listdir(nvfp4.cache_file.parent)
    opened = nvfp4.session(**{PLAN_CACHE: "0"})
    for tactic in (3, 4, 3):
        served = opened.plan(4, *SHAPES[0], timings=fastest(tactic))
        assert (served.tactic, served.tuned) == (tactic, True)
    opened.try_warm_up()
    opened.subject.complete(opened.name)
    assert opened.plans() == {}
    assert opened.stats().loaded == opened.stats().saved == 0
    assert (nvfp4.cache_file.read_bytes(), os.listdir(nvfp4.cache_file.parent)) == before


@contract("PATH-12")
@requires("plan-map")
@requires("capture-guard")
def test_bypassed_lookup_during_capture_fails(nvfp4):
    opened = nvfp4.session(**{PLAN_CACHE: "0"})
    opened.plan(4, *SHAPES[0], timings=fastest(3))
    trace = opened.trace()
    answer = opened.try_plan(4, *SHAPES[0], timings=fastest(3), capturing=True)
    assert isinstance(answer, Rejected), "a lookup measured during capture"
    assert answer.code == "capture-miss"
    assert opened.trace() == trace
