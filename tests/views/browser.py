"""Headless Chromium, driven over its debugging pipe: real keys, real layout, nothing installed."""

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

PROGRAM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)

# Chromium reads from descriptor 3 and writes to 4; a process of its own puts them there, so that
# nothing has to be done between fork and exec here, where threads may run.
_LAUNCHER = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(n), fcntl.F_DUPFD, 10) for n in sys.argv[1:3]]
for number, end in zip((3, 4), ends):
    os.dup2(end, number)
os.execv(sys.argv[3], sys.argv[3:])
"""
_KEYS = {
    "Tab": (9, ""),
    "Enter": (13, "\r"),
    " ": (32, " "),
    "ArrowRight": (39, ""),
    "ArrowDown": (40, ""),
}


class Browser:
    """One browser with one page; `events` holds what it told without being asked."""

    def __init__(self, profile: Path, timeout: float = 60.0) -> None:
        assert PROGRAM is not None
        read, self._to = os.pipe()
        self._from, write = os.pipe()
        self._timeout = timeout
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"]
        flags += ["--no-first-run", "--disable-dev-shm-usage", f"--user-data-dir={profile}"]
        command = [sys.executable, "-c", _LAUNCHER, str(read), str(write), PROGRAM, *flags]
        self._process = subprocess.Popen(
            command,
            pass_fds=(read, write),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(read)
        os.close(write)
        self._buffer = b""
        self._last = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        self.call("Page.setLifecycleEventsEnabled", enabled=True)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Ask for something and wait for the answer."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            told = self._message()
            if told.get("id") == self._last:
                assert "error" not in told, (method, told["error"])
                return told["result"]
            self.events.append(told)

    def open(self, path: Path, fragment: str = "") -> None:
        """Load a page from disk and wait until it is there."""
        self._navigate("about:blank")  # or another fragment alone would load nothing
        self.events.clear()
        self._navigate(path.resolve().as_uri() + fragment)

    def _navigate(self, url: str) -> None:
        loader = self.call("Page.navigate", url=url)["loaderId"]
        while not any(
            told["loaderId"] == loader and told["name"] == "load"
            for told in self.told("Page.lifecycleEvent")
        ):
            self.events.append(self._message())

    def look(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        done = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def press(self, key: str) -> None:
        """Press and release one key, as somebody at the keyboard does."""
        code, text = _KEYS.get(key, (ord(key[0].upper()), key))
        about = {"key": key, "windowsVirtualKeyCode": code}
        self.call(
            "Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **about
        )
        self.call("Input.dispatchKeyEvent", type="keyUp", **about)

    def tab_to(self, expression: str) -> None:
        """Press Tab until the element that has the focus satisfies an expression over `it`."""
        for _ in range(200):
            self.press("Tab")
            if self.look(f"(it => {expression})(document.activeElement)"):
                return
        raise AssertionError(f"the keyboard does not reach {expression}")

    def screenshot(self, path: Path) -> None:
        """Keep a picture of what is seen."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    def told(self, method: str) -> list[dict[str, Any]]:
        """The parameters of all events of one kind since the page was opened."""
        return [event["params"] for event in self.events if event["method"] == method]

    def close(self) -> None:
        self._session = None
        with contextlib.suppress(EOFError, OSError):
            self.call("Browser.close")
        os.close(self._to)
        os.close(self._from)
        try:
            self._process.wait(timeout=self._timeout)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _message(self) -> dict[str, Any]:
        deadline = time.monotonic() + self._timeout
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._from], [], [], max(0, deadline - time.monotonic()))
            assert ready, f"the browser says nothing for {self._timeout} s"
            data = os.read(self._from, 1 << 20)
            if not data:
                raise EOFError("the browser ended")
            self._buffer += data
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)
