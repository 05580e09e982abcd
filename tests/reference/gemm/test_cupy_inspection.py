"""The disassembly of a built library: each tactic's kernel, and what it multiplies with."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from nvfp4_reference.errors import UnavailableError
from nvfp4_reference.gemm.cupy import CupyBackend, inspection, toolchain
from nvfp4_reference.gemm.cupy import __main__ as command
from nvfp4_reference.gemm.cupy.architectures import architecture
from nvfp4_reference.tactics import TACTICS, Tactic

FP4 = "OMMA.SF.16864.F32.E2M1.E2M1.UE4M3.4X"
HALF = "HGMMA.64x128x16.F32"


def kernel_name(tactic: Tactic, *, halved: bool = False) -> str:
    """The parts of CUTLASS's name of a tactic's kernel that the inspection reads."""
    m, n, k = tactic.tile
    tile = f"cute::tuple<cute::C<{m}>, cute::C<{n}>, cute::C<{k // 2 if halved else k}> >"
    one = "cute::tuple<cute::C<1>, cute::C<1>, cute::C<1> >"
    stride = "cute::C<1>, long, long" if tactic.swap_ab else "long, cute::C<1>, long"
    scheduler = "StreamK" if tactic.scheduler == "stream-k" else "Persistent"
    return (
        f"void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<Mainloop<3, {one}>, "
        "cute::tuple<long, cute::C<1>, long>, cutlass::epilogue::collective::CollectiveEpilogue<"
        f"cutlass::epilogue::Sm90TmaWarpSpecialized<2, 2, 4, false, true>, {tile}, void, "
        f"cute::tuple<{stride}>, cutlass::bfloat16_t, cute::tuple<{stride}>, Fusion>, "
        f"cutlass::gemm::{scheduler}Scheduler, void> >(Params)"
    )


def library(instruction: str, *, halved: bool = False) -> dict[str, dict[str, int]]:
    """All kernels of a library, in no order that means anything, and another of its functions."""
    kernels = {kernel_name(one, halved=halved): {instruction: 8 + one.id} for one in TACTICS}
    return {"quantize(float*)": {}, **dict(reversed(kernels.items()))}


def code(instructions: list[str], functions: tuple[str, ...] = ("first",)) -> str:
    """What cuobjdump writes for functions that each have these instructions."""
    lines = ["Fatbin elf code:", "================", "arch = sm_75", "", "\tcode for sm_75", ""]
    lines += ["Fatbin elf code:", "================", "arch = sm_121a", "code version = [1,8]", ""]
    for function in functions:
        lines += ["\tcode for sm_121a", f"\t\tFunction : {function}", "\t.headerflags @..."]
        for number, instruction in enumerate(instructions):
            address = f"/*{16 * number:04x}*/"
            lines += [f"        {address}   {instruction} ;   /* 0x00fe4000000f00 */"]
            lines += [f"{'':60}/* 0x000fe200078e0204 */"]
        lines += ["\t\t.........."]
    return "\n".join(lines)


def test_only_tensor_core_instructions_are_counted_and_each_by_its_function() -> None:
    text = code(
        [
            "IMAD.MOV.U32 R1, RZ, RZ, c[0x0][0x28]",
            f"{FP4} R4, R172, R176.reuse, R4, R0, R8, URZ",
            f"@!P0 {FP4} R12, R180, R176, R12, R3, R8, URZ",
            f"@!UPT {FP4} R12, R180, R176, R12, R3, R8, URZ",
            "HGMMA.64x128x16.F32 R24, gdesc[UR8], R24, gsb0",
            "UTCOMMA.2CTA gdesc[UR4], gdesc[UR6], tmem[UR10]",
            "FFMA R0, R1, R2, R3",
            "EXIT",
        ],
        ("first", "second"),
    )
    number, found = inspection.disassembled(text.splitlines())
    assert number == 121
    expected = {FP4: 3, HALF: 1, "UTCOMMA.2CTA": 1}
    assert found == {"first": expected, "second": expected}


@pytest.mark.parametrize("count", [0, 2])
def test_a_file_that_is_for_no_single_architecture(count: int) -> None:
    parts = ("\tcode for sm_90a\n\t\tFunction : a", "\tcode for sm_121a\n\t\tFunction : b")
    text = "\n".join(parts[:count])
    with pytest.raises(UnavailableError, match=f"code for {count} architectures"):
        inspection.disassembled(text.splitlines())


@pytest.mark.parametrize(("number", "name"), [(90, HALF), (120, FP4), (121, FP4)])
def test_every_tactic_is_found_by_what_its_kernel_is(number: int, name: str) -> None:
    found = inspection.sorted_out(architecture(number), library(name, halved=number == 90))
    assert [one.tactic for one in found.findings] == list(TACTICS)
    assert [one.instructions for one in found.findings] == [{name: 8 + one} for one in range(32)]
    assert found.faults == []
    head, *rows = found.table().splitlines()
    assert head.startswith(f"sm_{number}a: ")
    assert rows[6].split() == ["6", "128x32x256", "swap-AB", "stream-K", "14", name]
    assert len(rows) == 32
    assert max(map(len, rows)) <= 90


@pytest.mark.parametrize(
    "other",
    [
        HALF,
        "HMMA.16816.F32",
        "QMMA.SF.16832.F32.E2M1.E2M1.E8",
        "OMMA.SF.16864.F32.E2M1.E2M1.UE8.2X",  # one scale for every 32 values
        "HGMMA.64x128x16.F32.BF16",
    ],
)
def test_another_instruction_is_a_fault_of_its_tactic_alone(other: str) -> None:
    for number, name in ((121, FP4), (90, HALF)):
        if other == name:
            continue
        kernels = library(name, halved=number == 90)
        kernels[kernel_name(TACTICS[17], halved=number == 90)] = {name: 4, other: 4}
        found = inspection.sorted_out(architecture(number), kernels)
        assert found.faults == [f"tactic 17 ({TACTICS[17].name}): also multiplies by {other}."]


def test_a_kernel_without_tensor_cores_is_a_fault() -> None:
    kernels = library(FP4)
    kernels[kernel_name(TACTICS[0])] = {}
    found = inspection.sorted_out(architecture(121), kernels)
    assert found.faults == [f"tactic 0 ({TACTICS[0].name}): no tensor-core instruction."]
    assert "0 no tensor-core instruction" in found.table()


def test_a_tactic_without_a_kernel() -> None:
    kernels = library(FP4)
    del kernels[kernel_name(TACTICS[3])], kernels[kernel_name(TACTICS[30])]
    with pytest.raises(UnavailableError, match="no kernel for tactic 3, 30 of sm_121a"):
        inspection.sorted_out(architecture(121), kernels)


def test_a_kernel_without_a_tactic() -> None:
    for strange in (
        kernel_name(TACTICS[0]).replace("C<32>", "C<48>"),
        kernel_name(TACTICS[0]).replace("bfloat16_t", "half_t"),
        kernel_name(TACTICS[0], halved=True),
    ):
        with pytest.raises(UnavailableError, match="belongs to no tactic of sm_121a"):
            inspection.sorted_out(architecture(121), {**library(FP4), strange: {FP4: 1}})


def test_two_kernels_of_one_tactic() -> None:
    second = kernel_name(TACTICS[5]).replace("<2, 2, 4,", "<2, 2, 3,")
    with pytest.raises(UnavailableError, match=f"a second one of {TACTICS[5].name}"):
        inspection.sorted_out(architecture(121), {**library(FP4), second: {FP4: 1}})


# The tools


def program(path: Path, text: str) -> str:
    path.write_text(f"#!{sys.executable}\n{text}")
    path.chmod(0o755)
    return str(path)


def test_the_disassembler_is_looked_for_by_name_then_beside_nvcc_then_on_the_path(
    tmp_path: Path,
) -> None:
    for name in ("toolkit", "path"):
        (tmp_path / name).mkdir()
        program(tmp_path / name / "cuobjdump", "")
    nvcc = program(tmp_path / "toolkit" / "nvcc", "")
    environment = {"PATH": str(tmp_path / "path"), toolchain.NVCC: nvcc}
    assert toolchain.find_cuobjdump(environment) == tmp_path / "toolkit" / "cuobjdump"
    (tmp_path / "toolkit" / "cuobjdump").unlink()
    assert toolchain.find_cuobjdump(environment) == tmp_path / "path" / "cuobjdump"
    (tmp_path / "path" / "cuobjdump").unlink()
    with pytest.raises(UnavailableError, match="there is no cuobjdump"):
        toolchain.find_cuobjdump(environment)
    named = program(tmp_path / "other", "")
    environment[toolchain.CUOBJDUMP] = named
    assert toolchain.find_cuobjdump(environment) == Path(named)
    environment[toolchain.CUOBJDUMP] = str(tmp_path)
    with pytest.raises(UnavailableError, match="which is not a program"):
        toolchain.find_cuobjdump(environment)


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A disassembler and a demangler that print files of this folder."""
    show = "import pathlib, sys\nprint(pathlib.Path(__file__).with_suffix('.txt').read_text())\n"
    monkeypatch.setenv(toolchain.CUOBJDUMP, program(tmp_path / "cuobjdump", show))
    program(tmp_path / "c++filt", show)
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "kernels.so").touch()
    names = [kernel_name(one) for one in TACTICS]
    (tmp_path / "c++filt.txt").write_text("\n".join(names))
    symbols = tuple(f"_Z{one}" for one in range(32))
    (tmp_path / "cuobjdump.txt").write_text(code([f"{FP4} R4, R4, R4, R4, R0, R8, URZ"], symbols))
    return tmp_path


def test_the_command_prints_the_table(tools: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["inspect", str(tools / "kernels.so")]) == 0
    printed = capsys.readouterr()
    assert printed.out.count(f"   1 {FP4}\n") == 32
    assert printed.err == ""


def test_the_command_fails_where_a_tactic_multiplies_otherwise(
    tools: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (tools / "cuobjdump.txt").read_text()
    (tools / "cuobjdump.txt").write_text(text.replace(FP4, "HMMA.16816.F32"))
    assert command.main(["inspect", str(tools / "kernels.so")]) == 1
    printed = capsys.readouterr()
    assert printed.err.count("also multiplies by HMMA.16816.F32.\n") == 32
    assert printed.out.count("HMMA") == 32


def test_the_command_says_what_is_missing(
    tools: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refusal(*arguments: str) -> str:
        assert command.main(["inspect", *arguments]) == 1
        printed = capsys.readouterr()
        assert printed.out == ""
        assert printed.err.count("\n") == 1
        return printed.err

    library = str(tools / "kernels.so")
    assert "there is no kernel library" in refusal(str(tools / "other.so"))
    program(tools / "cuobjdump", "import sys\nsys.exit('cuobjdump fatal: no nvdisasm')\n")
    assert "could not read the library (cuobjdump fatal: no nvdisasm)" in refusal(library)
    (tools / "cuobjdump").write_text("#!/nowhere/python\n")
    assert "does not run" in refusal(library)
    monkeypatch.delenv(toolchain.CUOBJDUMP)
    monkeypatch.setenv(toolchain.NVCC, program(tools / "nvcc", ""))
    (tools / "cuobjdump").unlink()
    assert "there is no cuobjdump" in refusal(library)


def test_the_real_tools_agree_with_what_is_read_here(tmp_path: Path) -> None:
    try:
        nvcc = toolchain.find_nvcc(os.environ)
        cuobjdump = toolchain.find_cuobjdump(os.environ)
    except UnavailableError as error:
        pytest.skip(f"needs nvcc and cuobjdump: {error}")
    if shutil.which("c++filt") is None:
        pytest.skip("needs c++filt, of binutils")
    (tmp_path / "one.cu").write_text(
        "#include <mma.h>\n"
        "using namespace nvcuda::wmma;\n"
        "template <int> __global__ void multiply(const half* a, float* d) {\n"
        "  fragment<matrix_a, 16, 16, 16, half, row_major> left;\n"
        "  fragment<matrix_b, 16, 16, 16, half, col_major> right;\n"
        "  fragment<accumulator, 16, 16, 16, float> sum;\n"
        "  fill_fragment(sum, 0.0f);\n"
        "  load_matrix_sync(left, a, 16);\n"
        "  load_matrix_sync(right, a, 16);\n"
        "  mma_sync(sum, left, right, sum);\n"
        "  store_matrix_sync(d, sum, 16, mem_row_major);\n"
        "}\n"
        "template __global__ void multiply<7>(const half*, float*);\n"
    )
    built = [str(nvcc), "-arch=sm_90a", "-cubin", "-o", "one.cubin", "one.cu"]
    subprocess.run(built, cwd=tmp_path, check=True)
    done = subprocess.run(
        [cuobjdump, "-sass", tmp_path / "one.cubin"], capture_output=True, text=True, check=True
    )
    number, found = inspection.disassembled(done.stdout.splitlines())
    assert number == 90
    (name, instructions), *others = found.items()
    assert others == []
    assert instructions == {"HMMA.16816.F32": 2}
    (plain,) = inspection._demangled([name], os.environ)
    assert plain.startswith("void multiply<7>(")
    with pytest.raises(UnavailableError, match="there is no kernel for tactic 0, 1, 2"):
        inspection.inspect(tmp_path / "one.cubin", os.environ)


def test_the_library_of_a_card_multiplies_as_its_architecture_should(
    built_card: CupyBackend,
) -> None:
    try:
        toolchain.find_cuobjdump(os.environ)
    except UnavailableError as error:
        pytest.skip(f"needs cuobjdump: {error}")
    if shutil.which("c++filt") is None:
        pytest.skip("needs c++filt, of binutils")
    recipe = built_card._engine().recipe
    found = inspection.inspect(recipe.path, os.environ)
    assert found.architecture == recipe.architecture
    assert found.faults == []
