"""Observe the file-system calls of a Python subject in this process, by wrapping `os`.

This needs no tracer, so that a Python implementation can be tested on a machine without strace. It
records calls of the attributes of `os`, and built-in `open` by the descriptor that `fsync` gets;
calls by code that keeps its own reference to a function of `os` are missed.
"""

import builtins
import contextlib
import io
import os
from collections.abc import Callable, Iterator
from typing import Any

from pytest_nvfp4.faults.calls import Call, Name


def _of_descriptor(descriptor: int) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return ""


@contextlib.contextmanager
def interposed() -> Iterator[list[Call]]:
    """Record the calls made inside the block, in order; only this process, any thread."""
    calls: list[Call] = []
    synced: dict[str, int] = {}  # path → its size when it was fsynced last
    real: dict[str, Callable[..., Any]] = {
        name: getattr(os, name)
        for name in (
            "open",
            "write",
            "fsync",
            "fdatasync",
            "rename",
            "replace",
            "unlink",
            "remove",
            "link",
        )
    }

    def absolute(path: Any) -> str:
        if isinstance(path, int):
            return _of_descriptor(path)
        return os.path.abspath(os.fsdecode(path))

    def open_(path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
        descriptor: int = real["open"](path, flags, *args, **kwargs)
        calls.append(
            Call(
                "open",
                _of_descriptor(descriptor),
                creates=bool(flags & os.O_CREAT),
                writes=bool(flags & (os.O_WRONLY | os.O_RDWR)),
            )
        )
        return descriptor

    def on_descriptor(function: str, name: Name) -> Callable[..., Any]:
        def call(descriptor: Any, *args: Any) -> Any:
            number = descriptor if isinstance(descriptor, int) else descriptor.fileno()
            path = _of_descriptor(number)
            result = real[function](descriptor, *args)
            calls.append(Call(name, path))
            if name == "fsync":
                synced[path] = os.fstat(number).st_size
            return result

        return call

    def on_paths(function: str, name: Name) -> Callable[..., Any]:
        def call(path: Any, *args: Any, **kwargs: Any) -> Any:
            source = _at(absolute, path, kwargs.get("src_dir_fd", kwargs.get("dir_fd")))
            target = _at(absolute, args[0], kwargs.get("dst_dir_fd")) if args else ""
            grown = source in synced and os.stat(source).st_size != synced[source]
            result = real[function](path, *args, **kwargs)
            if grown:  # a built-in file has written without `os`, and so after the fsync
                calls.append(Call("write", source))
            calls.append(Call(name, source, target))
            return result

        return call

    real_open = builtins.open

    def builtin_open(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        stream = real_open(file, mode, *args, **kwargs)
        writes = any(letter in mode for letter in "wax+")
        path = _of_descriptor(stream.fileno())
        calls.append(Call("open", path, creates=any(c in mode for c in "wax"), writes=writes))
        return stream

    replacements: dict[str, Callable[..., Any]] = {
        "open": open_,
        "write": on_descriptor("write", "write"),
        "fsync": on_descriptor("fsync", "fsync"),
        "fdatasync": on_descriptor("fdatasync", "fsync"),
        "rename": on_paths("rename", "rename"),
        "replace": on_paths("replace", "rename"),
        "unlink": on_paths("unlink", "unlink"),
        "remove": on_paths("remove", "unlink"),
        "link": on_paths("link", "link"),
    }
    for name, function in replacements.items():
        setattr(os, name, function)
    builtins.open = io.open = builtin_open
    try:
        yield calls
    finally:
        builtins.open = io.open = real_open
        for name, function in real.items():
            setattr(os, name, function)


def _at(absolute: Callable[[Any], str], path: Any, folder: int | None) -> str:
    """The absolute path of a call that may be relative to a directory's descriptor."""
    if folder is None or isinstance(path, int):
        return absolute(path)
    return os.path.normpath(os.path.join(_of_descriptor(folder), os.fsdecode(path)))


_FAMILIES = {
    "rename": ("rename", "replace", "link"),
    "fsync": ("fsync", "fdatasync"),
    "write": ("write", "pwrite", "writev"),
}


@contextlib.contextmanager
def failing(family: str, number: int) -> Iterator[None]:
    """Make the functions of one family ("rename", "fsync", "write") raise an OSError."""

    def fail(*args: Any, **kwargs: Any) -> None:
        raise OSError(number, os.strerror(number))

    real = {name: getattr(os, name) for name in _FAMILIES[family]}
    for name in real:
        setattr(os, name, fail)
    try:
        yield
    finally:
        for name, function in real.items():
            setattr(os, name, function)
