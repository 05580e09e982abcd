"""FlashInfer: found in a version that the adapters know, and imported."""

import importlib
import os
import tempfile
from pathlib import Path
from typing import Any, Final

from .errors import MissingImplementationError

VERSIONS: Final = ("0.6.13", "0.7.4")
"""The releases whose behaviour is reviewed; each has a file in the folder deviations."""


class FlashInfer:
    """The parts of FlashInfer's public interface that an adapter calls; torch comes with it."""

    def __init__(self, package: Any, torch: Any) -> None:
        tuner = importlib.import_module("flashinfer.autotuner")
        buckets = importlib.import_module("flashinfer.fused_moe.utils")
        self.version: str = package.__version__
        self.torch = torch
        self.tuner_module: Any = importlib.import_module(tuner.AutoTuner.__module__)
        self.AutoTuner: Any = tuner.AutoTuner
        self.autotune: Any = tuner.autotune
        self.TunableRunner: Any = tuner.TunableRunner
        self.TuningConfig: Any = tuner.TuningConfig
        self.DynamicTensorSpec: Any = tuner.DynamicTensorSpec
        self.ConstraintSpec: Any = tuner.ConstraintSpec
        self.bucket: Any = buckets.map_to_hybrid_bucket_uncapped
        self.profiles: Any = buckets.get_hybrid_num_tokens_buckets
        self.logger: Any = importlib.import_module("flashinfer.jit.core").logger


def load() -> FlashInfer:
    """Import FlashInfer and torch.

    Raises `MissingImplementationError` where one is missing, or FlashInfer is none of `VERSIONS`.
    """
    _prepare()
    try:
        torch = importlib.import_module("torch")
        package = importlib.import_module("flashinfer")
    except ImportError as error:
        raise MissingImplementationError(
            f"FlashInfer cannot be imported here ({error}); `make flashinfer` builds an "
            "environment with it and torch: run the suite with that one's Python"
        ) from None
    version = getattr(package, "__version__", "without a version")
    if version not in VERSIONS:
        raise MissingImplementationError(
            f"FlashInfer {version} is installed, but this adapter knows {' and '.join(VERSIONS)}; "
            "install one of these"
        )
    return FlashInfer(package, torch)


def _prepare() -> None:
    """Set the variables that FlashInfer reads when it is imported.

    Its workspace, which holds a log file, must not be in the user's home folder.
    """
    folder = Path(tempfile.gettempdir(), f"nvfp4-flashinfer-{os.getuid()}")
    os.environ.setdefault("FLASHINFER_WORKSPACE_BASE", str(folder))
    os.environ["FLASHINFER_LOGGING_LEVEL"] = "info"  # `TunerLog` reads its messages
    os.environ["TQDM_DISABLE"] = "1"
