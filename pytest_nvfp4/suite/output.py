"""What a Python implementation writes and logs while a case watches it."""

import contextlib
import io
import logging
import os
import tempfile
from collections.abc import Iterator


class Output:
    """The text of everything that was written; complete once the watching has ended."""

    text = ""


@contextlib.contextmanager
def captured() -> Iterator[Output]:
    """Catch ``sys.stdout``, ``sys.stderr``, file descriptors 1 and 2, and every log record.

    pytest's own fixtures for this (`capfd`, `caplog`) can be overridden by a conftest.py.
    """
    output, stream = Output(), io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(name)s %(message)s"))
    root = logging.getLogger()
    level = root.level
    with tempfile.TemporaryFile() as file, contextlib.ExitStack() as undo:
        for descriptor in (1, 2):
            undo.callback(_restore, descriptor, os.dup(descriptor))
        undo.enter_context(contextlib.redirect_stdout(stream))
        undo.enter_context(contextlib.redirect_stderr(stream))
        undo.callback(root.setLevel, level)
        undo.callback(root.removeHandler, handler)
        for descriptor in (1, 2):
            os.dup2(file.fileno(), descriptor)
        root.addHandler(handler)
        root.setLevel(logging.DEBUG)
        try:
            yield output
        finally:
            undo.close()
            file.seek(0)
            output.text = stream.getvalue() + file.read().decode(errors="replace")


def _restore(descriptor: int, saved: int) -> None:
    os.dup2(saved, descriptor)
    os.close(saved)
