"""The conformance suite inside pytest: what is selected, driven, recorded and shown.

Contract tests import their vocabulary from here; they contain no other machinery.
"""

from pytest_nvfp4.suite.marks import contract, over, requires

__all__ = ["contract", "over", "requires"]
