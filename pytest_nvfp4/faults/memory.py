"""The memory that a process has used, as the kernel counted it."""

from pathlib import Path


def peak_bytes(pid: int) -> int:
    """The peak resident size of a running process, in bytes."""
    for line in (
        Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace").splitlines()
    ):
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise ValueError(f"process {pid} has no VmHWM; it may have ended")
