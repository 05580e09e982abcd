"""Let the subject publish while its file-system calls are watched, or made to fail."""

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pytest_nvfp4.faults import interpose, strace
from pytest_nvfp4.faults.calls import Publication, publication
from pytest_nvfp4.implementations.messages import Rejected
from pytest_nvfp4.implementations.subject import Subject
from pytest_nvfp4.implementations.transports import IN_PROCESS, JsonLines


class Watch:
    """In process the functions of `os` are stood in for; a process is run under strace."""

    def __init__(self, subject: Subject, launch: Callable[..., Subject], log: Path):
        self._subject = subject
        self._launch = launch
        self._log = str(log)

    def __call__(
        self, path: Path, document: dict[str, Any], prefix: tuple[str, ...] = ()
    ) -> Publication:
        """Publish, and say how the destination came to hold its content.

        `prefix` are command words to start a process behind, before those of strace.
        """
        if self._subject.transport.name == IN_PROCESS:
            with interpose.interposed() as calls:
                answer = self._subject.write_native(str(path), document)
        else:
            traced = self._launch(prefix=(*prefix, *strace.prefix(self._log)))
            answer = traced.write_native(str(path), document)
            assert isinstance(traced.transport, JsonLines)
            traced.transport.finish()  # the log is whole once the tracer has ended
            calls = strace.read_log(self._log, str(path.parent))
        assert not isinstance(answer, Rejected), f"the save was rejected: {answer.message}"
        return publication(calls, str(path))

    def failing(self, path: Path, document: dict[str, Any], family: str) -> int | Rejected:
        """Publish while every call of a family ("rename", "fsync", "write") fails."""
        if self._subject.transport.name == IN_PROCESS:
            with interpose.failing(family, errno.EIO):
                return self._subject.write_native(str(path), document)
        if family == "write":
            # A limit on the size of files leaves the pipes alone; strace would break those.
            script = """trap '' XFSZ; ulimit -f 1; exec "$@" """
            prefix: tuple[str, ...] = ("sh", "-c", script, "sh")
        else:
            prefix = strace.failing_prefix(family, "EIO")
        broken = self._launch(prefix=prefix)
        return broken.write_native(str(path), document)
