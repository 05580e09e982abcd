"""Markers for tests on shared GPUs, in any repository."""
