"""torch with a card, and FlashInfer's runner, on NumPy: as much of them as the back end calls."""

import contextlib
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
from nvfp4_reference.gemm import Nvfp4Matrix, run
from nvfp4_reference.gemm.scale_layout import swizzled_size


class Tensor:
    """An array with torch's names for what the back end does to one."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array

    @property
    def T(self) -> "Tensor":  # noqa: N802
        return Tensor(self.array.T)

    def __getitem__(self, part: slice) -> "Tensor":
        return Tensor(self.array[part])

    def __setitem__(self, part: slice, value: int) -> None:
        self.array[part] = value

    def view(self, *how: Any) -> "Tensor":
        if isinstance(how[0], int):
            return Tensor(self.array.reshape(how))
        return Tensor(self.array.view(how[0]))

    def cpu(self) -> "Tensor":
        return self

    def numpy(self) -> np.ndarray[Any, Any]:
        return self.array.copy()


class OutOfMemoryError(RuntimeError):
    """torch's own."""


class Cuda:
    """torch.cuda: `calls` is what was queued, `fault` what a synchronization raises."""

    OutOfMemoryError = OutOfMemoryError

    def __init__(self, capability: tuple[int, int]) -> None:
        self.capability = capability
        self.calls: list[Any] = []
        self.fault: Exception | None = None
        self.initialized = True
        self.recorded: list[Callable[[], None]] | None = None

    def is_available(self) -> bool:
        return self.capability != (0, 0)

    def get_device_capability(self) -> tuple[int, int]:
        return self.capability

    def get_device_name(self) -> str:
        return "NVIDIA GB10"

    def current_device(self) -> int:
        return 0

    def current_stream(self) -> "Cuda":
        return self

    def synchronize(self) -> None:
        self.calls.append("synchronize")
        if self.fault:
            raise self.fault

    def is_initialized(self) -> bool:
        return self.initialized

    def is_current_stream_capturing(self) -> bool:
        return self.recorded is not None

    # Events: each is the number of calls before it

    def Event(self, *, enable_timing: bool) -> "Event":  # noqa: N802
        assert enable_timing
        return Event(self)

    # Graphs

    def CUDAGraph(self) -> "Graph":  # noqa: N802
        return Graph()

    @contextlib.contextmanager
    def graph(self, graph: "Graph") -> Iterator[None]:
        self.recorded = graph.work
        try:
            yield
        finally:
            self.recorded = None


class Event:
    def __init__(self, cuda: Cuda) -> None:
        self._cuda = cuda

    def record(self) -> None:
        self._cuda.calls.append("event")
        self.at = len(self._cuda.calls)

    def elapsed_time(self, end: "Event") -> float:
        return (end.at - self.at) / 1000  # milliseconds: each call takes a microsecond


class Graph:
    def __init__(self) -> None:
        self.work: list[Callable[[], None]] = []

    def replay(self) -> None:
        for one in self.work:
            one()


class Torch:
    """The module."""

    uint8, float32, bfloat16 = np.uint8, np.float32, ml_dtypes.bfloat16

    def __init__(self, capability: tuple[int, int] = (12, 1)) -> None:
        self.cuda = Cuda(capability)
        self.version = SimpleNamespace(cuda="13.0")
        self._C = SimpleNamespace(_cuda_getDriverVersion=lambda: 13010)

    def full(self, shape: tuple[int, ...], fill: int, *, dtype: Any, device: str) -> Tensor:
        assert device == "cuda"
        return Tensor(np.full(shape, fill, dtype))

    def empty(self, size: int, *, dtype: Any, device: str) -> Tensor:
        assert device == "cuda"
        return Tensor(np.empty(size, dtype))

    def tensor(self, data: Any, *, device: str, dtype: Any = None) -> Tensor:
        assert device == "cuda"
        return Tensor(np.array(data, dtype))


class Runner:
    """FlashInfer's runner, which multiplies what its ten inputs hold, whatever made them.

    The second and the fourth input are K first; it turns them round again, as FlashInfer does.
    """

    def __init__(self, torch: Torch, tactics: int = 32) -> None:
        self._torch = torch
        self._tactics = tactics
        self.fault: Exception | None = None

    def get_valid_tactics(self, inputs: list[Any], profile: None) -> list[int]:
        return list(range(self._tactics))

    def __call__(self, inputs: list[Any], tactic: int = -1) -> None:
        cuda = self._torch.cuda
        if self.fault:
            raise self.fault

        def multiply() -> None:
            cuda.calls.append(tactic)
            multiplied(inputs, tactic)

        if cuda.recorded is None:
            multiply()
        else:
            cuda.recorded.append(multiply)


def multiplied(inputs: list[Any], tactic: int) -> None:
    a, b, a_scales, b_scales, alpha, dtype, out, block, nvfp4, workspace = inputs
    assert (dtype, block, nvfp4) == (ml_dtypes.bfloat16, 16, True)
    assert workspace.array.nbytes == 32 * 1024 * 1024
    assert alpha.array.shape == (1,)
    left = operand(a.array, a_scales.array)
    right = operand(b.T.array, b_scales.T.array)
    assert out.array.shape == (left.rows, right.rows)
    assert right.rows % 8 == 0
    out.array[...] = run(tactic, left, right, float(alpha.array[0]))


def operand(values: np.ndarray[Any, Any], scales: np.ndarray[Any, Any]) -> Nvfp4Matrix:
    assert values.flags.c_contiguous
    assert scales.flags.c_contiguous
    rows, k = values.shape[0], 2 * values.shape[1]
    assert scales.shape == (-(-rows // 128) * 128, -(-k // 64) * 4)
    assert scales.size == swizzled_size(rows, k // 16)
    return Nvfp4Matrix(values=values, scales=scales.reshape(-1), global_scale=1.0)
