"""FlashInfer's files, read and written by its own `load_configs` and `save_configs`.

What these promise to raise, and a refusal that they log, is a rejection. Everything else that they
raise is not caught here: then FlashInfer broke.
"""

import contextlib
import json
import os
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .flashinfer_install import FlashInfer
from .flashinfer_products import OPERATION, Key, keys_in, names_in, shapes
from .hearing import Ear
from .rejection import Rejected

Document = dict[str, Any]


class Files:
    """One FlashInfer, its log, and a runner to ask it with."""

    def __init__(self, flashinfer: FlashInfer, ear: Ear, runner: Any, config: Any) -> None:
        self._flashinfer = flashinfer
        self._ear = ear
        self._runner = runner
        self._config = config

    def load(self, tuner: Any, path: str) -> int:
        """Let a tuner load a file; the number of entries that it says it has loaded."""
        self._ear.forget()
        with documented():
            accepted = tuner.load_configs(path)
        if not accepted:
            self.refuse()
        return self._ear.count("Loaded") or 0

    def refuse(self) -> None:
        """Raise the refusal that FlashInfer has just logged."""
        member, message = self._ear.mismatch or ("_metadata", "it is of a different environment.")
        raise Rejected("foreign-environment", member, message)

    def save(self, tuner: Any, path: str) -> int:
        """Let a tuner save; the number of entries that it says are in the file."""
        self._ear.forget()
        try:
            tuner.save_configs(path)
        except OSError as error:
            code = "not-regular" if isinstance(error, IsADirectoryError) else "publication"
            raise Rejected(code, path, f"{type(error).__name__}: {error}") from error
        saved = self._ear.count("Saved")
        if saved is None:
            self.refuse()
        return saved or 0

    def lookup(self, tuner: Any, key: Key) -> tuple[Any, bool] | None:
        """The tactic that a tuner has for a product, and whether it was tuned in this process."""
        hit, _, tactic, profile = tuner.search_cache(
            OPERATION, [self._runner], shapes(*key), self._config
        )
        return (tactic, profile is not None) if hit else None

    def rows(self, tuner: Any, keys: set[Key]) -> list[dict[str, Any]]:
        """The plans that a tuner serves, of those that it may have."""
        found = ((key, self.lookup(tuner, key)) for key in sorted(keys))
        return [{"m": m, "n": n, "k": k, "tactic": plan[0]} for (m, n, k), plan in found if plan]

    def read(self, path: str) -> dict[str, Any]:
        """The plans that a fresh tuner serves from a file, and how many entries it never will."""
        tuner = self._flashinfer.AutoTuner()
        loaded = self.load(tuner, path)
        rows = self.rows(tuner, set(keys_in(names_in(path))))
        return {"plans": rows, "ignored": loaded - len(rows)}

    def write(self, path: str, document: Document) -> int:
        """Save what a document holds at `path`, beside what is there."""
        tuner = self._flashinfer.AutoTuner()
        with _as_file(document) as source:
            self.load(tuner, source)
        return self.save(tuner, path)

    def merge(self, prior: Document, current: Document) -> Document:
        """What becomes of one document where another is saved over it."""
        with tempfile.TemporaryDirectory(prefix="nvfp4-flashinfer-") as folder:
            path = Path(folder, "merged.json")
            path.write_text(json.dumps(prior), encoding="utf-8")
            self.write(str(path), current)
            merged: Document = json.loads(path.read_bytes())
        return merged

    def metadata(self) -> dict[str, str]:
        """The environment that FlashInfer writes into its files on this machine."""
        with tempfile.TemporaryDirectory(prefix="nvfp4-flashinfer-") as folder:
            path = Path(folder, "empty.json")
            self._flashinfer.AutoTuner().save_configs(str(path))
            found: dict[str, str] = json.loads(path.read_bytes())["_metadata"]
        return found


@contextlib.contextmanager
def documented() -> Iterator[None]:
    """Take what `load_configs` promises to raise, and a file that cannot be read, for a refusal."""
    try:
        yield
    except json.JSONDecodeError as error:
        raise Rejected("syntax", "", str(error)) from error
    except OSError as error:
        raise Rejected("unreadable", "", f"{type(error).__name__}: {error}") from error


@contextlib.contextmanager
def _as_file(document: Document) -> Iterator[str]:
    """A path under which a document can be read once; no file is written, since that may fail."""
    ours, theirs = os.pipe()
    data = json.dumps(document).encode()

    def feed() -> None:
        with contextlib.suppress(BrokenPipeError), os.fdopen(theirs, "wb") as pipe:
            pipe.write(data)

    feeder = threading.Thread(target=feed)
    feeder.start()
    try:
        yield f"/dev/fd/{ours}"
    finally:
        os.close(ours)
        feeder.join()
