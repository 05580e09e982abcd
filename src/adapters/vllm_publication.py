"""vLLM 0.25.0's helper for FlashInfer's cache file: its path, and how it is published.

The helper is one file of vLLM, taken from an installed vLLM or from the path in
`NVFP4_VLLM_CACHE_HELPER`; its SHA-256 must be that of the release. The modules that it imports are
replaced by small modules with the values that vLLM 0.25.0 computes: `vllm.envs`, the factors of its
hash, and FlashInfer's workspace folder, with the form that the binding oracle's path has.
"""

import hashlib
import importlib.util
import json
import os
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Final

from .errors import MissingImplementationError, Rejected

__all__ = ["MissingImplementationError", "VllmAdapter", "make"]

VERSION: Final = "0.25.0"
SHA256: Final = "fcdaf1135e3d9e2be619f423c80c3288397470e85823fc6315b36598ad3297b7"
VARIABLE: Final = "NVFP4_VLLM_CACHE_HELPER"
_INSIDE = "model_executor/warmup/flashinfer_autotune_cache.py"
_FIELDS = (
    "flashinfer_version",
    "cuda_version",
    "cublas_version",
    "cudnn_version",
    "cudnn_frontend_version",
    "gpu",
)


def make() -> "VllmAdapter":
    """The adapter. It replaces vLLM's and FlashInfer's modules in this process."""
    return VllmAdapter(_find())


def _find() -> Path:
    """The helper's file, with the bytes of the release; else `MissingImplementationError`."""
    path = Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else _installed()
    try:
        found = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise MissingImplementationError(
            f"{VARIABLE} is {str(path)!r}, which cannot be read ({error}); name a readable file"
        ) from None
    if found != SHA256:
        raise MissingImplementationError(
            f"{path} is not the file that vLLM {VERSION} released (its SHA-256 is {found}); "
            f"name that file in {VARIABLE}"
        )
    return path


def _installed() -> Path:
    spec = importlib.util.find_spec("vllm")  # finds it without running any of it
    for folder in (spec and spec.submodule_search_locations) or ():
        if (path := Path(folder, _INSIDE)).is_file():
            return path
    raise MissingImplementationError(
        f"vLLM is not installed here; install vllm=={VERSION}, or name that release's "
        f"vllm/{_INSIDE} in {VARIABLE}"
    )


class VllmAdapter:
    """The operations of the adapter interface that the helper supports: options and publication."""

    def __init__(self, path: Path) -> None:
        self._envs = ModuleType("vllm.envs")
        workspace = ModuleType("flashinfer.jit.env")
        caching = ModuleType("vllm.compilation.caching")
        vars(caching)["aot_compile_hash_factors"] = lambda config: config
        self._workspace = vars(workspace)
        for module in (
            *map(ModuleType, ("vllm", "vllm.compilation", "flashinfer", "flashinfer.jit")),
            *(self._envs, caching, workspace),
        ):
            sys.modules[module.__name__] = module
            parent, _, name = module.__name__.rpartition(".")
            if parent:
                setattr(sys.modules[parent], name, module)
        spec = importlib.util.spec_from_file_location("vllm_flashinfer_autotune_cache", path)
        assert spec is not None
        assert spec.loader is not None
        self._helper = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self._helper)
        self._home = Path("/nonexistent")
        vars(self._helper)["Path"] = self._guarded()

    def _guarded(self) -> type[Path]:
        """A `Path` that creates directories only below the home folder of the request.

        The helper creates the directory that it returns, and in a test that may be any directory.
        """
        adapter = self

        class Guarded(type(Path())):  # type: ignore[misc]
            def mkdir(self, *arguments: Any, **options: Any) -> None:
                home = adapter._home
                if home.is_absolute() and home.is_dir() and self.is_relative_to(home):
                    super().mkdir(*arguments, **options)

        return Guarded

    def describe(self) -> dict[str, Any]:
        """Name, version and capabilities of the helper."""
        return {
            "protocol": 1,
            "name": "vllm-publication",
            "version": VERSION,
            "language": "Python",
            "homepage": "https://github.com/vllm-project/vllm",
            "capabilities": ["options", "publication"],
            "import_metadata": dict.fromkeys(_FIELDS, "1.0"),
            "documents": "flashinfer",
            "environment": "own",
        }

    def write_native(self, path: str, document: dict[str, Any]) -> dict[str, int]:
        """Publish the document's text. The helper takes bytes and does not merge."""
        contents = json.dumps(document, indent=2).encode()
        self._home = Path("/")  # the caller chooses the destination
        try:
            self._helper.write_flashinfer_autotune_cache(Path(path), contents)
        except OSError as error:
            code = "not-regular" if isinstance(error, IsADirectoryError) else "publication"
            raise Rejected(code, path, f"{type(error).__name__}: {error}") from error
        return {"plans": len(document) - 1}

    def resolve(
        self, environment: dict[str, str], metadata: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """The path that the helper returns; vLLM has none of the interface's other options."""
        return {
            "enabled": True,
            "frozen": False,
            "bypass": False,
            "delay_microseconds": 5000,
            "native_path": str(self._resolved(environment, metadata or self.describe())),
            "import_path": None,
            "warnings": [],
        }

    def _resolved(self, environment: dict[str, str], factors: dict[str, Any]) -> Path:
        home = os.environ["HOME"] = environment.get("HOME", "/nonexistent")
        self._home = Path(home)
        cache = environment.get("XDG_CACHE_HOME", os.path.join(home, ".cache"))
        vars(self._envs).update(
            VLLM_FLASHINFER_AUTOTUNE_CACHE_DIR=environment.get("VT_FP4_AUTOTUNE_CACHE_PATH"),
            VLLM_CACHE_ROOT=os.path.expanduser(os.path.join(cache, "vllm")),
        )
        self._workspace["FLASHINFER_WORKSPACE_DIR"] = Path("/", "0.6.13", "121a")
        runner = SimpleNamespace(vllm_config=factors)
        found: Path = self._helper.resolve_flashinfer_autotune_file(runner)
        return found
