"""A correct implementation that says it has a GPU: the reference on NumPy under another name.

What the contracts ask of a device can be told by its record, its clock and its bytes, so the cases
that only a GPU runs are tested where there is none.
"""

from dataclasses import replace

from nvfp4_reference.adapter import Adapter
from nvfp4_reference.environment import NativeMetadata


class PretendedDevice(Adapter):
    """The reference with an architecture, and the capability that needs one."""

    def __init__(self):
        super().__init__()
        self._native = replace(NativeMetadata.of_this_machine(), architecture=90)

    def describe(self):
        found = super().describe()
        return found | {"capabilities": [*found["capabilities"], "device"]}
