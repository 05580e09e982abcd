"""A faulty implementation: the reference, with one behaviour changed."""

import functools
from contextlib import ExitStack
from typing import ClassVar
from unittest import mock

from nvfp4_reference.adapter import Adapter

from pytest_nvfp4.implementations.operations import OPERATIONS


class Faulty(Adapter):
    """Subclasses override operations, or change the inside of the reference while one runs.

    `breaks` are the contracts that the fault breaks; `controls` others that the same code is near
    to and that must still pass, so that the fault is seen to be one. `changes` are (owner, name,
    replacement): they hold during this adapter's own operations only, so that other adapters in
    the process stay as they are. What is `served` is proved over JSON lines too, the others in
    process alone, which is much quicker.
    """

    breaks: ClassVar[tuple[str, ...]]
    controls: ClassVar[tuple[str, ...]] = ()
    served: ClassVar[bool] = False
    changes: ClassVar[tuple[tuple[object, str, object], ...]] = ()

    def __init__(self):
        super().__init__()
        if self.changes:
            for operation in OPERATIONS:
                setattr(self, operation, self._changed(getattr(self, operation)))

    def _changed(self, operation):
        @functools.wraps(operation)
        def run(**arguments):
            with ExitStack() as stack:
                for owner, name, replacement in self.changes:
                    stack.enter_context(mock.patch.object(owner, name, replacement))
                return operation(**arguments)

        return run


class Everything:
    """Stands in for a set of allowed values, and allows every value."""

    def __contains__(self, value):
        return True

    def issuperset(self, values):
        return True


def faults(module):
    """The faulty implementations that a module defines, in its order."""
    return [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Faulty) and "breaks" in vars(value)
    ]
