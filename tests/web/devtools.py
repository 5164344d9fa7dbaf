"""A tab of headless Chromium over its debugging pipe (Chrome DevTools Protocol): JSON, each ended by a zero.

``--dump-dom`` shows a page as it was loaded; a page that changes by itself has to be asked later.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import time
from pathlib import Path
from typing import Any

from tests.report.chromium import FLAGS

_PATIENCE_S = 120.0
_LEFT = "Inspected target navigated or closed"
_COMPLAINTS = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")


class LeftError(Exception):
    """The page that was asked was left before it answered."""


class Tab:
    """Context manager."""

    def __init__(self, browser: str, folder: Path) -> None:
        self._browser, self._folder = browser, folder
        self._number = 0
        self._read = b""
        self._session: str | None = None
        self.complaints: list[str] = []
        """What the console and the security policy said."""

    def __enter__(self) -> Tab:
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        # Chromium reads its third descriptor and writes its fourth.
        exchanged = f'exec 3<&{theirs_in} 4>&{theirs_out}; exec "$@"'
        self._process = subprocess.Popen(
            ["bash", "-c", exchanged, "bash", self._browser, *FLAGS, "--remote-debugging-pipe",
             f"--user-data-dir={self._folder / 'profile'}", "about:blank"],
            pass_fds=(theirs_in, theirs_out), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(theirs_in)
        os.close(theirs_out)
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._ask(f"{domain}.enable")
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._out)
        os.close(self._in)
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def open(self, url: str, width: int = 1200) -> None:
        """Load a page in a window so wide."""
        self.complaints.clear()
        self.resize(width)
        self._ask("Page.navigate", url=url)
        self.wait_for("document.readyState === 'complete' && location.href !== 'about:blank'")

    def resize(self, width: int) -> None:
        """Lay the page out again, so wide."""
        self._ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False
        )

    def prefer(self, scheme: str, media: str = "screen") -> None:
        """Be asked for by somebody who prefers ``light`` or ``dark``, on a screen or in ``print``."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self._ask("Emulation.setEmulatedMedia", media=media, features=features)

    def screenshot(self, width: int, height_most: int) -> str:
        """The whole page as PNG in base64."""
        height = min(height_most, int(self.ask("document.documentElement.scrollHeight")))
        return self.part(width, 0, height)

    def part(self, width: int, top: float, bottom: float) -> str:
        """What lies between two heights of the page, as PNG in base64."""
        clip = {"x": 0, "y": top, "width": width, "height": bottom - top, "scale": 1}
        data: str = self._ask("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)["data"]
        return data

    def held(self) -> tuple[int, int]:
        """Bytes of JavaScript's heap and nodes of documents, after what nobody needs was let go.

        A page that changes meanwhile holds more for a moment: the least of a few tries.
        """
        found = []
        for _ in range(5):
            self._ask("HeapProfiler.collectGarbage")
            used = int(self._ask("Runtime.getHeapUsage")["usedSize"])
            found.append((used, int(self._ask("Memory.getDOMCounters")["nodes"])))
            time.sleep(0.1)
        return min(used for used, _ in found), min(nodes for _, nodes in found)

    def ask(self, expression: str) -> Any:
        """Value of a JavaScript expression."""
        found = self._ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def leave(self, expression: str) -> None:
        """Evaluate what leads to another page; the page may be gone before it answers."""
        with contextlib.suppress(LeftError):
            self.ask(expression)

    def wait_for(self, expression: str) -> None:
        """Return when it is true, on this page or on the next."""
        until_s = time.monotonic() + _PATIENCE_S
        while not self._holds(expression):
            assert time.monotonic() < until_s, f"never: {expression}"
            time.sleep(0.05)

    def _holds(self, expression: str) -> bool:
        try:
            return bool(self.ask(expression))
        except LeftError:
            return False

    def _ask(self, method: str, **given: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": given}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        until_s = time.monotonic() + _PATIENCE_S
        while True:
            found = self._message(until_s)
            if found.get("id") == self._number:
                if found.get("error", {}).get("message") == _LEFT:
                    raise LeftError(method)
                assert "error" not in found, found
                result: dict[str, Any] = found["result"]
                return result
            if found.get("method") in _COMPLAINTS:
                self.complaints.append(json.dumps(found["params"]))

    def _message(self, until_s: float) -> dict[str, Any]:
        while b"\0" not in self._read:
            ready, _, _ = select.select([self._in], [], [], max(0.0, until_s - time.monotonic()))
            assert ready, "Chromium says nothing"
            got = os.read(self._in, 1 << 16)
            assert got, "Chromium has ended"
            self._read += got
        text, _, self._read = self._read.partition(b"\0")
        found: dict[str, Any] = json.loads(text)
        return found
