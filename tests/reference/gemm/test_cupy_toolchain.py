"""Finding nvcc and CUTLASS's headers, and naming the missing one in one sentence."""

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest
from nvfp4_reference.errors import BuildError, UnavailableError
from nvfp4_reference.gemm.cupy import CupyBackend, architectures, device, toolchain
from nvfp4_reference.gemm.cupy.architectures import architecture
from nvfp4_reference.gemm.cupy.metadata import native_here
from nvfp4_reference.gemm.flashinfer import FlashInferBackend

from .compilers import fake_toolchain


def refusal(call: Any, *arguments: Any) -> str:
    with pytest.raises(UnavailableError) as raised:
        call(*arguments)
    sentence = str(raised.value)
    assert sentence.endswith(".")
    assert "\n" not in sentence
    return sentence


def test_what_variables_name_is_found(tmp_path: Path) -> None:
    found = toolchain.find(fake_toolchain(tmp_path))
    assert found.nvcc == tmp_path / "nvcc"
    assert found.include == tmp_path / "include"
    assert found.cutlass == "4.5.1"
    assert found.compiler_version() == "release 13.0\n"


def test_nvcc_is_looked_for_in_homes_before_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("home", "path"):
        folder = tmp_path / name / "bin"
        folder.mkdir(parents=True)
        (folder / "nvcc").write_text("")
        (folder / "nvcc").chmod(0o755)
    environment = {"PATH": str(tmp_path / "path" / "bin")}
    assert toolchain.find_nvcc(environment) == tmp_path / "path" / "bin" / "nvcc"
    environment["CUDA_HOME"] = str(tmp_path / "home")
    assert toolchain.find_nvcc(environment) == tmp_path / "home" / "bin" / "nvcc"
    environment["CUDA_HOME"] = ""
    assert toolchain.find_nvcc(environment) == tmp_path / "path" / "bin" / "nvcc"


def test_a_missing_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain, "_executable", lambda path: False)
    assert "there is no nvcc" in refusal(toolchain.find_nvcc, {"PATH": str(tmp_path)})
    named = {toolchain.NVCC: str(tmp_path)}
    assert f"{toolchain.NVCC} is '{tmp_path}', which is not a program" in refusal(
        toolchain.find_nvcc, named
    )


def test_a_compiler_that_does_not_run(tmp_path: Path) -> None:
    environment = fake_toolchain(tmp_path)
    (tmp_path / "nvcc").write_text("#!/nowhere/python\n")
    with pytest.raises(BuildError, match="does not run"):
        toolchain.find(environment).compiler_version()


def test_missing_headers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = {toolchain.CUTLASS_INCLUDE: str(tmp_path)}
    assert "which has no cutlass/version.h" in refusal(toolchain.find_headers, named)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "install flashinfer-python" in refusal(toolchain.find_headers, {})


def test_headers_of_flashinfer_are_found_without_importing_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "flashinfer"
    include = package / "data" / "cutlass" / "include"
    (include / "cutlass").mkdir(parents=True)
    (include / "cutlass" / "version.h").write_text("")
    (package / "__init__.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert toolchain.find_headers({}) == include


@pytest.mark.parametrize(
    "text", ["", "#define CUTLASS_MAJOR 4\n#define CUTLASS_MINOR 2\n#define CUTLASS_PATCH 9\n"]
)
def test_headers_that_are_too_old(tmp_path: Path, text: str) -> None:
    environment = fake_toolchain(tmp_path)
    (tmp_path / "include" / "cutlass" / "version.h").write_text(text)
    assert "the kernels need 4.5.0 or newer" in refusal(toolchain.find, environment)


def test_where_libraries_are_kept() -> None:
    assert toolchain.cache_folder({"HOME": "/home/me"}) == Path(
        "/home/me/.cache/nvfp4-reference/kernels"
    )
    assert toolchain.cache_folder({"HOME": "/home/me", "XDG_CACHE_HOME": "relative"}) == Path(
        "/home/me/.cache/nvfp4-reference/kernels"
    )
    assert toolchain.cache_folder({"XDG_CACHE_HOME": "/cache"}) == Path(
        "/cache/nvfp4-reference/kernels"
    )
    assert "there is no folder for the built kernels" in refusal(
        toolchain.cache_folder, {"HOME": ""}
    )


def test_a_card_without_kernels() -> None:
    assert architecture(90).name == "sm_90a"
    assert "compute capability 8.9" in refusal(architecture, 89)


class Runtime:
    """CUDA's runtime as in CuPy, with a card of any kind, or without one."""

    class CUDARuntimeError(RuntimeError):
        def __init__(self, status: int) -> None:
            super().__init__(f"cudaError {status}: no such luck\nsecond line")
            self.status = status

    def __init__(self, capability: int, fault: int = 0) -> None:
        self._capability = capability
        self._fault = fault

    def getDeviceCount(self) -> int:  # noqa: N802
        if self._fault:
            raise self.CUDARuntimeError(self._fault)
        return 1 if self._capability else 0

    def getDevice(self) -> int:  # noqa: N802
        return 0

    def deviceGetAttribute(self, attribute: int, ordinal: int) -> int:  # noqa: N802
        return {75: self._capability // 10, 76: self._capability % 10, 16: 132}[attribute]


class Cupy:
    def __init__(self, capability: int, fault: int = 0) -> None:
        self.cuda = self
        self.runtime = Runtime(capability, fault)


@pytest.mark.parametrize(
    ("cupy", "expected"),
    [
        (Cupy(90, 35), "the driver is too old or missing (cudaError 35: no such luck)"),
        (Cupy(90, 100), "there is no card (cudaError 100"),
        (Cupy(90, 999), "the card does not answer"),
        (Cupy(0), "there is no card"),
        (Cupy(80), "compute capability 8.0, and there are kernels for sm_90a, sm_120a, sm_121a"),
    ],
)
def test_why_it_cannot_run(
    cupy: Cupy, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    environment = fake_toolchain(tmp_path)
    back_end = CupyBackend(environment)
    reason = back_end.reason()
    assert reason is not None
    assert expected in reason
    assert "\n" not in reason
    assert not back_end.available()
    assert expected in refusal(back_end.prepare, 1, 32, 64, 0)
    assert expected in refusal(back_end.timer, 1, 32, 64)
    assert expected in refusal(native_here, environment)
    assert not (tmp_path / "cache").exists()


def test_it_can_run_where_everything_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cupy", Cupy(121))
    environment = fake_toolchain(tmp_path)
    assert CupyBackend(environment).available()
    assert not (tmp_path / "cache").exists(), "asking built something"
    (tmp_path / "nvcc").unlink()
    assert "is not a program" in str(CupyBackend(environment).reason())


@pytest.mark.parametrize(
    ("status", "expected"), [(46, "another process holds it"), (999, "it does not respond")]
)
def test_a_card_that_cannot_be_used(status: int, expected: str) -> None:
    def refused(**options: bool) -> None:
        raise Runtime.CUDARuntimeError(status)

    cupy = Cupy(90)
    cupy.Stream = refused  # type: ignore[attr-defined]
    assert f"the card cannot be used, since {expected}" in refusal(device.Device, cupy)


@pytest.mark.parametrize(
    ("pointer", "captured"), [(4096, True), (0, False), (1, False), (2, False)]
)
def test_the_caller_s_stream_is_asked_before_there_is_one_of_ours(
    pointer: int, captured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stream:
        ptr = pointer

        def is_capturing(self) -> bool:
            assert pointer == 4096, "a default stream was asked, which would touch the card"
            return True

    cupy = Cupy(90)
    cupy.get_current_stream = Stream  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cupy", cupy)  # type: ignore[arg-type]
    assert CupyBackend({}).capturing() is captured


def test_nothing_captures_without_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> None:
        raise Runtime.CUDARuntimeError(35)

    cupy = Cupy(90)
    cupy.get_current_stream = refused  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cupy", cupy)  # type: ignore[arg-type]
    assert not CupyBackend({}).capturing()


def test_nothing_captures_where_cupy_was_never_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    assert not CupyBackend({}).capturing()
    assert "cupy" not in sys.modules


@pytest.mark.parametrize(("package", "make"), [("cupy", CupyBackend), ("torch", FlashInferBackend)])
def test_a_folder_that_an_uninstalled_package_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, make: Any
) -> None:
    (tmp_path / package / "__pycache__").mkdir(parents=True)
    monkeypatch.setitem(sys.modules, package, None)  # type: ignore[arg-type]
    monkeypatch.delitem(sys.modules, package)  # and the end of the test takes away what comes now
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert f"cannot be imported (module '{package}' has no attribute 'cuda'" in make().reason()
    assert not make().capturing()


def test_without_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert "install pytest-nvfp4[gpu]" in refusal(architectures.import_cupy)
    assert "CuPy, which owns the card's memory, cannot be imported" in str(CupyBackend({}).reason())


@pytest.mark.parametrize("variable", [toolchain.NVCC, toolchain.CUTLASS_INCLUDE])
def test_a_name_that_no_file_can_have(tmp_path: Path, variable: str) -> None:
    environment = fake_toolchain(tmp_path) | {variable: "a" * 300}
    with pytest.raises(UnavailableError, match=variable):
        toolchain.find(environment)
