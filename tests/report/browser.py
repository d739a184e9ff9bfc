"""Chromium over its debugging pipe: what a page asks for, says and looks like."""

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def find_browser() -> str | None:
    """The browser's program: that of EVALKIT_TEST_BROWSER, or Debian's."""
    named = os.environ.get("EVALKIT_TEST_BROWSER")
    return named or next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One headless browser with one page."""

    def __init__(self, program: str, profile: str) -> None:
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()

        def connect() -> None:
            # Above everything first: either end may have the number of the other's place.
            high = os.dup2(to_browser, 60), os.dup2(from_browser, 61)
            os.dup2(high[0], 3, inheritable=True)
            os.dup2(high[1], 4, inheritable=True)

        self._process = subprocess.Popen(
            [
                *(program, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
                *("--remote-debugging-pipe", f"--user-data-dir={profile}", "--no-first-run"),
                *("--disable-dev-shm-usage", "--disable-background-networking", "about:blank"),
            ],
            preexec_fn=connect,
            close_fds=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self.events: list[dict] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        found = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = found["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: object) -> dict:
        """The result of one command; events that come before it are kept."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def _receive(self) -> dict:
        while b"\0" not in self._buffer:
            block = os.read(self._in, 1 << 16)
            if not block:
                raise RuntimeError("the browser ended")
            self._buffer += block
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def show(self, path: Path, *, width: int = 1280, dark: bool = False, scripts: bool = True):
        """Load a file and wait until it is there."""
        self.events.clear()
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=900, deviceScaleFactor=1, mobile=width < 500,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.call("Page.navigate", url=path.absolute().as_uri())
        while not any(each.get("method") == "Page.loadEventFired" for each in self.events):
            self.events.append(self._receive())

    def run(self, code: str) -> object:
        """The value of JavaScript code in the page."""
        found = self.call("Runtime.evaluate", expression=code, returnByValue=True)
        if "exceptionDetails" in found:
            raise RuntimeError(found["exceptionDetails"]["text"])
        return found["result"].get("value")

    def shoot(self, path: Path) -> None:
        """A picture of the whole page."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        taken = self.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(taken["data"]))

    @property
    def requests(self) -> list[str]:
        """Addresses that the page asked for, its own file left out."""
        asked = [
            each["params"]["request"]["url"]
            for each in self.events
            if each.get("method") == "Network.requestWillBeSent"
        ]
        return [url for url in asked[1:] if not url.startswith("data:")]

    @property
    def complaints(self) -> list[str]:
        """What stands on the console: errors, warnings, broken policies."""
        found = []
        for event in self.events:
            parameters = event.get("params", {})
            if event.get("method") == "Log.entryAdded":
                found.append(parameters["entry"]["text"])
            elif event.get("method") == "Runtime.exceptionThrown":
                found.append(str(parameters["exceptionDetails"]))
            elif event.get("method") == "Runtime.consoleAPICalled":
                found.append(str(parameters["args"]))
            elif event.get("method") == "Page.javascriptDialogOpening":
                found.append(parameters["message"])
        return found

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(timeout=20)
        os.close(self._out)
        os.close(self._in)


@contextmanager
def open_browser() -> Iterator[Browser]:
    """A browser for a while."""
    program = find_browser()
    assert program is not None
    with TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(program, profile)
        try:
            yield browser
        finally:
            browser.close()
