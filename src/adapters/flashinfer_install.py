"""FlashInfer itself: found, of a version that is known, and imported without leaving traces."""

import importlib
import os
import tempfile
from pathlib import Path
from typing import Any, Final

from .rejection import NotHereError

VERSIONS: Final = ("0.6.13", "0.7.4")
"""The releases whose behaviour has been reviewed; each has a file of deviations beside this one."""

LOGGER: Final = "flashinfer.jit"


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
    """Import FlashInfer; NotHereError, one sentence, where it or torch is missing or unknown."""
    _prepare()
    try:
        torch = importlib.import_module("torch")
        package = importlib.import_module("flashinfer")
    except ImportError as error:
        raise NotHereError(
            f"FlashInfer cannot be imported here ({error}); `make flashinfer` builds an "
            "environment with it and torch: run the suite with that one's Python"
        ) from None
    version = getattr(package, "__version__", "of no version")
    if version not in VERSIONS:
        raise NotHereError(
            f"FlashInfer {version} is installed, but this adapter knows {' and '.join(VERSIONS)}; "
            "install one of these"
        )
    return FlashInfer(package, torch)


def _prepare() -> None:
    """Set what FlashInfer reads as it is imported; it keeps a log, and that is no user's home."""
    folder = Path(tempfile.gettempdir(), f"nvfp4-flashinfer-{os.getuid()}")
    os.environ.setdefault("FLASHINFER_WORKSPACE_BASE", str(folder))
    os.environ["FLASHINFER_LOGGING_LEVEL"] = "info"  # what it says is heard; see `hearing`
    os.environ["TQDM_DISABLE"] = "1"
