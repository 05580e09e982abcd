"""Conformance suite and pytest plugin for the plan caches of NVFP4 GEMMs (autotune files)."""

__version__ = "0.1.0"
