"""A headless Chromium, driven through its own protocol over two pipes: nothing to install but the browser."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
PATIENCE = 60.0  # seconds for anything that is waited for; the machine may be busy


def find_chromium() -> str | None:
    """Return the browser: that of CHROMIUM, or the first on the path."""
    return os.environ.get("CHROMIUM") or next((found for name in NAMES if (found := shutil.which(name))), None)


class Browser:
    """A running browser with a profile of its own."""

    def __init__(self, program: str, folder: Path) -> None:
        self.downloads = folder / "downloads"
        self.downloads.mkdir(parents=True)
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()

        def place() -> None:  # the protocol speaks on file descriptors 3 and 4
            first, second = os.dup(to_read), os.dup(to_write)
            os.dup2(first, 3)
            os.dup2(second, 4)

        options = [
            "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage",
            "--disable-extensions", "--disable-background-networking", "--remote-debugging-pipe",
            f"--user-data-dir={folder / 'profile'}", "about:blank",
        ]  # fmt: skip
        self._process = subprocess.Popen(
            [program, *options], preexec_fn=place, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(to_read)
        os.close(to_write)
        self._rest, self._count = b"", 0
        self.events: list[dict[str, Any]] = []
        self.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(self.downloads))

    def call(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        """Return the browser's answer to one command."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._count:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return dict(answer["result"])
            self.events.append(answer)

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            piece = os.read(self._read, 1 << 16)
            assert piece, "the browser has ended"
            self._rest += piece
        line, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(line))

    def open(self, address: str, width: int = 1200, height: int = 900, *, dark: bool = False) -> Page:
        """Return a new tab at an address."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session, target)
        page.call("Page.enable")
        page.call("Runtime.enable")
        page.call("Log.enable")
        page.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        if dark:
            page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
        page.call("Page.navigate", url=address)
        page.wait("document.readyState === 'complete'")
        return page

    def close(self) -> None:
        """End the browser."""
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._read)
        os.close(self._write)


class Page:
    """One tab."""

    def __init__(self, browser: Browser, session: str, target: str) -> None:
        self.browser, self.session, self.target = browser, session, target

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        return self.browser.call(method, self.session, **params)

    def js(self, expression: str) -> Any:
        """Return the value of an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, expression: str, patience: float = PATIENCE) -> Any:
        """Return the value of an expression as soon as it is true."""
        end = time.monotonic() + patience
        while not (value := self.js(expression)):
            if time.monotonic() > end:
                shown = self.js("document.body.innerText")
                raise AssertionError(f"waited in vain for {expression}; the page shows:\n{shown}\n{self.problems()}")
            time.sleep(0.05)
        return value

    def text(self, selector: str) -> str:
        return str(self.js(f"document.querySelector({json.dumps(selector)}).innerText"))

    def click(self, selector: str) -> None:
        """Click in the middle of an element, as a mouse does."""
        x, y = self._middle(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def hover(self, selector: str, share: float = 0.5) -> None:
        """Move the mouse over an element, so far from its left."""
        x, y = self._middle(selector, share)
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def drag(self, selector: str, *shares: float) -> None:
        """Take a slider's handle and move it over parts of its length."""
        value, length = self.js(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); return [+e.value, +e.max]; }})()"
        )
        x, y = self._middle(selector, value / length)
        self.call("Input.dispatchMouseEvent", type="mousePressed", x=x, y=y, button="left", clickCount=1)
        for share in shares:
            x, y = self._middle(selector, share)
            self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y, button="left", buttons=1)
        self.call("Input.dispatchMouseEvent", type="mouseReleased", x=x, y=y, button="left", clickCount=1)

    def type(self, selector: str, text: str) -> None:
        """Write a text over what stands in a box."""
        self.click(selector)
        self.js(f"document.querySelector({json.dumps(selector)}).select()")
        self.call("Input.insertText", text=text)

    def choose(self, selector: str, value: str) -> None:
        """Choose an entry of a list."""
        found = f"document.querySelector({json.dumps(selector)})"
        self.js(f"(() => {{ {found}.value = {json.dumps(value)}; {found}.dispatchEvent(new Event('change')); }})()")

    def _middle(self, selector: str, share: float = 0.5) -> tuple[float, float]:
        name = json.dumps(selector)
        box = self.js(
            f"(() => {{ const e = document.querySelector({name}); e.scrollIntoView({{block: 'nearest'}});"
            " const b = e.getBoundingClientRect(); return [b.left, b.top, b.width, b.height]; })()"
        )
        inset = 8 if "data-slider" in selector else 0  # half the width of a handle
        return box[0] + inset + share * (box[2] - 2 * inset), box[1] + box[3] / 2

    def screenshot(self, path: Path, *, whole: bool = False) -> None:
        """Write what the tab shows."""
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=whole)["data"]
        path.write_bytes(base64.b64decode(shot))

    def downloaded(self, name: str) -> Path:
        """Return a file that the page offered, as soon as it is there."""
        path, end = self.browser.downloads / name, time.monotonic() + PATIENCE
        while not path.is_file():
            assert time.monotonic() < end, f"{name} did not come; the page shows:\n{self.js('document.body.innerText')}"
            self.js("0")
            time.sleep(0.05)
        return path

    def problems(self) -> list[str]:
        """Return what the browser complained of: exceptions, refused scripts, lost requests."""
        self.js("0")
        mine = [event for event in self.browser.events if event.get("sessionId") == self.session]
        thrown = [str(e["params"]["exceptionDetails"]) for e in mine if e.get("method") == "Runtime.exceptionThrown"]
        logged = [str(e["params"]["entry"]) for e in mine if e.get("method") == "Log.entryAdded"]
        return [text for text in (*thrown, *logged) if "favicon" not in text and "'level': 'verbose'" not in text]

    def close(self) -> None:
        self.browser.call("Target.closeTarget", targetId=self.target)
