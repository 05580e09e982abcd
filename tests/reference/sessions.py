"""Sessions for the tests: scripted, counting and faulty back ends, and files to load."""

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nvfp4_reference import ImportMetadata, NativeMetadata, PlanKey, Plans, Session, resolve
from nvfp4_reference.native_document import Document
from nvfp4_reference.scripted_timer import Script, ScriptedTimer

LONG = 60
"""Seconds after which a wait that should have ended has failed."""

NK = (320, 384)
SHAPES = [NK, (64, 128)]
HERE = NativeMetadata.of_this_machine()


class Call(threading.Thread):
    """A call in a thread of its own, with its result or error."""

    def __init__(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> None:
        super().__init__(daemon=True)
        self._function, self._arguments, self._named = function, arguments, named
        self.result: Any = None
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self.result = self._function(*self._arguments, **self._named)
        except BaseException as error:
            self.error = error

    def outcome(self) -> Any:
        self.join(LONG)
        assert not self.is_alive(), "the call is stuck"
        return self.result if self.error is None else self.error


class BackEnd:
    """A scripted back end that records its products and can be delayed."""

    def __init__(self, timings: dict[str, Any] | None = None) -> None:
        self._script = Script.from_json(timings or {})
        self.products: list[tuple[int, int, int]] = []
        self.on_timer: Callable[[], None] = lambda: None

    def timer(self, m: int, n: int, k: int) -> ScriptedTimer:
        self.products.append((m, n, k))
        self.on_timer()
        return self._script.timer(m, n, k)


class Slow(BackEnd):
    """A back end whose first product waits for the test."""

    def __init__(self, timings: dict[str, Any] | None = None) -> None:
        super().__init__(timings)
        self.begun, self.proceed = threading.Event(), threading.Event()
        self.on_timer = self._wait

    def _wait(self) -> None:
        self.begun.set()
        assert self.proceed.wait(LONG)


class Untouchable:
    """A back end for calls that must not reach the device."""

    def timer(self, m: int, n: int, k: int) -> Any:
        raise AssertionError(f"a timer was made for {m}, {n}, {k}")


def best(tactic: int) -> BackEnd:
    """A back end on which `tactic` wins."""
    return BackEnd({str(tactic): 1})


def session(environment: dict[str, str] | None = None, **named: Any) -> Session:
    return Session(resolve(environment or {}), **named)


def at(path: Path, **variables: str) -> dict[str, str]:
    """The environment whose explicit native file is `path`."""
    return {"VT_FP4_AUTOTUNE_CACHE_PATH": str(path), **variables}


def frozen_at(path: Path, **variables: str) -> dict[str, str]:
    return at(path, VT_FP4_AUTOTUNE_CACHE_READONLY="1", **variables)


def keys(maximum_buckets: list[int], shapes: list[tuple[int, int]]) -> list[PlanKey]:
    return [PlanKey(m, n, k) for n, k in shapes for m in maximum_buckets]


def write_native(path: Path, plans: Plans, metadata: NativeMetadata = HERE) -> Document:
    document = Document(metadata, plans)
    path.write_text(document.render())
    return document


def flashinfer_text(plans: Plans, **metadata: str) -> str:
    """A FlashInfer document of this machine's environment, or with other metadata."""
    root: dict[str, Any] = {"_metadata": {**ImportMetadata.of_this_machine().as_json(), **metadata}}
    for (m, n, k), tactic in plans.items():
        half, blocks = k // 2, k // 16
        key = (
            f"('fp4_gemm', 'CutlassFp4GemmRunner', (({m}, {half}), ({half}, {n}), "
            f"(-1, {blocks}), ({blocks}, {n}), (), (0,), (-1, {n}), (0,), (0,), (-1,)), ())"
        )
        root[key] = ["CutlassFp4GemmRunner", tactic]
    return json.dumps(root)
