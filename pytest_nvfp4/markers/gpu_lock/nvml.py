"""The machine's cards by NVML: identities, processes, memory. It never initialises CUDA.

The library comes with the driver and is loaded on the first call, by `ctypes`. Names and structs
are those of NVIDIA's `nvml.h` (NVML API reference, "Device Queries" and "Multi Instance GPU").

nvidia-ml-py would say the same in half the lines, but only where it is installed: a run without it
would name the lock of a card by its index, one with it by its UUID, and the two would not exclude
each other.
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pytest_nvfp4.markers.gpu_lock.devices import Card
from pytest_nvfp4.markers.gpu_lock.idle import Load

_LIBRARY = "libnvidia-ml.so.1"
_OK, _TOO_SMALL = 0, 7
_TEXT = 96  # bytes: a MIG identity is the longest text that NVML writes here


class NvmlError(Exception):
    """NVML is not installed, or a call failed; the text is one sentence."""


class _Memory(ctypes.Structure):
    _fields_ = (
        ("total", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    )


class _ProcessInfo(ctypes.Structure):  # nvmlProcessInfo_v2_t, as the _v3 calls fill it
    _fields_ = (
        ("pid", ctypes.c_uint),
        ("used", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


def cards() -> tuple[Card, ...]:
    """All physical GPUs of this machine, in PCI order; raises NvmlError."""
    with _library() as library:
        count = ctypes.c_uint()
        _call(library.nvmlDeviceGetCount_v2, ctypes.byref(count))
        found = []
        for index in range(count.value):
            handle = ctypes.c_void_p()
            _call(library.nvmlDeviceGetHandleByIndex_v2, index, ctypes.byref(handle))
            name = _text(library.nvmlDeviceGetName, handle)
            uuid = _text(library.nvmlDeviceGetUUID, handle)
            found.append(Card(uuid, name, tuple(_instances(library, handle))))
        return tuple(found)


def load(uuid: str) -> Load:
    """The processes and the used memory of a card or MIG instance now; raises NvmlError."""
    with _library() as library:
        handle = ctypes.c_void_p()
        _call(library.nvmlDeviceGetHandleByUUID, uuid.encode(), ctypes.byref(handle))
        memory = _Memory()
        _call(library.nvmlDeviceGetMemoryInfo, handle, ctypes.byref(memory))
        return Load(frozenset(_processes(library, handle)), memory.used)


@contextmanager
def _library() -> Iterator[Any]:
    try:
        library = ctypes.CDLL(_LIBRARY)
    except OSError:
        raise NvmlError(
            f"{_LIBRARY}, which comes with NVIDIA's driver, is not installed; install the driver"
        ) from None
    library.nvmlErrorString.restype = ctypes.c_char_p
    _call(library.nvmlInit_v2, library=library)
    try:
        yield library
    except AttributeError as error:
        raise NvmlError(f"{_LIBRARY} is too old ({error}); update NVIDIA's driver") from None
    finally:
        library.nvmlShutdown()


def _call(function: Any, *arguments: Any, library: Any = None, fine: tuple[int, ...] = ()) -> int:
    status: int = function(*arguments)
    if status != _OK and status not in fine:
        why = library.nvmlErrorString(status).decode() if library else f"error {status}"
        raise NvmlError(f"{function.__name__} failed: {why}")
    return status


def _text(function: Any, handle: ctypes.c_void_p) -> str:
    buffer = ctypes.create_string_buffer(_TEXT)
    _call(function, handle, buffer, _TEXT)
    return buffer.value.decode()


def _instances(library: Any, card: ctypes.c_void_p) -> Iterator[str]:
    count = ctypes.c_uint()
    if library.nvmlDeviceGetMaxMigDeviceCount(card, ctypes.byref(count)) != _OK:
        return  # a card without MIG
    for index in range(count.value):
        handle = ctypes.c_void_p()
        if library.nvmlDeviceGetMigDeviceHandleByIndex(card, index, ctypes.byref(handle)) == _OK:
            yield _text(library.nvmlDeviceGetUUID, handle)


def _processes(library: Any, handle: ctypes.c_void_p) -> Iterator[int]:
    room = 64
    while True:
        count = ctypes.c_uint(room)
        infos = (_ProcessInfo * room)()
        function = library.nvmlDeviceGetComputeRunningProcesses_v3
        status = _call(function, handle, ctypes.byref(count), infos, fine=(_TOO_SMALL,))
        if status == _OK:
            yield from (infos[index].pid for index in range(count.value))
            return
        room = 2 * max(room, count.value)
