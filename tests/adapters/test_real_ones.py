"""The real FlashInfer and the real helper of vLLM behind their adapters, where they are there."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from nvfp4_adapters import vllm_publication

DEVIATIONS = Path(__file__).parent.parent.parent / "src" / "adapters" / "deviations"


def conformance(home, folder, *arguments, **variables):
    """Run nvfp4-conformance with the programs of an environment."""
    return subprocess.run(
        [str(home / "bin" / "nvfp4-conformance"), *arguments],
        cwd=folder,
        env=dict(os.environ) | variables,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_real_flashinfer_departs_as_it_says_on_file(installed, tmp_path):
    version, home = installed
    chosen = ("run", "flashinfer", "--contract", "BUCK-2,FIMP-1,PUBL-11,PROF-2")
    done = conformance(home, tmp_path, *chosen)
    assert done.returncode == 1
    assert "✗ PUBL-11 failed" in done.stdout, done.stdout + done.stderr
    known = f"--deviations={DEVIATIONS / f'flashinfer-{version}.toml'}"
    done = conformance(home, tmp_path, *chosen, known)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed, 1 known deviation" in done.stdout


def test_document_of_the_real_flashinfer_is_imported(installed, tmp_path):
    version, home = installed
    python = f"--flashinfer={home / 'bin' / 'python'}"
    here = Path(sys.executable).parent.parent
    done = conformance(here, tmp_path, "run", "reference", "--contract", "FIMP-11", python)
    if version == "0.6.13":
        assert done.returncode == 0, done.stdout + done.stderr
        assert "1 passed" in done.stdout
    else:
        assert done.returncode == 4
        assert "FIMP-11 is about FlashInfer 0.6.13" in done.stdout + done.stderr


def test_without_flashinfer_its_adapter_says_so(tmp_path):
    here = Path(sys.executable).parent.parent
    done = conformance(here, tmp_path, "smoke", "flashinfer")
    if done.returncode == 0:
        pytest.skip("FlashInfer is installed in this environment itself")
    assert "FlashInfer cannot be imported here" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("content", "part"),
    [(None, "which cannot be read"), (b"# another file", "is not the file that vLLM 0.25.0")],
)
def test_helper_that_is_absent_or_another(tmp_path, content, part):
    path = tmp_path / "helper.py"
    if content is not None:
        path.write_bytes(content)
    here = Path(sys.executable).parent.parent
    variables = {vllm_publication.VARIABLE: str(path)}
    done = conformance(here, tmp_path, "run", "vllm-publication", **variables)
    assert done.returncode == 4
    assert part in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_real_helper_departs_as_it_says_on_file(tmp_path):
    try:
        vllm_publication._find()
    except vllm_publication.MissingImplementationError as error:
        pytest.skip(f"needs vLLM: {error}")
    here = Path(sys.executable).parent.parent
    known = f"--deviations={DEVIATIONS / 'vllm-0.25.0.toml'}"
    done = conformance(here, tmp_path, "run", "vllm-publication", known)
    assert done.returncode == 0, done.stdout + done.stderr
    assert os.listdir(tmp_path) in ([], ["nvfp4-reproducers"]), "it wrote where it was started"
