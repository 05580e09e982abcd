"""FlashInfer's own tuner behind the adapter interface, on a CPU.

It is driven through its public interface: `autotune`, `choose_one`, `search_cache`, `load_configs`,
`save_configs`. Its documents are the ones that it keeps, and it reads for the machine that it runs
on alone. It has no options, no native document, no numbered tactic descriptions, no frozen mode and
no guard for captures, and claims none.
"""

import itertools
import os
from typing import Any, Final

from . import flashinfer_install
from .flashinfer_files import Document, Files
from .flashinfer_products import prepare, tuning_config
from .flashinfer_session import Session
from .forked import Forked
from .hearing import Ear
from .rejection import Rejected
from .scripted_device import Device, Script, make_runner

CAPABILITIES: Final = (
    "buckets",
    "flashinfer-import",
    "merge",
    "publication",
    "session",
    "plan-map",
    "scripted-timer",
    "warm-up",
    "fresh-process",
)


def make() -> "Adapter":
    """The adapter; it replaces torch's CUDA in this process, which must be nobody else's.

    A card, where there is one, is hidden: sessions are forked processes, where CUDA does not work,
    and FlashInfer would name another environment there than here.
    """
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    return Adapter()


class Adapter:
    """The operations of the interface."""

    def __init__(self) -> None:
        self._flashinfer = flashinfer_install.load()
        self._ear = Ear(self._flashinfer.logger)
        self._device = Device()
        self._device.install(self._flashinfer)
        runner = make_runner(self._flashinfer, self._device)
        config = tuning_config(self._flashinfer)
        self._files = Files(self._flashinfer, self._ear, runner, config)
        self._sessions: dict[str, Forked] = {}
        self._numbers = itertools.count(1)

    def describe(self) -> dict[str, Any]:
        return {
            "protocol": 1,
            "name": "flashinfer",
            "version": self._flashinfer.version,
            "language": "Python",
            "homepage": "https://github.com/flashinfer-ai/flashinfer",
            "capabilities": list(CAPABILITIES),
            "import_metadata": self._files.metadata(),
            "documents": "flashinfer",
            "environment": "own",
        }

    def bucket(self, m: int) -> int:
        found: int = self._flashinfer.bucket(m)
        return found

    def profiles(self, maximum: int) -> list[int]:
        return list(self._flashinfer.profiles(maximum))

    def read_flashinfer(
        self, path: str, expected: dict[str, str], session: str | None = None
    ) -> dict[str, Any]:
        if session is not None:
            found: dict[str, Any] = self._session(session).call("read", path)
            return found
        return self._files.read(path)

    def merge(self, prior: Document, current: Document) -> Document:
        return self._files.merge(prior, current)

    def write_native(self, path: str, document: Document) -> dict[str, int]:
        return {"plans": self._files.write(path, document)}

    # Sessions

    def open(self, environment: dict[str, str]) -> dict[str, str]:
        number = next(self._numbers)
        if number == 1:
            prepare(self._flashinfer)  # here, and not again in every session
        name = f"session-{number}"
        self._sessions[name] = Forked(
            Session, self._flashinfer, self._ear, self._device, environment
        )
        return {"session": name}

    def warm_up(
        self,
        session: str,
        max_tokens: int,
        shapes: list[list[int]],
        timings: Script | None = None,
    ) -> Any:
        return self._session(session).call("warm_up", max_tokens, shapes, timings)

    def complete(self, session: str) -> Any:
        return self._session(session).call("complete")

    def abandon(self, session: str) -> None:
        self._session(session).call("abandon")

    def plan(
        self,
        session: str,
        m: int,
        n: int,
        k: int,
        *,
        capturing: bool = False,
        timings: Script | None = None,
    ) -> Any:
        if capturing:
            raise ValueError("no graph can be captured here, and no capture is claimed")
        return self._session(session).call("plan", m, n, k, timings)

    def plan_many(
        self,
        session: str,
        requests: list[list[int]],
        load: str | None = None,
        timings: Script | None = None,
    ) -> Any:
        keys = [(m, n, k) for m, n, k in requests]
        return self._session(session).call("plan_many", keys, load, timings)

    def plans(self, session: str) -> Any:
        return self._session(session).call("plans")

    def stats(self, session: str) -> Any:
        return self._session(session).call("stats")

    def trace(self, session: str) -> Any:
        return self._session(session).call("trace")

    def close(self, session: str) -> None:
        self._session(session)
        self._sessions.pop(session).end()

    def _session(self, name: str) -> Forked:
        if name not in self._sessions:
            raise Rejected("lifecycle", name, f"there is no open session {name!r}.")
        return self._sessions[name]
