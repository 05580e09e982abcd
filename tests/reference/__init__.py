"""Tests of the reference implementation, module by module."""
