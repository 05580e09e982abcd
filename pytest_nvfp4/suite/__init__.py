"""The conformance suite inside pytest: it selects, runs and records the contract tests.

Contract tests import their decorators from here.
"""

from pytest_nvfp4.suite.marks import contract, over, requires

__all__ = ["contract", "over", "requires"]
