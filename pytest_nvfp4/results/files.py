"""Writing result files in one step: no reader sees, and no stopped run leaves, half of a file."""

import os
import secrets
from pathlib import Path


def publish(path: Path, content: bytes) -> None:
    """Make `content` the whole content of `path`; OSError if that fails, with nothing left behind.

    A regular file, and one behind symbolic links, is replaced in one step. Anything else that
    exists, such as a pipe or a terminal, is written to directly.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        target.write_bytes(content)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        # Exclusive creation: the name is random, and the mode is left to the umask.
        with temporary.open("xb") as file:
            file.write(content)
        if target.exists():
            temporary.chmod(target.stat().st_mode & 0o7777)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
