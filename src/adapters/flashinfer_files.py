"""FlashInfer's cache files, read and written by its own `load_configs` and `save_configs`.

Errors that these two document, and a refusal that they log, become `Rejected`. Any other error is
not caught here, since it shows that FlashInfer failed.
"""

import contextlib
import json
import logging
import os
import re
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .errors import Rejected
from .flashinfer_install import FlashInfer
from .flashinfer_operation import OPERATION, Shape, input_shapes, keys_in, shapes_in

JsonObject = dict[str, Any]

_COUNT = re.compile(r"\[Autotuner\]: (Loaded|Saved) (\d+) configs")
_MISMATCH = re.compile(r"(\w+): saved=.* vs current=")
_MISS = "No tuned config covers"


class TunerLog(logging.Handler):
    """Collects the messages of FlashInfer's logger, which alone state counts and differences."""

    def __init__(self, logger: logging.Logger) -> None:
        super().__init__()
        self.messages: list[str] = []
        logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())

    def clear(self) -> None:
        """Drop all messages."""
        self.messages.clear()

    def count(self, what: str) -> int | None:
        """The number in the last message "Loaded N configs" or "Saved N configs", if there is one.

        `what` is "Loaded" or "Saved".
        """
        for message in reversed(self.messages):
            found = _COUNT.search(message)
            if found and found[1] == what:
                return int(found[2])
        return None

    @property
    def misses(self) -> int:
        """The number of requests that FlashInfer reports as not covered."""
        return sum(_MISS in message for message in self.messages)

    @property
    def mismatch(self) -> tuple[str, str] | None:
        """The first metadata field that a message reports as different, and that message."""
        for message in self.messages:
            found = _MISMATCH.search(message.split("different environment (")[-1])
            if "different environment" in message:
                return (f"_metadata.{found[1]}" if found else "_metadata", message)
        return None


class TunerFiles:
    """Reads and writes files through FlashInfer's tuners, and looks up what a tuner serves."""

    def __init__(self, flashinfer: FlashInfer, log: TunerLog, runner: Any, config: Any) -> None:
        self._flashinfer = flashinfer
        self._log = log
        self._runner = runner
        self._config = config

    def load(self, tuner: Any, path: str) -> int:
        """Load a file into a tuner; returns the number of entries that FlashInfer reports."""
        self._log.clear()
        with documented_errors():
            accepted = tuner.load_configs(path)
        if not accepted:
            self._reject()
        return self._log.count("Loaded") or 0

    def save(self, tuner: Any, path: str) -> int:
        """Save a tuner's plans; returns the number of entries that FlashInfer reports."""
        self._log.clear()
        try:
            tuner.save_configs(path)
        except OSError as error:
            code = "not-regular" if isinstance(error, IsADirectoryError) else "publication"
            raise Rejected(code, path, f"{type(error).__name__}: {error}") from error
        saved = self._log.count("Saved")
        if saved is None:
            self._reject()
        return saved or 0

    def lookup(self, tuner: Any, shape: Shape) -> tuple[Any, bool] | None:
        """The tactic that a tuner serves for a product, and whether this process tuned it."""
        hit, _, tactic, profile = tuner.search_cache(
            OPERATION, [self._runner], input_shapes(*shape), self._config
        )
        return (tactic, profile is not None) if hit else None

    def rows(self, tuner: Any, shapes: set[Shape]) -> list[dict[str, Any]]:
        """The plans that a tuner serves for these shapes, sorted."""
        found = ((shape, self.lookup(tuner, shape)) for shape in sorted(shapes))
        return [{"m": m, "n": n, "k": k, "tactic": plan[0]} for (m, n, k), plan in found if plan]

    def read(self, path: str) -> dict[str, Any]:
        """The plans that a new tuner serves from a file, and the number of its other entries."""
        tuner = self._flashinfer.AutoTuner()
        loaded = self.load(tuner, path)
        rows = self.rows(tuner, set(shapes_in(keys_in(path))))
        return {"plans": rows, "ignored": loaded - len(rows)}

    def write(self, path: str, document: JsonObject) -> int:
        """Save a document's plans at `path`, merged with the file that is there."""
        tuner = self._flashinfer.AutoTuner()
        with _readable_path(document) as source:
            self.load(tuner, source)
        return self.save(tuner, path)

    def merge(self, prior: JsonObject, current: JsonObject) -> JsonObject:
        """The document that results when `current` is saved over `prior`."""
        with tempfile.TemporaryDirectory(prefix="nvfp4-flashinfer-") as folder:
            path = Path(folder, "merged.json")
            path.write_text(json.dumps(prior), encoding="utf-8")
            self.write(str(path), current)
            merged: JsonObject = json.loads(path.read_bytes())
        return merged

    def metadata(self) -> dict[str, str]:
        """The metadata that FlashInfer writes into its files on this machine."""
        with tempfile.TemporaryDirectory(prefix="nvfp4-flashinfer-") as folder:
            path = Path(folder, "empty.json")
            self._flashinfer.AutoTuner().save_configs(str(path))
            found: dict[str, str] = json.loads(path.read_bytes())["_metadata"]
        return found

    def _reject(self) -> None:
        """Raise the refusal that FlashInfer has just logged."""
        member, message = self._log.mismatch or ("_metadata", "it is of a different environment.")
        raise Rejected("foreign-environment", member, message)


@contextlib.contextmanager
def documented_errors() -> Iterator[None]:
    """Turn the errors that `load_configs` documents, and an unreadable file, into `Rejected`."""
    try:
        yield
    except json.JSONDecodeError as error:
        raise Rejected("syntax", "", str(error)) from error
    except OSError as error:
        raise Rejected("unreadable", "", f"{type(error).__name__}: {error}") from error


@contextlib.contextmanager
def _readable_path(document: JsonObject) -> Iterator[str]:
    """A path from which a document can be read once.

    It names a pipe, so that a fault in writing files cannot affect it.
    """
    read_end, write_end = os.pipe()
    data = json.dumps(document).encode()

    def feed() -> None:
        with contextlib.suppress(BrokenPipeError), os.fdopen(write_end, "wb") as pipe:
            pipe.write(data)

    feeder = threading.Thread(target=feed)
    feeder.start()
    try:
        yield f"/dev/fd/{read_end}"
    finally:
        os.close(read_end)
        feeder.join()
