"""A page in a real headless Chromium, driven through a pipe: no port is opened, and no package is needed.

`Browser` is the program, `Page` one page: what it says, what happens when a key is pressed, what it asked for.
"""

import base64
import json
import os
import queue
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
QUIET = (
    "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-component-update "
    "--disable-sync --disable-extensions --disable-default-apps --mute-audio --hide-scrollbars "
    "--window-size=1280,900 --remote-debugging-pipe"
).split()
WAIT = 60.0
HAND_OVER = """
import os, sys
read, write = (os.dup(os.dup(os.dup(int(number)))) for number in sys.argv[1:3])  # beyond 3 and 4, whatever they were
os.dup2(read, 3), os.dup2(write, 4)  # Chromium reads from descriptor 3 and writes to 4
os.execv(sys.argv[3], sys.argv[3:])
"""


def find_browser() -> str:
    """The program, or a skipped test."""
    for name in NAMES:
        path = shutil.which(name)
        if path:
            return path
    pytest.skip(f"no browser to look at the page with; install one of {', '.join(NAMES)}")


class Browser:
    """A Chromium that is told what to do in messages that end in a NUL byte."""

    def __init__(self, profile: Path) -> None:
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        command = [find_browser(), *QUIET, f"--user-data-dir={profile}", "about:blank"]
        self._process = subprocess.Popen(
            [sys.executable, "-c", HAND_OVER, str(to_browser), str(from_browser), *command],
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._number = 0
        self._inbox: queue.Queue[dict | None] = queue.Queue()
        self.events: list[dict] = []
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        rest = b""
        while block := os.read(self._read, 1 << 16):
            *messages, rest = (rest + block).split(b"\0")
            for message in messages:
                self._inbox.put(json.loads(message))
        self._inbox.put(None)

    def ask(self, method: str, session: str | None = None, **params):
        """What the browser answers to one command."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + WAIT
        while True:
            answer = self._inbox.get(timeout=max(0.1, end - time.monotonic()))
            assert answer is not None, f"the browser ended while it was asked {method}"
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            self.events.append(answer)

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(WAIT)
        os.close(self._write)


class Page:
    """One page of a browser.

    Attributes:
        problems: errors and refusals of its policy that the page met.
    """

    def __init__(self, browser: Browser, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        self.browser = browser
        context = browser.ask("Target.createBrowserContext")["browserContextId"]  # its own storage
        target = browser.ask("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        self._target = target
        self._session = browser.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self._ask(f"{domain}.enable")
        self._ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._ask("Emulation.setEmulatedMedia", features=[scheme])

    def _ask(self, method: str, **params):
        return self.browser.ask(method, self._session, **params)

    def open(self, url: str, wait: bool = True) -> None:
        """Go there, and wait until the viewer says that it is ready."""
        answer = self._ask("Page.navigate", url=url)
        assert not answer.get("errorText"), answer
        if wait:
            self.until(
                "document.documentElement?.dataset.ready || document.getElementById('problem')?.hidden === false"
            )

    def until(self, condition: str) -> None:
        """Wait for something to become true in the page."""
        end = time.monotonic() + WAIT
        while not self.value(f"Boolean({condition})"):
            assert time.monotonic() < end, f"never true: {condition}; {self.problems}"
            time.sleep(0.02)

    def value(self, expression: str):
        """What an expression gives in the page; a promise is waited for."""
        answer = self._ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def press(self, *keys: str) -> None:
        """Real key presses, one after the other."""
        for key in keys:
            typed = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
            self._ask("Input.dispatchKeyEvent", type="keyDown", key=key, **typed)
            self._ask("Input.dispatchKeyEvent", type="keyUp", key=key)

    def click(self, selector: str) -> None:
        """A real click in the middle of an element."""
        box = self.value(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); "
            "e.scrollIntoView({block: 'center'}); "
            "const b = e.getBoundingClientRect(); return [b.left + b.width / 2, b.top + b.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self._ask("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)

    def choose(self, selector: str, value: str) -> None:
        """Put a value into a field or a choice, as typing or choosing does."""
        field = f"document.querySelector({json.dumps(selector)})"
        self.value(
            f"{field}.value = {json.dumps(value)}; "
            f"for (const e of ['input', 'change']) {field}.dispatchEvent(new Event(e));"
        )

    def text(self, selector: str = "body") -> str:
        """All text below the first such element."""
        return self.value(f"document.querySelector({json.dumps(selector)}).textContent")

    def texts(self, selector: str) -> list[str]:
        """The text of each such element."""
        return self.value(f"[...document.querySelectorAll({json.dumps(selector)})].map((e) => e.textContent)")

    def attributes(self, selector: str, name: str) -> list[str | None]:
        """One attribute of each such element."""
        return self.value(
            f"[...document.querySelectorAll({json.dumps(selector)})].map((e) => e.getAttribute({json.dumps(name)}))"
        )

    def count(self, selector: str) -> int:
        return self.value(f"document.querySelectorAll({json.dumps(selector)}).length")

    def picture(self, path: Path) -> None:
        """A PNG of what is seen."""
        path.write_bytes(base64.b64decode(self._ask("Page.captureScreenshot", format="png")["data"]))

    def _mine(self, method: str) -> list[dict]:
        self.value("0")  # whatever was said before this has arrived now
        return [
            event["params"]
            for event in self.browser.events
            if event.get("sessionId") == self._session and event["method"] == method
        ]

    @property
    def problems(self) -> list[str]:
        thrown = [event["exceptionDetails"]["text"] for event in self._mine("Runtime.exceptionThrown")]
        logged = [event["entry"]["text"] for event in self._mine("Log.entryAdded")]
        return thrown + [text for text in logged if "favicon" not in text]

    @property
    def requests(self) -> list[str]:
        """Addresses that the page asked for, in order; data inside the page is not asked for."""
        asked = [event["request"]["url"] for event in self._mine("Network.requestWillBeSent")]
        return [url for url in asked if not url.startswith("data:")]

    def close(self) -> None:
        self.browser.ask("Target.closeTarget", targetId=self._target)
