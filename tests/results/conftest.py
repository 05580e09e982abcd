"""Reports in these tests are about the sample specification."""

from samples import sample_specification

__all__ = ["sample_specification"]
