"""Tests of the reference's NVFP4 matrix products, module by module."""
