"""Building the kernel library: its inputs, the number of compilers, and interrupted builds."""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from nvfp4_reference.errors import BuildError, UnavailableError
from nvfp4_reference.gemm.cupy import __main__ as command
from nvfp4_reference.gemm.cupy import compiling, library, toolchain
from nvfp4_reference.gemm.cupy import recipe as recipes
from nvfp4_reference.gemm.cupy.architectures import ARCHITECTURES, Architecture, architecture
from nvfp4_reference.gemm.cupy.kernels import Kernels
from nvfp4_reference.tactics import TACTIC_SET_VERSION, TACTICS, digest

from .compilers import fake_toolchain

BUILD = "import sys; from nvfp4_reference.gemm.cupy.__main__ import main; sys.exit(main(['90']))"
GB = 10**9


def recipe(environment: dict[str, str], number: int = 90) -> recipes.Recipe:
    return recipes.recipe(architecture(number), toolchain.find(environment), environment)


def build(environment: dict[str, str], number: int = 90) -> tuple[Path, list[str]]:
    messages: list[str] = []
    return library.built(recipe(environment, number), environment, messages.append), messages


def left(folder: Path) -> set[str]:
    """The files of a build in its cache, without locks and stored digests."""
    cache = folder / "cache"
    return {
        path.name
        for path in cache.iterdir()
        if path.suffix != ".lock" and not path.name.startswith("digest-")
    }


def builder(environment: dict[str, str]) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", BUILD],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


# What is built


@pytest.mark.parametrize("number", sorted(ARCHITECTURES))
def test_every_tactic_is_in_one_unit(number: int) -> None:
    found = []
    for unit in recipes.units(architecture(number)):
        defines = dict(re.findall(r"-D(\w+)=(\d+)", " ".join(unit.defines)))
        for bit in range(4):
            if int(defines.get("NVFP4_VARIANTS", 0)) >> bit & 1:
                tactic = TACTICS[int(defines[f"NVFP4_ID_{bit}"])]
                sides = tuple(int(defines[f"NVFP4_TILE_{side}"]) for side in "MNK")
                assert sides == tactic.tile
                assert bit == tactic.id % 4
                found.append(tactic.id)
    assert sorted(found) == list(range(32))
    assert len({unit.name for unit in recipes.units(architecture(number))}) == len(
        recipes.units(architecture(number))
    )


def test_variants_in_the_sources_are_those_of_the_descriptors() -> None:
    written = re.findall(
        r"^NVFP4_TACTIC\(NVFP4_ID_(\d), (true|false), (\w+)\)",
        recipes.sources()["tactics.cu"],
        re.M,
    )
    assert written == [
        (
            str(tactic.id),
            str(tactic.swap_ab).lower(),
            "StreamK" if tactic.scheduler == "stream-k" else "DataParallel",
        )
        for tactic in TACTICS[:4]
    ]


def test_a_tile_that_cannot_be_built_is_said_to_be_missing() -> None:
    whole = architecture(90)
    assert whole.tactic_digest == digest()
    assert whole.tactic_set_version == TACTIC_SET_VERSION
    part = Architecture(
        number=90,
        expands=True,
        k_multiple=16,
        variants_per_unit=4,
        unit_bytes=1,
        invalid_tiles=frozenset({(128, 32, 128)}),
    )
    assert [tactic.id for tactic in part.tactics] == list(range(4, 32))
    assert part.tactic_digest != whole.tactic_digest
    assert part.tactic_set_version != whole.tactic_set_version
    assert len(recipes.units(part)) == len(recipes.units(whole)) - 1


def test_flags_name_the_architecture_with_its_suffix() -> None:
    assert "-gencode=arch=compute_121a,code=sm_121a" in recipes.flags_of(architecture(121))
    assert "-DNDEBUG" in recipes.flags_of(architecture(90))


# What decides a library


def test_the_digest_changes_with_all_that_a_library_is_made_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = fake_toolchain(tmp_path)
    first = recipe(environment)
    assert recipe(environment) == first
    digests = [first.digest, recipe(environment, 120).digest, recipe(environment, 121).digest]

    (tmp_path / "version").write_text("release 13.1")
    digests.append(recipe(environment).digest)
    (tmp_path / "version").write_text("release 13.0")

    header = tmp_path / "include" / "cute" / "tensor.hpp"
    text = header.read_text()
    header.write_text(text + "\n")
    digests.append(recipe(environment).digest)
    header.rename(header.with_name("tensor2.hpp"))
    digests.append(recipe(environment).digest)
    header.write_text(text)
    header.with_name("tensor2.hpp").unlink()
    assert recipe(environment) == first

    with monkeypatch.context() as patch:
        patch.setattr(recipes, "_FLAGS", (*recipes._FLAGS, "-O1"))
        digests.append(recipe(environment).digest)
    sources = recipes.sources()
    for name in sources:
        with monkeypatch.context() as patch:
            edited = {**sources, name: sources[name] + " "}
            patch.setattr(recipes, "sources", lambda edited=edited: edited)
            digests.append(recipe(environment).digest)
    assert len(set(digests)) == len(digests)
    assert len(sources) == 5


@pytest.mark.parametrize("name", ["NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN"])
def test_flags_that_nvcc_takes_from_its_environment_make_another_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    environment = fake_toolchain(tmp_path)
    monkeypatch.delenv(name, raising=False)
    plain = recipe(environment).digest
    monkeypatch.setenv(name, "")
    assert recipe(environment).digest == plain
    monkeypatch.setenv(name, "-G")
    assert recipe(environment).digest != plain


def test_a_digest_is_remembered_until_something_is_edited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = fake_toolchain(tmp_path)
    first = recipe(environment)
    header = tmp_path / "include" / "cute" / "tensor.hpp"
    with monkeypatch.context() as patch:
        patch.setattr(toolchain.Toolchain, "headers_digest", lambda _: pytest.fail("read again"))
        assert recipe(environment) == first
    for old, new in (("tensor", "TENSOR"), ("TENSOR", "tensor")):  # of one size, and of one time
        times = header.stat()
        header.write_text(header.read_text().replace(old, new))
        os.utime(header, ns=(times.st_atime_ns, times.st_mtime_ns))
        assert (recipe(environment) == first) == (new == "tensor")


@pytest.mark.parametrize("content", [b"", b"no digest", b"\xff", b"0" * 65])
def test_a_note_that_holds_no_digest_is_not_believed(tmp_path: Path, content: bytes) -> None:
    environment = fake_toolchain(tmp_path)
    first = recipe(environment)
    (note,) = (tmp_path / "cache").glob("digest-*")
    note.write_bytes(content)
    assert recipe(environment) == first
    assert note.read_text() == first.digest


def test_a_compiler_that_is_no_script_is_not_run_to_be_known(tmp_path: Path) -> None:
    environment = fake_toolchain(tmp_path)
    found = toolchain.find(environment)
    before = found.facts()
    found.nvcc.write_bytes(b"\x7fELF and no program")
    as_program = found.facts()
    assert as_program != before
    assert found.facts() == as_program
    found.nvcc.write_bytes(b"\x7fELF and no programs")
    assert found.facts() != as_program


def test_a_compiler_behind_another_program_is_asked(tmp_path: Path) -> None:
    """/usr/lib/ccache/nvcc is a link to ccache, which stays as it is when CUDA is updated."""
    found = toolchain.find(fake_toolchain(tmp_path))
    found.nvcc.rename(tmp_path / "ccache")
    found.nvcc.symlink_to("ccache")
    program = tmp_path / "ccache"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(toolchain.Toolchain, "compiler_version", lambda _: "release 13.0")
        program.write_bytes(b"\x7fELF and no program")
        before = found.facts()
        patch.setattr(toolchain.Toolchain, "compiler_version", lambda _: "release 13.1")
        assert found.facts() != before


def test_an_edited_header_behind_a_linked_folder_makes_another_library(tmp_path: Path) -> None:
    environment = fake_toolchain(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    linked = tmp_path / "include" / "cute"
    plain = toolchain.find(environment).headers_digest()
    linked.rename(elsewhere)
    linked.symlink_to(elsewhere, target_is_directory=True)
    (elsewhere / "loop").symlink_to(elsewhere, target_is_directory=True)
    assert toolchain.find(environment).headers_digest() == plain
    first = recipe(environment)
    (elsewhere / "tensor.hpp").write_text("// TENSOR\n")
    assert recipe(environment).digest != first.digest


def test_notes_that_cannot_be_kept_are_done_without(tmp_path: Path) -> None:
    environment = fake_toolchain(tmp_path)
    first = recipe(environment)
    environment[toolchain.BUILD_CACHE] = str(tmp_path / "version" / "under-a-file")
    assert recipe(environment).digest == first.digest


def test_where_the_headers_lie_decides_nothing(tmp_path: Path) -> None:
    environment = fake_toolchain(tmp_path)
    first = recipe(environment)
    moved = tmp_path / "moved"
    shutil.move(tmp_path / "include", moved)
    environment[toolchain.CUTLASS_INCLUDE] = str(moved)
    assert recipe(environment).path == first.path


# How many compilers


@pytest.mark.parametrize(
    ("units", "cores", "memory", "jobs"),
    [
        (9, 16, 128 * GB, 9),
        (9, 2, 128 * GB, 2),
        (9, 16, 24 * GB, 5),
        (9, 16, 4_500_000_000, 1),
        (9, 16, 8_999_999_999, 1),
        (9, 16, None, 1),
        (1, 16, 128 * GB, 1),
    ],
)
def test_jobs_within_cores_and_memory(
    units: int, cores: int, memory: int | None, jobs: int
) -> None:
    assert compiling.jobs_within(units, 4_500_000_000, cores, memory) == jobs


def test_too_little_memory_for_one_compiler() -> None:
    with pytest.raises(BuildError, match=r"needs 4.5 GB of memory, and 4.4 GB are free; .*\.$"):
        compiling.jobs_within(9, 4_500_000_000, 16, 4_400_000_000)


@pytest.mark.parametrize("value", ["0", "-1", "two", "1.5", "\u0663"])
def test_a_number_of_jobs_is_positive(value: str) -> None:
    with pytest.raises(BuildError, match=f"{toolchain.BUILD_JOBS} is .*; set it to a positive"):
        compiling.job_count(9, 1, {toolchain.BUILD_JOBS: value})


def test_a_given_number_of_jobs_is_taken() -> None:
    assert compiling.job_count(9, 10**18, {toolchain.BUILD_JOBS: "4"}) == 4
    assert compiling.job_count(9, 10**18, {toolchain.BUILD_JOBS: "40"}) == 9


def test_a_container_s_limit_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine, limit, used = tmp_path / "meminfo", tmp_path / "max", tmp_path / "current"
    machine.write_text("MemTotal: 9 kB\nMemAvailable:   64000 kB\n")
    monkeypatch.setattr(compiling, "_MEMORY", machine)
    monkeypatch.setattr(compiling, "_LIMITS", ((limit, used),))
    assert compiling.available_memory() == 64_000 * 1024
    limit.write_text("max\n")
    used.write_text("5000\n")
    assert compiling.available_memory() == 64_000 * 1024
    limit.write_text("12000\n")
    assert compiling.available_memory() == 7000
    machine.unlink()
    limit.unlink()
    assert compiling.available_memory() is None


# Building


def test_a_library_is_built_once(tmp_path: Path) -> None:
    environment = fake_toolchain(tmp_path)
    path, messages = build(environment)
    assert path.read_bytes().startswith(b"made of -shared")
    assert left(tmp_path) == {path.name}
    calls = (tmp_path / "calls").read_text().splitlines()
    assert len(calls) == 8 + 1 + 1
    assert messages[0] == "building 9 units of sm_90a kernels with 3 compilers at once."
    assert [sentence[:17] for sentence in messages[1:10]] == [
        f"built {n} of 9 units"[:17] for n in range(1, 10)
    ]
    assert build(environment) == (path, [])
    assert (tmp_path / "calls").read_text().splitlines() == calls


def test_two_at_once_build_it_once(tmp_path: Path) -> None:
    environment = fake_toolchain(tmp_path)
    both = [builder(environment), builder(environment)]
    outputs = [one.communicate()[0] for one in both]
    assert [one.returncode for one in both] == [0, 0]
    assert outputs[0] == outputs[1]
    assert len((tmp_path / "calls").read_text().splitlines()) == 10


def test_a_mistake_in_one_unit_ends_the_build(tmp_path: Path) -> None:
    environment = fake_toolchain(tmp_path, "fail 128x64x128")
    with pytest.raises(BuildError) as raised:
        build(environment)
    assert re.fullmatch(
        r"the compiler could not build 128x64x128-0 \(tactics.cu\(7\): error: a planted mistake\); .*\.",
        str(raised.value),
    )
    assert "more about it" in raised.value.__notes__[0]
    assert left(tmp_path) == set()
    (tmp_path / "behaviour").write_text("fail library")
    with pytest.raises(BuildError, match="could not build the library"):
        build(environment)
    assert left(tmp_path) == set()


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_build_leaves_no_library(tmp_path: Path, sign: signal.Signals) -> None:
    environment = fake_toolchain(tmp_path, "hang")
    os.mkfifo(tmp_path / "pipe")
    process = builder(environment)
    with open(tmp_path / "pipe") as pipe:
        compilers = [int(pipe.readline()) for _ in range(3)]
        process.send_signal(sign)
        _, messages = process.communicate()
        assert process.returncode != 0
        if sign == signal.SIGINT:
            assert process.returncode == 130
            assert messages.endswith("nvfp4: interrupted; all files of this build are removed.\n")
            assert "Traceback" not in messages
            assert pipe.read() == "", "a compiler is left"  # the end, once none holds the pipe
            assert left(tmp_path) == set()
        else:  # nothing was left to end them
            for compiler in compilers:
                os.kill(compiler, signal.SIGKILL)
            assert len(left(tmp_path)) == 1
            assert not list((tmp_path / "cache").glob("*.so"))
    (tmp_path / "behaviour").write_text("work")
    path, _ = build(environment)
    assert left(tmp_path) == {path.name}, "remains were not removed"


def test_an_interrupt_in_this_process_ends_the_compilers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = fake_toolchain(tmp_path, "hang")
    os.mkfifo(tmp_path / "pipe")
    ended: list[str] = []

    def watch() -> None:
        with open(tmp_path / "pipe") as pipe:
            for _ in range(3):
                pipe.readline()
            started.set()
            ended.append(pipe.read())

    def interrupted(running: object) -> None:
        started.wait()
        raise KeyboardInterrupt

    started = threading.Event()
    monkeypatch.setattr(compiling, "_first_to_end", interrupted)
    watcher = threading.Thread(target=watch)
    watcher.start()
    with pytest.raises(KeyboardInterrupt):
        build(environment)
    watcher.join()
    assert ended == [""]
    assert left(tmp_path) == set()


def test_a_cache_that_cannot_be_written(tmp_path: Path) -> None:
    environment = fake_toolchain(tmp_path)
    cache = tmp_path / "cache"
    unusable = r"cannot be built in .*/cache \(.*\); set NVFP4_REFERENCE_BUILD_CACHE"
    cache.write_text("a file")
    with pytest.raises(BuildError, match=unusable):
        build(environment)
    cache.unlink()
    recipe(environment).path.with_suffix(".lock").mkdir(parents=True)
    with pytest.raises(BuildError, match=unusable):
        build(environment)


def test_a_header_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = fake_toolchain(tmp_path)

    def refuse(_: toolchain.Toolchain) -> str:
        raise PermissionError(13, "Permission denied", "tensor.hpp")

    monkeypatch.setattr(toolchain.Toolchain, "headers_digest", refuse)
    with pytest.raises(UnavailableError, match=r"cannot be read \(.*tensor.hpp'\); make it"):
        recipe(environment)


def test_relative_names_are_those_of_the_callers_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = fake_toolchain(tmp_path)
    monkeypatch.chdir(tmp_path)
    named = {toolchain.NVCC: "./nvcc", toolchain.CUTLASS_INCLUDE: "include"}
    built = build(environment | named)[0]
    assert built == build(environment)[0]
    assert f"-isystem {tmp_path}/include" in (tmp_path / "calls").read_text()


def test_a_library_that_is_none(tmp_path: Path) -> None:
    path, _ = build(fake_toolchain(tmp_path))
    with pytest.raises(UnavailableError, match=r"cannot be loaded \(.*\); delete it") as raised:
        Kernels(path, architecture(90))
    assert "\n" not in str(raised.value)


def test_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in fake_toolchain(tmp_path, "fail operations").items():
        monkeypatch.setenv(name, value)
    assert command.main(["90"]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "nvfp4: the compiler could not build operations" in printed.err
    assert command.main(["89"]) == 1
    assert command.main(["sm_90"]) == 1
    assert "give one compute capability as a number" in capsys.readouterr().err
    (tmp_path / "behaviour").write_text("work")
    assert command.main(["121"]) == 0
    assert capsys.readouterr().out.rstrip().endswith(".so")
