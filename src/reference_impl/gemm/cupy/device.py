"""One card through CuPy: memory, the current stream, and the meaning of errors.

CUDA has two kinds of errors. An error of one call is cleared when it is reported, and the next call
works. After other errors, such as an illegal address, every call of this process fails; such an
error ends the tuning, and the back end is unavailable.
"""

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import DeviceError, LaunchError, UnavailableError, first_line
from .architectures import current_architecture
from .kernels import CUTLASS_STATUS

DEFAULT_STREAMS = (0, 1, 2)
"""The addresses of CUDA's default streams."""

_OUT_OF_MEMORY = 2
_BUSY = 46
_MULTIPROCESSORS = 16  # cudaDevAttrMultiProcessorCount


class Device:
    """The card that is current when this is created. Safe to use from several threads."""

    def __init__(self, cupy: Any) -> None:
        self.cupy = cupy
        self.architecture = current_architecture(cupy)
        self._runtime = cupy.cuda.runtime
        self.ordinal: int = self._runtime.getDevice()
        self.multiprocessors: int = self._runtime.deviceGetAttribute(_MULTIPROCESSORS, self.ordinal)
        self._broken: str | None = None
        self._bind: Callable[[int], int] | None = None
        try:
            self._stream = cupy.cuda.Stream(non_blocking=True)
        except self._runtime.CUDARuntimeError as error:
            why = "another process holds it" if error.status == _BUSY else "it does not respond"
            raise UnavailableError(
                f"the card cannot be used, since {why} ({first_line(error)}); "
                "free it or use another card."
            ) from error

    def bind(self, use_device: Callable[[int], int]) -> None:
        """Make a library with a CUDA runtime of its own use this card too, where it is active."""
        self._bind = use_device
        with self.active():
            pass

    @property
    def broken(self) -> str | None:
        """Why this process can no longer use the card; None while it can."""
        return self._broken

    @property
    def stream(self) -> Any:
        """The caller's current stream, or the stream of this object where that is the default one.

        The default stream cannot be captured, and it waits for all other streams.
        """
        current = self.cupy.cuda.get_current_stream()
        return self._stream if current.ptr in DEFAULT_STREAMS else current

    def name(self) -> str:
        """The driver's name of the card, such as `NVIDIA H200`."""
        return str(self._runtime.getDeviceProperties(self.ordinal)["name"].decode())

    def free_bytes(self) -> int:
        """The bytes that can still be allocated, with the unused blocks of CuPy's pool."""
        with self.translated("asking for free memory"):
            free: int = self._runtime.memGetInfo()[0]
            return free + int(self.cupy.get_default_memory_pool().free_bytes())

    def allocate(self, size: int) -> Any:
        """Uninitialized device memory; it is freed when nothing refers to it."""
        with self.active(), self.translated(f"allocating {size / 1e9:.1f} GB"):
            return self.cupy.cuda.alloc(max(size, 1))

    def filled(self, size: int, byte: int) -> Any:
        """Device memory filled with one byte value."""
        memory = self.allocate(size)
        with self.active(), self.translated("filling memory"):
            memory.memset_async(byte, size, self.stream)
        return memory

    def upload(self, array: NDArray[Any], size: int = 0) -> Any:
        """A copy on the device, followed by zeros up to `size` bytes."""
        source = np.ascontiguousarray(array)
        memory = self.filled(max(size, source.nbytes), 0)
        with self.active(), self.translated("copying to the card"):
            # The copy is from pageable memory, so `source` is not read after the call.
            memory.copy_from_host_async(source.ctypes.data, source.nbytes, self.stream)
            self.stream.synchronize()
        return memory

    def download(self, memory: Any, size: int) -> NDArray[np.uint8]:
        """The first `size` bytes, once all work on the stream has ended."""
        found = np.empty(size, np.uint8)
        with self.active(), self.translated("copying from the card"):
            memory.copy_to_host_async(found.ctypes.data, size, self.stream)
            self.stream.synchronize()
        return found

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Make this card and `stream` current for CuPy in this thread."""
        if self._broken:
            raise DeviceError(self._broken)
        stream = self.stream
        with self.cupy.cuda.Device(self.ordinal), stream:
            if self._bind:
                self.check(self._bind(self.ordinal), "choosing the card")
            yield

    def check(self, status: int, doing: str) -> None:
        """Raise the error that a status of the kernel library stands for; 0 is success."""
        if status < 0:
            known = -status < len(CUTLASS_STATUS)
            raise self._meaning(
                0, doing, f"CUTLASS: {CUTLASS_STATUS[-status] if known else status}"
            )
        if status:
            error = self._runtime.CUDARuntimeError(status)
            raise self._meaning(status, doing, first_line(error))

    @contextlib.contextmanager
    def translated(self, doing: str) -> Iterator[None]:
        """Translate CUDA errors in the block; `doing` describes it in messages.

        `MemoryError`: no memory is left on the card. `DeviceError`: the card no longer answers.
        `LaunchError`: any other error.
        """
        try:
            yield
        except self.cupy.cuda.memory.OutOfMemoryError as error:
            raise self._meaning(_OUT_OF_MEMORY, doing, "") from error
        except self._runtime.CUDARuntimeError as error:
            raise self._meaning(error.status, doing, first_line(error)) from error

    def _meaning(self, status: int, doing: str, why: str) -> Exception:
        if status == _OUT_OF_MEMORY:
            return MemoryError(
                f"{doing} failed because the card's memory is used up; "
                "use a smaller shape or free the card."
            )
        if not self._answers():
            self._broken = (
                f"{doing} broke the use of the card in this process ({why}); "
                "start the process again."
            )
            return DeviceError(self._broken)
        return LaunchError(f"{doing} failed ({why}); the card itself still answers.")

    def _answers(self) -> bool:
        """Whether the error is cleared; a broken context fails every call."""
        try:
            if self.stream.is_capturing():
                return True  # captured work has not run
            self._runtime.memGetInfo()
        except self._runtime.CUDARuntimeError:
            return False
        return True


def caller_captures() -> bool:
    """Whether the thread's current CuPy stream is being captured; CuPy is not imported for it."""
    cupy: Any = sys.modules.get("cupy")
    if not hasattr(cupy, "cuda"):  # not imported, or only a folder of that name
        return False
    try:
        stream = cupy.cuda.get_current_stream()
    except cupy.cuda.runtime.CUDARuntimeError:  # without a driver there are no streams
        return False
    return bool(stream.ptr not in DEFAULT_STREAMS and stream.is_capturing())
