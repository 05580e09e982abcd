"""Observe the file-system calls of any executable, in any language, by an strace log."""

import functools
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator

from pytest_nvfp4.faults.calls import Call, Name

# A question mark: processors that came late, such as AArch64, never had the older call.
_TRACED = (
    "?open,openat,?creat,write,pwrite64,writev,pwritev,fsync,fdatasync,"
    "?rename,renameat,renameat2,?unlink,unlinkat,?link,linkat"
)
LINE = re.compile(
    r"^(?:(?P<pid>\d+) +)?(?P<name>\w+)\((?P<arguments>.*)\) += (?P<result>-?\d+|\?)(?P<rest>.*)$"
)
_UNFINISHED = re.compile(r"^(?P<pid>\d+) +(?P<start>.*) <unfinished \.\.\.>$")
_RESUMED = re.compile(r"^(?P<pid>\d+) +<\.\.\. \w+ resumed>(?P<end>.*)$")
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
DESCRIPTOR = re.compile(r"(?:AT_FDCWD|\d+)<((?:[^<>\\]|\\.)*)>")
_OCTAL = re.compile(r"\\x([0-9a-f]{2})")
_NAMES: dict[str, Name] = {
    "open": "open",
    "openat": "open",
    "creat": "open",
    "fsync": "fsync",
    "fdatasync": "fsync",
    "rename": "rename",
    "renameat": "rename",
    "renameat2": "rename",
    "unlink": "unlink",
    "unlinkat": "unlink",
    "link": "link",
    "linkat": "link",
}


@functools.cache
def unavailable() -> str | None:
    """The reason that strace cannot be used here, or None where it can; found by trying."""
    program = shutil.which("strace")
    if program is None:
        return "strace is not installed"
    try:
        probe = subprocess.run(
            [program, "-f", "-qq", "-o", os.devnull, "true"],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "strace hangs here"
    if probe.returncode:
        return f"strace may not trace here ({probe.stderr.strip()[-120:]})"
    return None


def prefix(log: str) -> tuple[str, ...]:
    """The command words to put before an executable so that its calls are written to `log`."""
    return ("strace", "-f", "-qq", "-y", "-xx", "-s", "4096", "-e", f"trace={_TRACED}", "-o", log)


_FAMILIES = {
    "rename": "?rename,renameat,renameat2,?link,linkat",
    "fsync": "fsync,fdatasync",
}


def failing_prefix(family: str, error: str) -> tuple[str, ...]:
    """The command words that make every call of one family fail with an error such as ``EIO``."""
    calls = _FAMILIES[family]
    words = ("-e", f"trace={calls}", "-e", f"inject={calls}:error={error}")
    return ("strace", "-f", "-qq", "-o", os.devnull, *words)


def read_log(log: str, folder: str) -> list[Call]:
    """The successful calls in a log that are about paths below `folder`, in order."""
    with open(log, encoding="utf-8", errors="surrogateescape") as lines:
        calls = [call for call in map(_parse, joined(lines)) if call is not None]
    below = folder.rstrip("/") + "/"
    return [
        call
        for call in calls
        if any(path == folder or path.startswith(below) for path in (call.path, call.target))
    ]


def joined(lines: Iterable[str]) -> Iterator[str]:
    """Put the two halves of calls together that other threads interrupted."""
    halves: dict[str, str] = {}
    for raw in lines:
        line = raw.rstrip("\n")
        if match := _UNFINISHED.match(line):
            halves[match["pid"]] = match["start"]
        elif match := _RESUMED.match(line):
            yield f"{match['pid']} {halves.pop(match['pid'], '')}{match['end']}"
        else:
            yield line


def plain(text: str) -> str:
    """Undo strace's spelling of bytes as \\xNN."""
    return os.fsdecode(bytes.fromhex("".join(_OCTAL.findall(text)))) if "\\x" in text else text


def _parse(line: str) -> Call | None:
    match = LINE.match(line)
    if match is None or match["result"].startswith(("-", "?")):
        return None
    name, arguments = match["name"], match["arguments"]
    descriptors = [plain(path) for path in DESCRIPTOR.findall(arguments)]
    strings = [plain(text) for text in STRING.findall(arguments)]
    if name in ("write", "pwrite64", "writev", "pwritev"):
        return Call("write", descriptors[0]) if descriptors else None
    kind = _NAMES.get(name)
    if kind is None:
        return None
    if kind == "fsync":
        return Call(kind, descriptors[0]) if descriptors else None
    # Paths of the *at calls are relative to the descriptor before them.
    bases = descriptors if descriptors else [""]
    paths = [
        os.path.normpath(os.path.join(bases[min(index, len(bases) - 1)], text))
        for index, text in enumerate(strings)
    ]
    if kind == "open":
        opened = DESCRIPTOR.search(match["result"] + match["rest"])
        path = plain(opened[1]) if opened else paths[0]
        return Call(
            kind,
            path,
            creates="O_CREAT" in arguments or name == "creat",
            writes=any(flag in arguments for flag in ("O_WRONLY", "O_RDWR")) or name == "creat",
        )
    return Call(kind, paths[0], paths[1] if len(paths) > 1 else "")
