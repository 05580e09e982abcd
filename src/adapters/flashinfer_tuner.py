"""FlashInfer's own tuner behind the adapter interface, on a CPU.

The adapter uses FlashInfer's public interface: `autotune`, `choose_one`, `search_cache`,
`load_configs` and `save_configs`. Documents are FlashInfer's own, read for the environment of
this machine only. FlashInfer has no options, native documents, tactic descriptors, frozen mode or
capture guard, so the adapter does not claim these capabilities.
"""

import itertools
import os
from typing import Any, Final

from . import flashinfer_install
from .errors import Rejected
from .flashinfer_files import JsonObject, TunerFiles, TunerLog
from .flashinfer_operation import import_lazy_modules, tuning_config
from .scripted_device import ScriptedDevice, Timings, make_runner
from .session_process import SessionProcess
from .tuner_session import TunerSession

__all__ = ["FlashInferAdapter", "make"]

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


def make() -> "FlashInferAdapter":
    """The adapter. It replaces torch's CUDA calls in this process, so it needs one of its own.

    A GPU is hidden: sessions are forked processes, in which CUDA does not work, and FlashInfer
    would report another environment there.
    """
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    return FlashInferAdapter()


class FlashInferAdapter:
    """The operations of the adapter interface that FlashInfer supports."""

    def __init__(self) -> None:
        self._flashinfer = flashinfer_install.load()
        self._log = TunerLog(self._flashinfer.logger)
        self._device = ScriptedDevice()
        self._device.install(self._flashinfer)
        runner = make_runner(self._flashinfer, self._device)
        config = tuning_config(self._flashinfer)
        self._files = TunerFiles(self._flashinfer, self._log, runner, config)
        self._sessions: dict[str, SessionProcess] = {}
        self._numbers = itertools.count(1)

    def describe(self) -> dict[str, Any]:
        """Name, version, capabilities, and the metadata of FlashInfer's documents here."""
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
        """FlashInfer's hybrid bucket of `m` rows."""
        found: int = self._flashinfer.bucket(m)
        return found

    def profiles(self, maximum: int) -> list[int]:
        """The values of M that FlashInfer tunes for up to `maximum` rows."""
        return list(self._flashinfer.profiles(maximum))

    def read_flashinfer(
        self, path: str, expected: dict[str, str], session: str | None = None
    ) -> dict[str, Any]:
        """Read a file with a new tuner, or load it into a session's tuner."""
        if session is not None:
            found: dict[str, Any] = self._session(session).call("read", path)
            return found
        return self._files.read(path)

    def merge(self, prior: JsonObject, current: JsonObject) -> JsonObject:
        """The document that FlashInfer saves where it saves `current` over `prior`."""
        return self._files.merge(prior, current)

    def write_native(self, path: str, document: JsonObject) -> dict[str, int]:
        """Save the plans of a FlashInfer document at `path`."""
        return {"plans": self._files.write(path, document)}

    # Sessions

    def open(self, environment: dict[str, str]) -> dict[str, str]:
        """Open a session in a process of its own."""
        number = next(self._numbers)
        if number == 1:
            import_lazy_modules(self._flashinfer)  # once, and not in every session
        name = f"session-{number}"
        self._sessions[name] = SessionProcess(
            TunerSession, self._flashinfer, self._log, self._device, environment
        )
        return {"session": name}

    def warm_up(
        self,
        session: str,
        max_tokens: int,
        shapes: list[list[int]],
        timings: Timings | None = None,
    ) -> Any:
        """Begin a warm-up in a session; see `TunerSession.warm_up`."""
        return self._session(session).call("warm_up", max_tokens, shapes, timings)

    def complete(self, session: str) -> Any:
        """Complete the warm-up, which saves."""
        return self._session(session).call("complete")

    def abandon(self, session: str) -> None:
        """Leave the warm-up by an exception."""
        self._session(session).call("abandon")

    def plan(
        self,
        session: str,
        m: int,
        n: int,
        k: int,
        *,
        capturing: bool = False,
        timings: Timings | None = None,
    ) -> Any:
        """Serve one product; `ValueError` with `capturing`, since no graph can be captured."""
        if capturing:
            raise ValueError("capturing is true, and no graph can be captured here; pass false.")
        return self._session(session).call("plan", m, n, k, timings)

    def plan_many(
        self,
        session: str,
        requests: list[list[int]],
        load: str | None = None,
        timings: Timings | None = None,
    ) -> Any:
        """Serve products concurrently, with a load during a tuning where `load` names a file."""
        keys = [(m, n, k) for m, n, k in requests]
        return self._session(session).call("plan_many", keys, load, timings)

    def plans(self, session: str) -> Any:
        """The plans that the session serves."""
        return self._session(session).call("plans")

    def stats(self, session: str) -> Any:
        """The counts of the session."""
        return self._session(session).call("stats")

    def trace(self, session: str) -> Any:
        """The calls of the session's last tuning."""
        return self._session(session).call("trace")

    def close(self, session: str) -> None:
        """End the session and its process."""
        self._session(session)
        self._sessions.pop(session).end()

    def _session(self, name: str) -> SessionProcess:
        if name not in self._sessions:
            raise Rejected(
                "lifecycle",
                name,
                f"there is no open session {name!r}; open one and use the name it returns.",
            )
        return self._sessions[name]
