"""Plan-cache files: `reader` reads and judges them, `description` says what they hold."""

from pytest_nvfp4.cache_files.reader import read_plans

__all__ = ["read_plans"]
