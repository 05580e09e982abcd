"""Locks for tests, and others who hold them."""

import os
import subprocess
import sys

import pytest


class Holder:
    """Another process that holds a lock until it is released or killed."""

    def __init__(self, *command):
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout.readline() == "held\n"

    @property
    def pid(self):
        return self.process.pid

    def release(self):
        self.process.communicate("\n")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def end(self):
        self.kill()
        self.process.stdin.close()
        self.process.stdout.close()


@pytest.fixture(autouse=True)
def _alone(monkeypatch):
    """No setting of this run reaches those that tests make."""
    for name in os.environ:
        ours = name.startswith(("PYTEST_", "NVFP4_", "VT_", "COLUMNS"))
        if ours and name not in ("PYTEST_CURRENT_TEST", "PYTEST_ADDOPTS"):
            monkeypatch.delenv(name)


@pytest.fixture
def path(tmp_path):
    """Where a lock is, or will be."""
    return tmp_path / "gpu"


@pytest.fixture
def hold():
    """``hold(path)``: the real `flock` command holds the lock; `options` go to it."""
    holders = []

    def start(path, *options, script="echo held; read _"):
        # -o: the command that flock runs does not get the descriptor.
        holders.append(Holder("flock", *(options or ("-o",)), str(path), "sh", "-c", script))
        return holders[-1]

    yield start
    for holder in holders:
        holder.end()


@pytest.fixture
def free():
    """``free(path)``: whether the real `flock` command gets the lock at once."""

    def ask(path, *options):
        command = ["flock", "-n", *options, str(path), "true"]
        return subprocess.run(command, check=False).returncode == 0

    return ask


@pytest.fixture
def script(tmp_path):
    """``script(code, *arguments)`` starts a Python process that uses the package."""
    started = []

    def start(code, *arguments):
        process = subprocess.Popen(
            [sys.executable, "-c", code, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            pipe.close()
